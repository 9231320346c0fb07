//! Exit statuses, environment variables and files of commands, read from the tables of pages of `docs/reference`, so that
//! help, manual pages and the documentation have one text. Must not depend on the arguments of commands.

const EXIT_STATUS: &str = include_str!("../../../../docs/reference/exit-status.md");
const ENVIRONMENT: &str = include_str!("../../../../docs/reference/environment.md");
const FILES: &str = include_str!("../../../../docs/reference/files.md");

/// A row of a table: an exit status, a variable or a file, and its meaning.
#[derive(Debug, PartialEq, Eq)]
pub struct ReferenceRow {
    pub name: String,
    pub meaning: String,
}

/// Returns the exit statuses that all commands have in common.
pub fn exit_statuses() -> Vec<ReferenceRow> {
    rows(EXIT_STATUS).filter_map(|cells| row(&cells).filter(|row| row.name.parse::<u8>().is_ok())).collect()
}

/// Returns the difference between the exit statuses of a command and those of all. `None` if there is none.
pub fn exit_status_of(command: &str) -> Option<String> {
    rows(EXIT_STATUS).filter_map(|cells| row(&cells)).find(|row| row.name == command).map(|row| row.meaning)
}

/// Returns the environment variables of a command; of an empty name those of all commands.
pub fn environment(command: &str) -> Vec<ReferenceRow> {
    rows_of(ENVIRONMENT, command)
}

/// Returns the files of a command; of an empty name those of all commands.
pub fn files(command: &str) -> Vec<ReferenceRow> {
    rows_of(FILES, command)
}

/// The rows of a table with a column of commands.
fn rows_of(page: &str, command: &str) -> Vec<ReferenceRow> {
    let has_command = |commands: &str| commands.split(", ").any(|one| one == "all" || one == command);
    rows(page)
        .filter_map(|cells| match cells.as_slice() {
            [name, commands, meaning] if has_command(commands) => row(&[name.clone(), meaning.clone()]),
            _ => None,
        })
        .collect()
}

fn row(cells: &[String]) -> Option<ReferenceRow> {
    let [name, meaning] = cells else { return None };
    Some(ReferenceRow { name: name.clone(), meaning: meaning.clone() })
}

/// The cells of all rows of the tables of a page, without their headings.
fn rows(page: &str) -> impl Iterator<Item = Vec<String>> {
    let tables = page.split("\n\n").filter(|block| block.starts_with("| "));
    tables.flat_map(|table| table.lines().skip(2)).map(|line| {
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")).unwrap_or(line);
        cells.split(" | ").map(plain).collect()
    })
}

/// Removes backticks and the targets of links. A link in parentheses is removed as a whole, because it only refers to
/// another page.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        let (label, after) = link.split_once("](").unwrap_or((link, ""));
        let (_, after) = after.split_once(')').unwrap_or(("", after));
        if let (Some(before), Some(after)) = (before.strip_suffix(" ("), after.strip_prefix(')')) {
            text += before;
            rest = after;
        } else {
            text += before;
            text += label;
            rest = after;
        }
    }
    (text + rest).replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_without_markdown() {
        let page =
            "# A\n\n| a | b |\n|---|---|\n| `x`, `y` | see ([c](d.md#e)), [`f`](g.md) |\n| z | g |\n\ntext | text\n";
        let cells: Vec<Vec<String>> = rows(page).collect();
        assert_eq!(cells, [["x, y", "see, f"], ["z", "g"]]);
    }

    #[test]
    fn commands_have_their_rows_and_those_of_all() {
        let names = |rows: Vec<ReferenceRow>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
        assert!(names(environment("compare")).contains(&"NEARFAR_DUCKDB".into()));
        assert!(!names(environment("show")).contains(&"NEARFAR_DUCKDB".into()));
        assert!(names(environment("show")).contains(&"NEARFAR_STORE".into()));
        assert!(names(files("graph")).contains(&"FILE.building".into()));
        assert_eq!(names(files("")), ["$XDG_DATA_HOME/nearfar/results.db"]);
    }

    #[test]
    fn every_exit_status_of_the_program_is_listed() {
        let statuses: Vec<String> = exit_statuses().into_iter().map(|row| row.name).collect();
        assert_eq!(statuses, ["0", "1", "2", "3", "4", "5", "77", "130"]);
        assert!(exit_status_of("expand").is_some_and(|text| text.contains("127")));
        assert_eq!(exit_status_of("map"), None);
    }

    #[test]
    fn rows_name_existing_commands() {
        for cells in [ENVIRONMENT, FILES].into_iter().flat_map(rows) {
            assert_eq!(cells.len(), 3, "{cells:?}");
            for command in cells[1].split(", ") {
                assert!(command == "all" || crate::cli::examples::examples_of(command).is_some(), "{cells:?}");
            }
        }
    }
}
