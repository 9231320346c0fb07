//! Kernel boot parameters that an experiment compares, and which of them are still unmeasured.

use super::Experiment;

impl Experiment {
    /// Returns the boot parameters under which this experiment still has to run, given the kernel command lines of its
    /// runs: texts of [`Experiment::boots`], and an empty text for a boot without any of them. Empty if all are
    /// measured or the experiment names none.
    pub fn unmeasured_boots(&self, command_lines: &[&str]) -> Vec<&str> {
        let has =
            |line: &str, boot: &str| boot.split_whitespace().all(|word| line.split_whitespace().any(|w| w == word));
        let plain = |line: &str| !self.boots.iter().any(|boot| has(line, boot));
        let without = (!self.boots.is_empty() && !command_lines.iter().any(|line| plain(line))).then_some("");
        let not_yet = |boot: &&str| !command_lines.iter().any(|line| has(line, boot));
        without.into_iter().chain(self.boots.iter().map(String::as_str).filter(not_yet)).collect()
    }
}
