//! What an address asks for. It is taken apart here and looked up in the results file: names that are not there are not found,
//! whatever they look like.

use super::request::percent_decoded;

/// What can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Runs,
    RunsJson,
    /// News of the whole file.
    Events,
    /// A run's page, by its id.
    Run(String),
    RunJson(String),
    RunEvents(String),
    /// The report of the latest runs.
    Report,
    /// A comparison, or the form that asks for one.
    Compare,
    CompareJson,
}

impl Route {
    /// What a path asks for; none where it is nothing.
    pub fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        match parts[..] {
            [""] => Some(Self::Runs),
            ["runs.json"] => Some(Self::RunsJson),
            ["events"] => Some(Self::Events),
            ["report"] => Some(Self::Report),
            ["compare"] => Some(Self::Compare),
            ["compare.json"] => Some(Self::CompareJson),
            ["runs", name] => {
                let name = percent_decoded(name).filter(|name| !name.is_empty())?;
                Some(match name.strip_suffix(".json") {
                    Some(name) => Self::RunJson(name.into()),
                    None => Self::Run(name),
                })
            }
            ["runs", name, "events"] => Some(Self::RunEvents(percent_decoded(name)?)),
            _ => None,
        }
    }

    /// Whether a program asks, which wants to be told in JSON what is wrong.
    pub fn is_for_programs(&self) -> bool {
        matches!(self, Self::RunsJson | Self::RunJson(_) | Self::CompareJson)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_what_they_name_and_nowhere_else() {
        let cases = [
            ("/", Some(Route::Runs)),
            ("/runs/ab12", Some(Route::Run("ab12".into()))),
            ("/runs/ab12.json", Some(Route::RunJson("ab12".into()))),
            ("/runs/ab12/events", Some(Route::RunEvents("ab12".into()))),
            ("/events", Some(Route::Events)),
            ("/compare", Some(Route::Compare)),
            // A name that no run has.
            ("/runs/..%2f..%2fetc%2fpasswd", Some(Route::Run("../../etc/passwd".into()))),
            ("/../../etc/passwd", None),
            ("/runs/../../etc/passwd", None),
            ("//", None),
            ("/runs/", None),
            ("/runs/%", None),
            ("/runs/%00", None),
            ("/runs", None),
            ("", None),
            ("etc", None),
        ];
        for (path, expected) in cases {
            assert_eq!(Route::of(path), expected, "{path}");
        }
    }
}
