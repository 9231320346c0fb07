//! The recipes of docs/guides/recipes with the real programs: the `sh` blocks of a page run as one script, with another
//! directory and port, and fewer and shorter trials. A program that is missing is skipped with the reason.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

mod ports;
#[path = "scratch/mod.rs"]
#[allow(dead_code)] // other tests use the rest
mod scratch;

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/recipes");
/// The directory that the pages use.
const DIRECTORY: &str = "/srv/recipe";
/// One trial of each candidate on a machine with two CPUs would be five.
const TRIALS: usize = 3;
/// Programs that Debian installs in directories which the PATH of a user may lack. `nearfar` returns 3 if a search this
/// short is inconclusive.
const BEGIN: &str = "PATH=$PATH:/usr/sbin:/sbin\nnearfar() { \"$NEARFAR\" \"$@\" || [ $? = 3 ]; }\n";

struct Recipe {
    page: &'static str,
    /// Commands that succeed if the programs are installed, with Debian's package.
    needs: &'static [(&'static str, &'static str)],
    /// Whether a program is started as another user or in directories of root.
    needs_root: bool,
    port: Option<&'static str>,
    /// Words of the page that make trials shorter; each is on the page.
    shorter: &'static [(&'static str, &'static str)],
}

/// The commands of the `sh` blocks of a page.
fn script(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect::<Vec<&str>>().join("\n")
}

fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the page does not contain {from}");
    text.replace(from, to)
}

fn succeeds(command: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{BEGIN}{command}")]).stdin(Stdio::null());
    shell.output().expect("a shell starts").status.success()
}

/// Returns the reason why the recipe cannot run here.
fn lacking(recipe: &Recipe) -> Option<String> {
    if recipe.needs_root && !succeeds("[ \"$(id -u)\" = 0 ]") {
        return Some("needs root".into());
    }
    let missing = recipe.needs.iter().find(|(test, _)| !succeeds(test));
    missing.map(|(_, package)| format!("a program is missing (Debian's {package})"))
}

/// The command lines of the processes that the script started: their environment names the directory.
fn left_running(dir: &Path) -> Vec<String> {
    let dir = dir.as_os_str().as_encoded_bytes();
    let read = |pid: &u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let is_child = |pid: &u32| read(pid, "environ").windows(dir.len()).any(|bytes| bytes == dir);
    let found = scratch::processes().into_iter().filter(is_child);
    found.map(|pid| String::from_utf8_lossy(&read(&pid, "cmdline")).replace('\0', " ")).collect()
}

/// The trials in the results file.
fn trials(dir: &Path) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["show", "--trials", "--format", "json", "--store"]).arg(dir.join("results.db"));
    let output = command.output().expect("the program starts");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["trials"].as_array().expect("a list").clone()
}

/// Runs the commands of a page.
fn run(recipe: &Recipe) {
    if let Some(reason) = lacking(recipe) {
        println!("skipped: recipe {}: {reason}", recipe.page);
        return;
    }
    let dir = scratch::Scratch::new();
    // Servers of other users read files in it.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("it belongs to this user");
    let page = std::fs::read_to_string(format!("{PAGES}/{}.md", recipe.page)).expect("the page is readable");
    let place = dir.path().join("recipe");
    // The recipe of Redis needs no files.
    let mut commands = script(&page).replace(DIRECTORY, place.to_str().expect("the path is UTF-8"));
    commands = replace(&commands, "--budget 10m", &format!("--max-trials {TRIALS}"));
    if let Some(port) = recipe.port {
        commands = replace(&commands, port, &ports::free().to_string());
    }
    for (from, to) in recipe.shorter {
        commands = replace(&commands, from, to);
    }
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after=1", "120", "sh", "-euc", &format!("{BEGIN}{commands}")]).stdin(Stdio::null());
    shell.current_dir(dir.path()).env("NEARFAR", env!("CARGO_BIN_EXE_nearfar"));
    shell.env("NEARFAR_STATE", dir.path().join("state")).env("NEARFAR_STORE", dir.path().join("results.db"));
    // Without a pipe: a server that is left would keep it open.
    let log = dir.path().join("log");
    let file = std::fs::File::create(&log).expect("the directory is writable");
    shell.stdout(file.try_clone().expect("a handle")).stderr(file);
    let status = shell.status().expect("coreutils has timeout");
    let text = std::fs::read_to_string(&log).expect("the log is UTF-8");
    assert!(status.success(), "{}: {status}\n{text}", recipe.page);
    let trials = trials(dir.path());
    assert_eq!(trials.len(), TRIALS, "{text}");
    for trial in &trials {
        assert!(trial["verdict"] == "valid" || trial["verdict"] == "suspect", "{trial:#}");
        assert!(trial["samples"][0]["value"].as_f64().is_some_and(|value| value > 0.0), "{trial:#}");
    }
    assert_eq!(left_running(dir.path()), Vec::<String>::new(), "nothing is left running");
}

