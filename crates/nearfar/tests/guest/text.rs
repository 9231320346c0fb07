//! `text:copy` and `nearfar copy-text`: programs run from copies in memory of the nodes of their CPUs.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::boot::{Boot, JobOutput, boot, disk};
use crate::trials::{assert_invalid, assert_verified};

static OUTPUT: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let drive = disk(directory.path())?;
    boot(&Boot { flags: &["--qemu", &drive], job: include_str!("text.sh"), ..Boot::default() })
});

fn job_output(test: &str) -> Option<&'static JobOutput> {
    OUTPUT.as_ref().inspect_err(|reason| println!("skipped: {test}: {reason}")).ok()
}

/// Returns the words `N1=20` of the lines of a file.
fn nodes_of<'a>(numa_maps: &'a str, file: &'a str) -> Vec<&'a str> {
    let lines = numa_maps.lines().filter(|line| line.contains(&format!("file={file}")));
    let is_node = |word: &&str| word.strip_prefix('N').is_some_and(|rest| rest.contains('='));
    lines.flat_map(|line| line.split(' ').filter(is_node)).collect()
}

#[test]
fn program_and_libraries_run_from_copies_on_the_node_of_their_cpus() {
    let Some(job) = job_output("program_and_libraries_run_from_copies_on_the_node_of_their_cpus") else { return };
    assert_eq!(job.step("disk").status, 0, "{}", job.text("disk.stderr"));
    let maps = job.text("numa-maps");
    for file in ["/data/program", "/usr/lib/x86_64-linux-gnu/libc.so", "/usr/lib/x86_64-linux-gnu/libhwloc.so"] {
        // Some libraries are under /lib.
        let short = file.strip_prefix("/usr").unwrap_or(file);
        let nodes = [nodes_of(&maps, file), nodes_of(&maps, short)].concat();
        assert!(!nodes.is_empty() && nodes.iter().all(|word| word.starts_with("N1=")), "{file}: {maps}");
    }
    // The original is where it was.
    let original = job.json("original", &[0]);
    let by_node = original["files"][0]["by_node"].as_object().expect("an object");
    assert_eq!(by_node.keys().collect::<Vec<_>>(), ["2"], "{original:#}");
}

#[test]
fn copies_are_mounted_only_in_the_namespace_of_the_command() {
    let Some(job) = job_output("copies_are_mounted_only_in_the_namespace_of_the_command") else { return };
    assert!(job.text("mounts-inside").contains("nearfar /data/program tmpfs"), "{}", job.text("mounts-inside"));
    assert!(!job.text("mounts-outside").contains("nearfar "), "{}", job.text("mounts-outside"));
}

/// Returns the pages of `/data/held` in a trial.
fn program_pages(trial: &Value) -> &Value {
    let files = trial["evidence"]["files"].as_array().expect("a list of files");
    let file = files.iter().find(|file| file["path"] == "/data/held").unwrap_or_else(|| panic!("{trial:#}"));
    &file["pages"]
}

#[test]
fn trials_with_copied_text_are_verified() {
    let Some(job) = job_output("trials_with_copied_text_are_verified") else { return };
    let nodes = |trial: &Value| -> Vec<String> {
        program_pages(trial).as_object().expect("an object").keys().cloned().collect()
    };
    // Pages that it writes to are copies in its own memory.
    assert!(nodes(&job.trials("plain")[0]).contains(&"2".into()), "{:#}", job.trials("plain")[0]);
    let copied = &job.trials("copied")[0];
    assert_verified(copied);
    assert_eq!(nodes(copied), ["0"], "{copied:#}");
    assert_eq!(copied["evidence"]["text_copy"], json!({"nodes": "0"}));
}

#[test]
fn programs_that_a_command_runs_are_copied_in_the_second_attempt() {
    let name = "programs_that_a_command_runs_are_copied_in_the_second_attempt";
    let Some(job) = job_output(name) else { return };
    let trials = job.trials("child");
    assert_invalid(&trials[0], "outside nodes 0, whose memory has the copies (most of them: /data/held)");
    let last = trials.last().expect("a trial");
    assert_verified(last);
    assert_eq!(last["evidence"]["text_copy"]["files"], json!(["/data/held"]));
}
