//! The frame of curves: two axes with ticks, grid lines and whiskers. Must not depend on units or on what the curves
//! show.

use crate::axis::Axis;
use crate::svg::{Svg, SvgPath, pixels};

/// The area of the plot in the figure, and its axes.
pub(crate) struct Frame {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) height: f64,
    /// Distance of the ends of the x axis from the edges.
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

    /// Draws the left and the lower edge.
    pub(crate) fn edges(&self, picture: &mut Svg) {
        let (top, bottom) = (pixels(self.top), pixels(self.bottom()));
        let path = format!("M{} {top}V{bottom}H{}", pixels(self.left), pixels(self.right));
        picture.lines.push(SvgPath { class: "axis".into(), path });
    }

    /// Draws the label of a position on the y axis.
    pub(crate) fn level(&self, picture: &mut Svg, value: f64, text: &str) {
        picture.label("e q", self.left - 6.0, self.y(value) + 4.0, text);
    }

    /// Draws a horizontal line.
    pub(crate) fn across(&self, picture: &mut Svg, class: &str, value: f64) {
        let path = format!("M{} {}H{}", pixels(self.left), pixels(self.y(value)), pixels(self.right));
        picture.lines.push(SvgPath { class: class.into(), path });
    }

    /// Draws a vertical line.
    pub(crate) fn upright(&self, picture: &mut Svg, class: &str, value: f64) {
        let path = format!("M{} {}V{}", pixels(self.x(value)), pixels(self.top), pixels(self.bottom()));
        picture.lines.push(SvgPath { class: class.into(), path });
    }

    /// Draws a label below the x axis, at a position in pixels.
    pub(crate) fn below(&self, picture: &mut Svg, x: f64, text: &str) {
        picture.label("c q", x, self.bottom() + 16.0, text);
    }

    /// Draws an interval, if there is one, at a position in pixels.
    pub(crate) fn whisker(&self, picture: &mut Svg, class: &str, x: f64, ends: (Option<f64>, Option<f64>)) {
        if let (Some(low), Some(high)) = ends {
            let path = format!("M{} {}V{}", pixels(x), pixels(self.y(low)), pixels(self.y(high)));
            picture.lines.push(SvgPath { class: class.into(), path });
        }
    }
}

/// A path through positions in pixels.
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
    fn ends_of_axes_are_at_the_edges_or_inset() {
        let axis = || Axis { low: 1.0, high: 100.0, logarithmic: true };
        let frame = Frame { x: axis(), y: axis(), left: 60.0, right: 260.0, top: 30.0, height: 100.0, inside: 10.0 };
        let places = [1.0, 10.0, 100.0, 1e9].map(|value| (frame.x(value), frame.y(value)));
        assert_eq!(places, [(70.0, 130.0), (160.0, 80.0), (250.0, 30.0), (250.0, 30.0)]);
        assert_eq!(through(&places[..3]), "M70 130L160 80L250 30");
    }
}