#[test]
fn postgresql_recipe_works() {
    run(&Recipe {
        page: "postgresql",
        needs: &[("ls -d /usr/lib/postgresql/*/bin/initdb && command -v pgbench && id postgres", "postgresql")],
        needs_root: true,
        port: Some("7432"),
        shorter: &[("-T 5", "-T 1"), ("-s 10", "-s 1")],
    });
}

#[test]
fn mariadb_recipe_works() {
    run(&Recipe {
        page: "mariadb",
        needs: &[("command -v mariadbd && id mysql", "mariadb-server"), ("command -v sysbench", "sysbench")],
        needs_root: true,
        port: Some("7306"),
        shorter: &[("--time=5", "--time=1"), ("10000", "1000")],
    });
}

#[test]
fn redis_recipe_works() {
    run(&Recipe {
        page: "redis",
        needs: &[("command -v redis-server", "redis-server"), ("command -v redis-benchmark", "redis-tools")],
        needs_root: false,
        port: Some("7379"),
        shorter: &[("-n 400000", "-n 20000")],
    });
}

#[test]
fn nginx_recipe_works() {
    run(&Recipe {
        page: "nginx",
        needs: &[("command -v nginx", "nginx-light"), ("command -v wrk", "wrk")],
        // Debian's nginx has temporary files in /var/lib.
        needs_root: true,
        port: Some("7080"),
        shorter: &[("-d 5s", "-d 1s")],
    });
}

#[test]
fn memcached_recipe_works() {
    run(&Recipe {
        page: "memcached",
        needs: &[("command -v memcached", "memcached"), ("command -v memcaslap", "libmemcached-tools")],
        needs_root: false,
        port: Some("7211"),
        shorter: &[("-t 5s", "-t 1s")],
    });
}

#[test]
fn java_recipe_works() {
    run(&Recipe {
        page: "java",
        needs: &[("command -v java && command -v javac", "default-jdk-headless"), ("command -v wrk", "wrk")],
        needs_root: false,
        port: Some("7081"),
        shorter: &[("-d 5s", "-d 1s")],
    });
}

#[test]
fn language_model_recipe_works() {
    run(&Recipe {
        page: "language-model",
        needs: &[("/usr/bin/python3 -c 'import numpy'", "python3-numpy")],
        needs_root: false,
        port: None,
        shorter: &[("tokens.py 3", "tokens.py 1")],
    });
}

#[test]
fn compiler_recipe_works() {
    run(&Recipe {
        page: "compiler",
        needs: &[("command -v gcc && command -v ar", "gcc"), ("command -v make", "make")],
        needs_root: false,
        port: None,
        shorter: &[("seq 50", "seq 10")],
    });
}

/// A recipe that is not in the list above would not be tested.
#[test]
fn every_recipe_has_a_test() {
    let source = include_str!("recipes.rs");
    for entry in std::fs::read_dir(PAGES).expect("the directory exists") {
        let name = entry.expect("entries are readable").file_name().into_string().expect("names are UTF-8");
        let name = name.trim_end_matches(".md");
        assert!(name == "README" || source.contains(&format!("page: \"{name}\"")), "{name}.md has no test");
    }
}
