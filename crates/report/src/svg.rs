//! A figure of rectangles, lines, dots and labels for light and dark mode, with a description for screen readers. Must
//! not depend on what the figure shows.

use askama::Template;

use crate::figure_style::Theme;

/// The words of the legend of heat maps. The fuller colour is the larger distance.
pub(crate) const BETTER: &str = "better: faster";
pub(crate) const WORSE: &str = "worse: slower";
const LEGEND_SIDE: f64 = 10.0;
const LEGEND_STEP: f64 = 110.0;
const LEGEND_HEAT: f64 = 0.6;

/// The figure, ready for its template.
#[derive(Default, Template)]
#[template(path = "picture.svg")]
pub(crate) struct Svg {
    pub(crate) theme: Theme,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) boxes: Vec<SvgRect>,
    pub(crate) lines: Vec<SvgPath>,
    pub(crate) points: Vec<SvgDot>,
    pub(crate) labels: Vec<SvgText>,
}

pub(crate) struct SvgRect {
    pub(crate) class: &'static str,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) heat: Option<f64>,
    pub(crate) title: String,
}

pub(crate) struct SvgPath {
    pub(crate) class: String,
    pub(crate) path: String,
}

/// A dot with its tooltip.
pub(crate) struct SvgDot {
    /// `point`, or `point open` for a second curve.
    pub(crate) class: &'static str,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) title: String,
}

pub(crate) struct SvgText {
    class: &'static str,
    x: String,
    y: String,
    text: String,
}

impl SvgRect {
    fn opacity(&self) -> String {
        self.heat.map_or(String::new(), |heat| format!(" fill-opacity=\"{heat:.2}\""))
    }
}

impl Svg {
    /// Draws the legend that all heat maps share: the two hues, and their direction.
    pub(crate) fn heat_legend(&mut self, x: f64, y: f64) {
        let entries = [("heat", 0.0, BETTER), ("heat worse", LEGEND_STEP, WORSE)];
        for (class, offset, text) in entries {
            let [left, top, side] = [x + offset, y - LEGEND_SIDE + 1.0, LEGEND_SIDE].map(pixels);
            let (width, height, heat) = (side.clone(), side, Some(LEGEND_HEAT));
            self.boxes.push(SvgRect { class, x: left, y: top, width, height, heat, title: text.into() });
            self.label("q", x + offset + LEGEND_SIDE + 5.0, y, text);
        }
    }

    pub(crate) fn label(&mut self, class: &'static str, x: f64, y: f64, text: &str) {
        self.labels.push(SvgText { class, x: pixels(x), y: pixels(y), text: text.into() });
    }
}

/// One decimal: a tenth of a pixel.
pub(crate) fn pixels(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), Into::into)
}
