//! The commands in README and the documents work when they are pasted: each `nearfar` line of a `sh` block is run as it
//! stands, in order, in an empty folder with the repository's `tests` beside it and the files that the document has readers
//! save: `toml` blocks that begin with a file's name. Only what measures is made smaller.

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The `nearfar` lines of a document's `sh` blocks; a line that ends in a backslash goes on.
fn commands(document: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    for line in document.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            inside = !inside && line == "```sh";
        } else if inside && line.starts_with("nearfar ") {
            commands.push(line.to_string());
        }
    }
    commands
}

/// The files that a document shows: a `toml` block that begins with `# NAME.toml`.
fn files(document: &str) -> Vec<(&str, &str)> {
    let blocks = document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter_map(|block| Some((block.lines().next()?.strip_prefix("# ")?, block))).collect()
}

/// Pasted commands may take minutes; here they need not measure well.
fn smaller(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[1] {
        "run" => command.replacen("nearfar run", "nearfar run --smoke --budget 5s", 1),
        "place" => {
            command.replacen("nearfar place", "nearfar place --max-trials 60", 1).replace("--budget 1m", "--budget 3s")
        }
        "map" if words.contains(&"--measure") => {
            command.replacen("nearfar map --measure", "nearfar map --measure --smoke", 1)
        }
        // It goes on until somebody ends it.
        "serve" => command.replacen("nearfar serve", "timeout --preserve-status --signal INT 2 nearfar serve", 1),
        "measure" if words[2] != "command" => command.replacen("nearfar measure", "nearfar measure --smoke", 1),
        _ => command.to_string(),
    }
}

/// Gives whether it came to a decision; `kept` says whether what was to be kept before was.
fn paste(folder: &Path, command: &str, kept: bool) -> bool {
    let programs = Path::new(env!("CARGO_BIN_EXE_nearfar")).parent().expect("the program lies in a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &smaller(command)]).current_dir(folder).env("PATH", path);
    shell.env("NEARFAR_STATE", folder.join("state"));
    let output = shell.env("NEARFAR_STORE", folder.join("results.db")).output().expect("a shell starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let lacking = [
        "no such program",
        "settings are changed by root",
        "needs root here",
        "no folder on a disk is known",
        "this build of nearfar has no Parquet",
        // Containers: no loop devices, no perf events, no memory controller.
        "far memory (loop)",
        "(perf_event_open)",
        "memory controller",
    ];
    if lacking.iter().any(|words| said.contains(words)) {
        println!("skipped: {command}: {said}");
        return true;
    }
    // A race that was not decided has no winner to be kept.
    if !kept && said.contains("no placement is kept as") {
        println!("skipped: {command}: the race before it was not decided");
        return true;
    }
    // 3: so small a race may well be inconclusive.
    let undecided = ["nearfar place", "nearfar size"].iter().any(|asking| command.starts_with(asking));
    let allowed: &[i32] = if undecided { &[0, 3] } else { &[0] };
    let status = output.status.code().unwrap_or(-1);
    assert!(allowed.contains(&status), "{command}\nended with {}: {said}", output.status);
    status == 0
}

/// Runs what a document shows.
fn follow(document: &str) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for part in ["tests", "crates", "docs"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(part), folder.path().join(part)).expect("links can be made");
    }
    let text = std::fs::read_to_string(Path::new(ROOT).join(document)).expect("the document is there");
    for (name, file) in files(&text) {
        std::fs::write(folder.path().join(name), file).expect("the folder can be written");
    }
    let commands = commands(&text);
    assert!(commands.len() >= 5, "{document} should show how to use the program, found {commands:?}");
    let mut kept = true;
    for command in &commands {
        let decided = paste(folder.path(), command, kept);
        kept &= decided || !command.contains(" --save ");
    }
}

#[test]
fn the_readme_works_when_pasted() {
    follow("README.md");
}

#[test]
fn what_the_documents_show_works_when_pasted() {
    follow("docs/place.md");
    follow("docs/maps.md");
    follow("docs/machine-state.md");
    follow("docs/interrupts.md");
    follow("docs/unixbench.md");
    follow("docs/programs.md");
    follow("docs/crypto.md");
    follow("docs/linear-algebra.md");
    follow("docs/expand.md");
    follow("docs/far-memory.md");
    follow("docs/importing.md");
    follow("docs/studies.md");
    follow("docs/sharing.md");
    follow("docs/packages.md");
    follow("docs/fio.md");
    follow("docs/storage.md");
    follow("docs/graph500.md");
}

#[test]
fn guides_to_first_steps_files_and_pages_work_when_pasted() {
    follow("docs/quick-start.md");
    follow("docs/experiments.md");
    follow("docs/formats.md");
    follow("docs/parquet.md");
    follow("docs/serve.md");
    follow("docs/survey.md");
}

/// The program names the keys that it knows when it meets another one.
#[test]
fn the_guide_has_every_key_of_an_experiment() {
    let guide = std::fs::read_to_string(Path::new(ROOT).join("docs/experiments.md")).expect("the guide is there");
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (top, task) = ("name = 'a'\nquestion = 'b'\n", "[[workload]]\nname = 'chase'\n");
    let strange = [
        format!("{top}strange = 1\n{task}"),
        format!("{top}[repeat]\nstrange = 1\n{task}"),
        format!("{top}[compare]\nstrange = 1\n{task}"),
        format!("{top}{task}strange = 1\n"),
    ];
    for text in strange {
        std::fs::write(folder.path().join("strange.toml"), &text).expect("the folder can be written");
        let mut program = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        let output = program.args(["run", "strange.toml", "--dry-run"]).current_dir(folder.path()).output();
        let said = String::from_utf8_lossy(&output.expect("the program starts").stderr).into_owned();
        let keys = said.split("hint: it has ").nth(1).unwrap_or_else(|| panic!("no keys are named: {said}"));
        for key in keys.trim().split(", ") {
            // Those of sections stand in a table; the sections themselves are headings of one.
            let there = [format!("| `{key}` |"), format!("`[{key}]`"), format!("`[[{key}]]`")];
            assert!(there.iter().any(|row| guide.contains(row)), "docs/experiments.md does not have the key {key}");
        }
    }
}
