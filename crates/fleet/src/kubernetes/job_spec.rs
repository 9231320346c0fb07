//! What a pod finds beside its program: the order, with the version of who wrote it. Which node it is for is only known there.

use serde::{Deserialize, Serialize};

use crate::protocol::{OtherVersion, PROTOCOL_VERSION, check_version};
use crate::{JobName, JobSpec, version};

/// The order in the map of texts that pods see as a folder.
pub const ORDER_KEY: &str = "order.json";

/// The experiment, as its file has it.
pub const EXPERIMENT_KEY: &str = "experiment.toml";

/// What every node is to run. `{node}` in a word is for the node to fill in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodJobSpec {
    /// The protocol version of the program that wrote it.
    protocol: u32,
    /// The package version of the program that wrote it.
    program: String,
    /// What it is called.
    pub job: JobName,
    /// The further words of `nearfar run`.
    pub words: Vec<String>,
}

impl PodJobSpec {
    /// By this program.
    pub fn new(order: &JobSpec) -> Self {
        Self {
            protocol: PROTOCOL_VERSION,
            program: version().into(),
            job: order.job.clone(),
            words: order.words.clone(),
        }
    }

    /// As it is written.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts are JSON")
    }

    /// Parses the text of [`Self::to_text`].
    ///
    /// # Errors
    ///
    /// The text is not an order, or its protocol version differs; the error names both versions.
    pub fn read(text: &str) -> Result<Self, String> {
        check_version(text).map_err(|writer| match writer {
            Some(writer) => {
                let this = OtherVersion::this_program();
                format!("incompatible protocol: the order is from {writer}, this node has {this}")
            }
            None => "not an order".to_string(),
        })?;
        serde_json::from_str(text).map_err(|error| format!("invalid order: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_another_protocol_version_are_rejected() {
        let order = JobSpec { job: JobName::of("a", "1"), experiment: String::new(), words: vec!["--smoke".into()] };
        let posted = PodJobSpec::new(&order);
        assert_eq!(PodJobSpec::read(&posted.to_text()), Ok(posted.clone()));
        let newer = posted.to_text().replace(version(), "9.9.9").replace("\"protocol\": 1", "\"protocol\": 7");
        let this = format!("nearfar {} (protocol version 1)", version());
        let expected = format!(
            "incompatible protocol: the order is from nearfar 9.9.9 (protocol version 7), this node has {this}"
        );
        assert_eq!(PodJobSpec::read(&newer).unwrap_err(), expected);
        assert_eq!(PodJobSpec::read("{}").unwrap_err(), "not an order");
        let strange = posted.to_text().replace("a-1", "../a");
        assert!(PodJobSpec::read(&strange).unwrap_err().contains("is no name of a job"));
    }
}
