//! Parses the lines of a fio job file into jobs, each with the options of the preceding `[global]` sections and its
//! own, with locations. Must not depend on the meaning of options.

use std::fmt::Display;

use crate::experiments::experiment::ExperimentError;

/// Section whose options all later jobs inherit.
const GLOBAL: &str = "global";

/// A line `key=value`, or only `key`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeyValue<'a> {
    pub key: &'a str,
    pub value: Option<&'a str>,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobSection<'a> {
    pub name: &'a str,
    pub line: usize,
    /// Inherited options first: the last of several with one key takes effect.
    pub entries: Vec<KeyValue<'a>>,
}

/// Creates an error at a line and column.
pub(super) fn error(
    file: &str,
    (line, column): (usize, usize),
    what: impl Display,
    hint: Option<String>,
) -> ExperimentError {
    ExperimentError { file: file.into(), line, column, what: what.to_string(), hint }
}

pub(super) fn sections<'a>(file: &str, text: &'a str) -> Result<Vec<JobSection<'a>>, ExperimentError> {
    let mut global: Vec<KeyValue<'a>> = Vec::new();
    let mut jobs: Vec<JobSection<'a>> = Vec::new();
    let mut inside: Option<&str> = None;
    for (index, whole) in text.lines().enumerate() {
        let line = index + 1;
        // Everything after a `#` or `;` is a comment, at any position: fio has no escape for these characters.
        let content = whole.split([';', '#']).next().unwrap_or_default();
        let column = content.chars().take_while(|letter| letter.is_whitespace()).count() + 1;
        let content = content.trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty()).ok_or_else(|| {
                let hint = "write a section as [name]".to_string();
                error(file, (line, column), format!("'{content}' is not a section"), Some(hint))
            })?;
            inside = Some(name);
            if name != GLOBAL {
                jobs.push(JobSection { name, line, entries: global.clone() });
            }
            continue;
        }
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value.trim_start())),
            None => (content, None),
        };
        let entry = KeyValue { key, value, line, column };
        match (inside, jobs.last_mut()) {
            (Some(GLOBAL), _) => global.push(entry),
            (Some(_), Some(job)) => job.entries.push(entry),
            _ => {
                let hint = "[global] before it makes it an option of all jobs".to_string();
                return Err(error(file, (line, column), format!("'{key}' precedes the first section"), Some(hint)));
            }
        }
    }
    if jobs.is_empty() {
        let hint = "a job is a section such as [random-reads] with rw=randread and size=1g".to_string();
        return Err(error(file, (1, 1), "the file has no job", Some(hint)));
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hinted;

    #[test]
    fn jobs_inherit_options_of_earlier_global_sections() {
        let text =
            "# c\n[global]\nbs=4k ; eight\n\n[one two]\n  rw = randread # x\nstonewall\n[global]\nbs=8k\n[b]\nsize=\n";
        let jobs = sections("f", text).unwrap();
        let words = |job: &JobSection<'_>| {
            job.entries.iter().map(|entry| format!("{}={:?}", entry.key, entry.value)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(jobs.iter().map(|job| (job.name, job.line)).collect::<Vec<_>>(), [("one two", 5), ("b", 10)]);
        assert_eq!(words(&jobs[0]), "bs=Some(\"4k\") rw=Some(\"randread\") stonewall=None");
        assert_eq!(words(&jobs[1]), "bs=Some(\"4k\") bs=Some(\"8k\") size=Some(\"\")");
        assert_eq!((jobs[0].entries[1].line, jobs[0].entries[1].column), (6, 3));
    }

    #[test]
    fn invalid_job_files_return_errors_with_lines() {
        let cases = [
            ("bs=4k\n[a]\n", "f:1:1: 'bs' precedes the first section\nhint: [global]"),
            ("[global]\nbs=4k\n", "f:1:1: the file has no job"),
            ("", "f:1:1: the file has no job"),
            ("[a]\n [b\n", "f:2:2: '[b' is not a section\nhint: write a section as [name]"),
            ("[]\n", "f:1:1: '[]' is not a section"),
        ];
        for (text, expected) in cases {
            let message = sections("f", text).unwrap_err().text_with_hint();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
