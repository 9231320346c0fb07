//! Placement of the program and libraries of a command: the part `text:copy` of a placement's name. Must not copy files.

use super::{PlacementError, parts};
use crate::values::placement::Placement;

const PREFIX: &str = "text:";
const COPY: &str = "text:copy";

/// Splits the name of a placement into the rest and whether the command gets copies of its program and libraries.
pub(super) fn split(text: &str) -> Result<(String, bool), String> {
    let (part, rest) = parts::split_one(text, "place program text", |part| part.starts_with(PREFIX))?;
    match part {
        Some(part) if part != COPY => Err(format!("'{part}' does not place program text; valid part: {COPY}")),
        Some(_) if rest == "kernel" => Err(no_cpus()),
        part => Ok((rest, part.is_some())),
    }
}

fn no_cpus() -> String {
    format!("{COPY} requires CPUs whose memory node gets the copies; add a CPU policy, as in compact+{COPY}")
}

/// Adds the copies to a placement whose CPUs are already chosen.
pub(super) fn place(placement: &mut Placement) -> Result<(), PlacementError> {
    if !placement.is_pinned() {
        return Err(PlacementError::Invalid(no_cpus()));
    }
    placement.copies_text = true;
    placement.reason = format!("{}; its own copy of program and libraries there", placement.reason);
    Ok(())
}

/// Adds the copies to a placement that has a name.
pub(crate) fn with_text_copy(placement: &Placement) -> Result<Placement, PlacementError> {
    let mut placement = Placement { name: parts::added(&placement.name, COPY), ..placement.clone() };
    place(&mut placement)?;
    Ok(placement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_parts_are_split_from_names() {
        let cases = [
            ("compact+text:copy", "compact", true),
            ("compact+text:copy+interleave", "compact+interleave", true),
            ("-C 0-3 text:copy -m 0", "-C 0-3 -m 0", true),
            ("compact+interleave", "compact+interleave", false),
        ];
        for (text, rest, copies) in cases {
            assert_eq!(split(text).unwrap(), (rest.to_string(), copies), "{text}");
        }
        for (invalid, message) in [
            ("compact+text:move", "'text:move' does not place program text; valid part: text:copy"),
            ("compact+text:copy+text:copy", "text:copy and text:copy both place program text"),
            ("text:copy", "text:copy requires CPUs"),
            ("kernel+text:copy", "text:copy requires CPUs"),
        ] {
            let error = split(invalid).unwrap_err();
            assert!(error.contains(message), "{invalid}: {error}");
        }
    }
}
