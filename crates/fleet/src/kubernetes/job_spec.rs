//! The job specification in a pod's config map, with the version of its writer. All nodes share it.

use serde::{Deserialize, Serialize};

use crate::protocol::{OtherVersion, PROTOCOL_VERSION, check_version};
use crate::{JobName, JobSpec, version};

/// Key of the job specification in the config map, and its file name in the pod.
pub const ORDER_KEY: &str = "order.json";

/// Key of the experiment's TOML text.
pub const EXPERIMENT_KEY: &str = "experiment.toml";

/// The job for every node. Each node replaces `{node}` in the arguments by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodJobSpec {
    /// The protocol version of the program that wrote it.
    protocol: u32,
    /// The package version of the program that wrote it.
    program: String,
    pub job: JobName,
    /// Further arguments of `nearfar run`.
    pub words: Vec<String>,
}

impl PodJobSpec {
    /// Creates a specification with the version of this program.
    pub fn new(job: &JobSpec) -> Self {
        Self { protocol: PROTOCOL_VERSION, program: version().into(), job: job.job.clone(), words: job.words.clone() }
    }

    /// Returns the specification as JSON.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts are JSON")
    }

    /// Parses the text of [`Self::to_text`].
    ///
    /// # Errors
    ///
    /// The text is not a job specification, or its protocol version differs; the error names both versions.
    pub fn read(text: &str) -> Result<Self, String> {
        check_version(text).map_err(|writer| match writer {
            Some(writer) => {
                let this = OtherVersion::this_program();
                format!("incompatible protocol: the job is from {writer}, this node has {this}")
            }
            None => "not a job specification".to_string(),
        })?;
        serde_json::from_str(text).map_err(|error| format!("invalid job specification: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_another_protocol_version_are_rejected() {
        let job = JobSpec { job: JobName::of("a", "1"), experiment: String::new(), words: vec!["--smoke".into()] };
        let spec = PodJobSpec::new(&job);
        assert_eq!(PodJobSpec::read(&spec.to_text()), Ok(spec.clone()));
        let newer = spec.to_text().replace(version(), "9.9.9").replace("\"protocol\": 1", "\"protocol\": 7");
        let this = format!("nearfar {} (protocol version 1)", version());
        let expected =
            format!("incompatible protocol: the job is from nearfar 9.9.9 (protocol version 7), this node has {this}");
        assert_eq!(PodJobSpec::read(&newer).unwrap_err(), expected);
        assert_eq!(PodJobSpec::read("{}").unwrap_err(), "not a job specification");
        let invalid = spec.to_text().replace("a-1", "../a");
        assert!(PodJobSpec::read(&invalid).unwrap_err().contains("invalid job name"));
    }
}
