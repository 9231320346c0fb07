//! A figure of rectangles, lines, dots and labels for light and dark mode, with a description for screen readers. Must
//! not depend on what the figure shows.

use askama::Template;

/// The figure, ready for its template.
#[derive(Default, Template)]
#[template(path = "picture.svg")]
pub(crate) struct Svg {
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
    pub(crate) fn label(&mut self, class: &'static str, x: f64, y: f64, text: &str) {
        self.labels.push(SvgText { class, x: pixels(x), y: pixels(y), text: text.into() });
    }
}

/// One decimal: a tenth of a pixel.
pub(crate) fn pixels(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), Into::into)
}
