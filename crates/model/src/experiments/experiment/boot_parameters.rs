//! The kernel parameters that an experiment wants to be compared, and which of them were not measured yet.

use super::Experiment;

impl Experiment {
    /// What this experiment has still to be run under, given the kernel command lines under which it was: texts of
    /// [`Experiment::boots`], and an empty one for a start without any of them. Empty when all are measured, and when
    /// the experiment names none.
    pub fn unmeasured_boots(&self, command_lines: &[&str]) -> Vec<&str> {
        let has =
            |line: &str, boot: &str| boot.split_whitespace().all(|word| line.split_whitespace().any(|w| w == word));
        let plain = |line: &str| !self.boots.iter().any(|boot| has(line, boot));
        let without = (!self.boots.is_empty() && !command_lines.iter().any(|line| plain(line))).then_some("");
        let not_yet = |boot: &&str| !command_lines.iter().any(|line| has(line, boot));
        without.into_iter().chain(self.boots.iter().map(String::as_str).filter(not_yet)).collect()
    }
}
