//! The frame of curves: two axes on a picture, and what every curve has: ticks, lines across and upright, whiskers. Knows no units,
//! and not what the curves are of.

use crate::axis::Axis;
use crate::svg::{Svg, SvgPath, pixels};

/// Where values stand on a picture.
pub(crate) struct Frame {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) height: f64,
    /// The ends of the x axis stand so far inside of the edges.
    pub(crate) inside: f64,
}

impl Frame {
    pub(crate) fn x(&self, value: f64) -> f64 {
        self.left + self.inside + self.x.share(value) * (self.right - self.left - 2.0 * self.inside)
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - self.y.share(value))
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The left and the lower edge.
    pub(crate) fn edges(&self, picture: &mut Svg) {
        let (top, bottom) = (pixels(self.top), pixels(self.bottom()));
        let path = format!("M{} {top}V{bottom}H{}", pixels(self.left), pixels(self.right));
        picture.lines.push(SvgPath { class: "axis".into(), path });
    }

    /// What a height on the left is.
    pub(crate) fn level(&self, picture: &mut Svg, value: f64, text: &str) {
        picture.label("e q", self.left - 6.0, self.y(value) + 4.0, text);
    }

    /// A line at a height.
    pub(crate) fn across(&self, picture: &mut Svg, class: &str, value: f64) {
        let path = format!("M{} {}H{}", pixels(self.left), pixels(self.y(value)), pixels(self.right));
        picture.lines.push(SvgPath { class: class.into(), path });
    }

    /// A line from top to bottom.
    pub(crate) fn upright(&self, picture: &mut Svg, class: &str, value: f64) {
        let path = format!("M{} {}V{}", pixels(self.x(value)), pixels(self.top), pixels(self.bottom()));
        picture.lines.push(SvgPath { class: class.into(), path });
    }

    /// What stands below, at a place in pixels.
    pub(crate) fn below(&self, picture: &mut Svg, x: f64, text: &str) {
        picture.label("c q", x, self.bottom() + 16.0, text);
    }

    /// An interval, at a place in pixels, where there is one.
    pub(crate) fn whisker(&self, picture: &mut Svg, class: &str, x: f64, ends: (Option<f64>, Option<f64>)) {
        if let (Some(low), Some(high)) = ends {
            let path = format!("M{} {}V{}", pixels(x), pixels(self.y(low)), pixels(self.y(high)));
            picture.lines.push(SvgPath { class: class.into(), path });
        }
    }
}

/// A line through places in pixels.
pub(crate) fn through(places: &[(f64, f64)]) -> String {
    let step = |(index, (x, y)): (usize, &(f64, f64))| {
        format!("{}{} {}", if index == 0 { "M" } else { "L" }, pixels(*x), pixels(*y))
    };
    places.iter().enumerate().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_axes_stand_at_the_edges_and_inside_of_them_where_that_is_asked() {
        let axis = || Axis { low: 1.0, high: 100.0, logarithmic: true };
        let frame = Frame { x: axis(), y: axis(), left: 60.0, right: 260.0, top: 30.0, height: 100.0, inside: 10.0 };
        let places = [1.0, 10.0, 100.0, 1e9].map(|value| (frame.x(value), frame.y(value)));
        assert_eq!(places, [(70.0, 130.0), (160.0, 80.0), (250.0, 30.0), (250.0, 30.0)]);
        assert_eq!(through(&places[..3]), "M70 130L160 80L250 30");
    }
}
