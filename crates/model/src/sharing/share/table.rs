//! Anonymises an imported table. Its tests may be command lines, as in hyperfine; columns and notes are free text in
//! which only private words are replaced, so they are printed for review.

use super::pseudonyms::Pseudonyms;
use super::{ShareOptions, SharedTable};
use crate::values::record::{ImportedRow, ImportedTable};

pub(super) fn share(table: &ImportedTable, options: &ShareOptions) -> SharedTable {
    let mut words = Pseudonyms::new(&options.names);
    if !options.keep_commands {
        hide_commands(table, &mut words);
    }
    let rows = table.rows.iter().map(|row| share_row(row, &mut words)).collect();
    let columns = distinct(table.columns.iter().map(|column| words.sentence(column)).collect());
    let notes = table.notes.iter().map(|note| words.sentence(note)).collect();
    let name = words.sentence(&table.name);
    SharedTable { table: ImportedTable { name, columns, rows, notes }, taken: words.taken }
}

fn share_row(row: &ImportedRow, words: &mut Pseudonyms) -> ImportedRow {
    let test = words.pseudonym(&row.test).unwrap_or_else(|| words.sentence(&row.test));
    ImportedRow { test, metric: words.sentence(&row.metric), unit: words.public(&row.unit), ..row.clone() }
}

/// Replaces commands imported from hyperfine, which are recognised only by their metrics.
fn hide_commands(table: &ImportedTable, words: &mut Pseudonyms) {
    let has = |test: &str, metric: &str| table.rows.iter().any(|row| row.test == test && row.metric == metric);
    let mut number = 0;
    for row in &table.rows {
        let is_command = row.metric == "time" && row.unit == "s" && (has(&row.test, "user") || !row.samples.is_empty());
        if is_command && words.pseudonym(&row.test).is_none() {
            number += 1;
            words.replace(&row.test, &format!("command-{number}"));
            words.count("command lines");
        }
    }
}

/// Makes column names unique after replacements.
fn distinct(columns: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for column in columns {
        let mut name = column.clone();
        let mut number = 1;
        while out.contains(&name) {
            number += 1;
            name = format!("{column} {number}");
        }
        out.push(name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::workload::Better;

    fn row(test: &str, metric: &str) -> ImportedRow {
        ImportedRow {
            test: test.into(),
            metric: metric.into(),
            unit: "s".into(),
            better: Better::Lower,
            values: vec![Some(1.5), None],
            published_change_percent: None,
            samples: Vec::new(),
        }
    }

    fn table() -> ImportedTable {
        let command = "./payroll --password=hunter2";
        ImportedTable {
            name: "basalt".into(),
            columns: vec!["/home/alice/a".into(), "/home/alice/b".into()],
            rows: vec![row(command, "time"), row(command, "user"), row("dhrystone", "throughput")],
            notes: vec![format!("1 runs of '{command}' did not end well")],
        }
    }

    #[test]
    fn commands_paths_and_names_are_removed() {
        let options = ShareOptions { names: vec!["basalt".into()], ..ShareOptions::default() };
        let SharedTable { table, taken } = share(&table(), &options);
        assert_eq!(table.name, "NAME");
        assert_eq!(table.columns, ["PATH", "PATH 2"]);
        let tests: Vec<&str> = table.rows.iter().map(|row| row.test.as_str()).collect();
        assert_eq!(tests, ["command-1", "command-1", "dhrystone"]);
        assert_eq!(table.notes, ["1 runs of 'command-1' did not end well"]);
        assert_eq!(table.rows[0].values, [Some(1.5), None]);
        assert_eq!((taken["command lines"], taken["paths"]), (1, 2));
    }

    #[test]
    fn commands_are_kept_on_request() {
        let SharedTable { table, .. } =
            share(&table(), &ShareOptions { keep_commands: true, ..ShareOptions::default() });
        assert_eq!(table.rows[0].test, "PATH --password=hunter2");
    }
}
