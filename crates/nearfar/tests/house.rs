//! Checks ARCHITECTURE.md: the table of crates against cargo's metadata, and the named tests against the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn architecture() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md exists")
}

/// Own crates that each crate uses, according to cargo, without development dependencies.
fn actual_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs this test");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages is a list");
    let name = |value: &serde_json::Value| value["name"].as_str().expect("names are text").to_string();
    let own: BTreeSet<String> = packages.iter().map(name).collect();
    let uses = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies is a list");
        let normal = dependencies.iter().filter(|dependency| dependency["kind"].is_null());
        normal.map(name).filter(|dependency| own.contains(dependency)).collect()
    };
    packages.iter().map(|package| (name(package), uses(package))).collect()
}

/// The same according to ARCHITECTURE.md: the first column of the table is a crate, the third lists the crates it uses.
fn documented_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let text = architecture();
    let table = text.split("\n## Crates\n").nth(1).expect("the crates have a section");
    let rows = table.split("\n## ").next().into_iter().flat_map(str::lines).filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let crates =
            |text: &str| text.split(',').map(|name| name.trim().to_string()).filter(|name| name != "–").collect();
        (columns[1].trim_matches('`').to_string(), crates(columns[3]))
    })
    .collect()
}

#[test]
fn crates_table_matches_cargo_metadata() {
    let (documented, actual) = (documented_dependencies(), actual_dependencies());
    assert_eq!(documented, actual, "left: ARCHITECTURE.md, right: cargo; update the table");
}

/// Invariants name their tests in backticks, followed by the file in parentheses: `` `test_name` (CRATE/PATH.rs) ``.
#[test]
fn tests_named_in_architecture_exist() {
    let text = architecture();
    let section = text.split("\n## Invariants").nth(1).and_then(|rest| rest.split("\n## ").next());
    let mut names: Vec<&str> = Vec::new();
    let mut count = 0;
    for (index, piece) in section.expect("the invariants have a section").split('`').enumerate() {
        let is_code = index % 2 == 1;
        if is_code && piece.contains('_') && piece.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
            names.push(piece);
        }
        let file = piece.split_once('(').and_then(|(_, rest)| rest.split_once(".rs)"));
        if let Some((file, _)) = file.filter(|_| !is_code) {
            let path = root().join("crates").join(format!("{file}.rs"));
            let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for name in names.drain(..) {
                assert!(source.contains(&format!("fn {name}(")), "{} has no test {name}", path.display());
                count += 1;
            }
        }
    }
    assert!(names.is_empty(), "no file is named for {names:?}");
    assert!(count >= 15, "only {count} tests are named in ARCHITECTURE.md");
}
