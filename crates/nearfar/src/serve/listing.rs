//! Describes the state of the results file and of a run, as text and as a short id that changes with the state.

use model::values::record::VerdictCounts;
use store::{LiveProgress, Progress, StoreVersion};

/// Returns an id of the state of the results file; equal ids mean equal states.
pub fn extent_id(extent: StoreVersion) -> String {
    let StoreVersion { runs, ended, trials, tables, live, live_ended, periods } = extent;
    format!("{runs}-{ended}-{trials}-{tables}-{live}-{live_ended}-{periods}")
}

/// Returns text such as `3 runs, 120 trials`.
pub fn extent_in_words(extent: StoreVersion) -> String {
    format!("{}, {}", counted(extent.runs, "run"), counted(extent.trials, "trial"))
}

/// Returns an id of the state of a run; equal ids mean equal states.
pub fn progress_id(progress: &Progress) -> String {
    format!("{}{}", progress.trials, if progress.ended.is_some() { "-ended" } else { "" })
}

/// Returns an id of the state of an experiment on a running service; equal ids mean equal states.
pub fn live_progress_id(progress: LiveProgress) -> String {
    format!("{}{}", progress.periods, if progress.has_ended { "-ended" } else { "" })
}

/// Returns text such as `120 periods so far`.
pub fn live_progress_in_words(progress: LiveProgress) -> String {
    let so_far = if progress.has_ended { "" } else { " so far" };
    format!("{}{so_far}", counted(progress.periods, "period"))
}

/// Returns text such as `12 trials so far: 11 valid, 1 suspect`.
pub fn progress_in_words(progress: &Progress) -> String {
    let VerdictCounts { valid, suspect, invalid } = progress.verdicts;
    let counts: Vec<String> = [(valid, "valid"), (suspect, "suspect"), (invalid, "invalid")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let so_far = if progress.ended.is_some() { "" } else { " so far" };
    let counts = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
    format!("{}{so_far}{counts}", counted(progress.trials, "trial"))
}

fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::values::record::EndReason;

    #[test]
    fn progress_id_changes_with_trials_and_end() {
        let some = Progress { trials: 3, verdicts: VerdictCounts::default(), ended: None };
        let more = Progress { trials: 4, ..some.clone() };
        let ended = Progress { ended: Some(EndReason::Budget), ..some.clone() };
        assert_ne!(progress_id(&some), progress_id(&more));
        assert_ne!(progress_id(&some), progress_id(&ended));
        assert_eq!(progress_in_words(&some), "3 trials so far");
        let verdicts = VerdictCounts { valid: 2, suspect: 0, invalid: 1 };
        let one = Progress { trials: 1, verdicts, ..ended };
        assert_eq!(progress_in_words(&one), "1 trial: 2 valid, 1 invalid");
    }
}
