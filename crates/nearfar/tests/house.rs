//! Holds ARCHITECTURE.md's table of rooms against what cargo says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Room to the rooms that it uses, as cargo knows them (dependencies of tests left out).
fn built() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs this test");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages is a list");
    let name = |value: &serde_json::Value| value["name"].as_str().expect("names are text").to_string();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let uses = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies is a list");
        let normal = dependencies.iter().filter(|dependency| dependency["kind"].is_null());
        normal.map(name).filter(|dependency| ours.contains(dependency)).collect()
    };
    packages.iter().map(|package| (name(package), uses(package))).collect()
}

/// The same as drawn: rows of the table whose first column is a crate and whose third lists crates.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let table = text.split("## The rooms").nth(1).expect("the rooms have a section");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let words =
            |text: &str| text.split(',').map(|word| word.trim().to_string()).filter(|word| word != "–").collect();
        (columns[1].trim_matches('`').to_string(), words(columns[3]))
    })
    .take_while(|(name, _)| !name.contains(' '))
    .collect()
}

#[test]
fn rooms_are_as_drawn() {
    assert_eq!(drawn(), built(), "left: ARCHITECTURE.md, right: cargo; change the drawing first");
}
