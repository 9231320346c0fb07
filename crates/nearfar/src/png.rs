//! Renders figures as PNG, with the fonts of the system. Must not decide what a figure shows.

use std::error::Error;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::error::{CliError, CliStatus};

/// Pixels per unit of the figure: sharp on screens of two pixels per point, and in print at 10 cm width.
const SCALE: f32 = 2.0;
/// The family that figures name and Debian installs; without it, any other family of the system.
const FAMILY: &str = "DejaVu Sans";

/// Renders an SVG without media queries and CSS variables.
pub fn png(svg: &str) -> Result<Vec<u8>, CliError> {
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    let has_family = |name: &str| fonts.faces().any(|face| face.families.iter().any(|(family, _)| family == name));
    let any = || fonts.faces().next().and_then(|face| face.families.first()).map(|(family, _)| family.clone());
    let family = if has_family(FAMILY) { Some(FAMILY.into()) } else { any() };
    let family: String = family.ok_or_else(no_font)?;
    fonts.set_sans_serif_family(family);
    let tree = Tree::from_str(svg, &options).map_err(|error| cannot_render(&error))?;
    let size = tree.size();
    let [width, height] = [size.width(), size.height()].map(|length| (length * SCALE).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or_else(|| CliError::failure("the figure has no area"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| cannot_render(&error))
}

fn cannot_render(error: &dyn Error) -> CliError {
    CliError::failure(format!("cannot render the figure as PNG: {error}"))
}

fn no_font() -> CliError {
    CliError::with(CliStatus::Skipped, "cannot render text as PNG: no font is installed")
        .hint("install a font, such as the package fonts-dejavu-core, or use --format svg")
}
