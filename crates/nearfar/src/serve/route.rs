//! Parses URL paths. Names of runs are only looked up in the results file, so any other name is not found.

use super::request::percent_decoded;

/// A resource of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Runs,
    RunsJson,
    /// Events of the whole results file.
    Events,
    /// The page of a run, by its id.
    Run(String),
    RunJson(String),
    RunEvents(String),
    /// The page of an experiment on a running service, by its id.
    Live(String),
    LiveJson(String),
    LiveEvents(String),
    /// The report of the latest runs.
    Report,
    /// A comparison, or the form for one.
    Compare,
    CompareJson,
    /// Metrics for Prometheus.
    Metrics,
}

impl Route {
    /// Parses a path; returns `None` if there is no such resource.
    pub fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        match parts[..] {
            [""] => Some(Self::Runs),
            ["runs.json"] => Some(Self::RunsJson),
            ["events"] => Some(Self::Events),
            ["report"] => Some(Self::Report),
            ["compare"] => Some(Self::Compare),
            ["metrics"] => Some(Self::Metrics),
            ["compare.json"] => Some(Self::CompareJson),
            ["runs", name] => page_or_json(name, Self::Run, Self::RunJson),
            ["runs", name, "events"] => Some(Self::RunEvents(percent_decoded(name)?)),
            ["live", name] => page_or_json(name, Self::Live, Self::LiveJson),
            ["live", name, "events"] => Some(Self::LiveEvents(percent_decoded(name)?)),
            _ => None,
        }
    }

    /// Whether errors are sent as JSON instead of a page.
    pub fn is_json(&self) -> bool {
        matches!(self, Self::RunsJson | Self::RunJson(_) | Self::LiveJson(_) | Self::CompareJson)
    }
}

fn page_or_json(name: &str, page: fn(String) -> Route, json: fn(String) -> Route) -> Option<Route> {
    let name = percent_decoded(name).filter(|name| !name.is_empty())?;
    Some(match name.strip_suffix(".json") {
        Some(name) => json(name.into()),
        None => page(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_paths_have_a_route() {
        let cases = [
            ("/", Some(Route::Runs)),
            ("/runs/ab12", Some(Route::Run("ab12".into()))),
            ("/runs/ab12.json", Some(Route::RunJson("ab12".into()))),
            ("/runs/ab12/events", Some(Route::RunEvents("ab12".into()))),
            ("/live/ab12", Some(Route::Live("ab12".into()))),
            ("/live/ab12.json", Some(Route::LiveJson("ab12".into()))),
            ("/live/ab12/events", Some(Route::LiveEvents("ab12".into()))),
            ("/live/", None),
            ("/events", Some(Route::Events)),
            ("/compare", Some(Route::Compare)),
            ("/metrics", Some(Route::Metrics)),
            ("/metrics/", None),
            // No run has this name.
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
