//! What a pod finds beside its program: the order, with the version of who wrote it. Which node it is for is only known there.

use serde::{Deserialize, Serialize};

use crate::talk::same_version;
use crate::{JobName, Order, version};

/// The order in the map of texts that pods see as a folder.
pub const ORDER_KEY: &str = "order.json";

/// The experiment, as its file has it.
pub const EXPERIMENT_KEY: &str = "experiment.toml";

/// What every node is to run. `{node}` in a word is for the node to fill in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// The version of who wrote it.
    program: String,
    /// What it is called.
    pub job: JobName,
    /// The further words of `nearfar run`.
    pub words: Vec<String>,
}

impl Posted {
    /// By this program.
    pub fn new(order: &Order) -> Self {
        Self { program: version().into(), job: order.job.clone(), words: order.words.clone() }
    }

    /// As it is written.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts are JSON")
    }

    /// Reads it; another version's is refused by its version alone.
    pub fn read(text: &str) -> Result<Self, String> {
        same_version(text).map_err(|theirs| match theirs {
            Some(theirs) => format!("this is nearfar {}, the order was written by version {theirs}", version()),
            None => "it is no order".to_string(),
        })?;
        serde_json::from_str(text).map_err(|error| format!("it makes no sense: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_by_the_version_that_wrote_them() {
        let order = Order { job: JobName::of("a", "1"), experiment: String::new(), words: vec!["--smoke".into()] };
        let posted = Posted::new(&order);
        assert_eq!(Posted::read(&posted.to_text()), Ok(posted.clone()));
        let newer = posted.to_text().replace(version(), "9.9.9");
        assert!(Posted::read(&newer).unwrap_err().ends_with("the order was written by version 9.9.9"));
        assert_eq!(Posted::read("{}").unwrap_err(), "it is no order");
        let strange = posted.to_text().replace("a-1", "../a");
        assert!(Posted::read(&strange).unwrap_err().contains("is no name of a job"));
    }
}
