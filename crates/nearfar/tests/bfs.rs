//! `nearfar bfs` in one process: several shards, the output, and invalid arguments.

use std::process::{Command, Output};

/// Runs `nearfar bfs`, from a build without the feature `mpi` if scripts/test passes one. MPI is tested in mpi.rs.
fn bfs(args: &[&str]) -> Output {
    let program = std::env::var_os("NEARFAR_DEFAULT_BUILD").unwrap_or_else(|| env!("CARGO_BIN_EXE_nearfar").into());
    Command::new(program).arg("bfs").args(args).output().expect("the program starts")
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = bfs(&[args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

#[test]
fn several_shards_give_the_result_of_one() {
    let one = json(&["--scale", "11"]);
    let five = json(&["--scale", "11", "--parts", "5", "--hubs", "50"]);
    assert_eq!((&one["parts"], &five["parts"], &five["num_mpi_processes"]), (&1.into(), &5.into(), &1.into()));
    assert_eq!((&one["NBFS"], &one["edges"], &one["vertices"]), (&64.into(), &five["edges"], &five["vertices"]));
    let roots = |result: &serde_json::Value| result["roots"].as_array().expect("a list").clone();
    for (one, five) in roots(&one).iter().zip(roots(&five)) {
        for field in ["root", "levels", "nedge", "nedge_with_loops"] {
            assert_eq!(one[field], five[field], "{field}");
        }
    }
    let [min, mean, max] = ["min_TEPS", "harmonic_mean_TEPS", "max_TEPS"].map(|name| one[name].as_f64().expect(name));
    assert!(0.0 < min && min <= mean && mean <= max, "{min} {mean} {max}");
}

#[test]
fn output_has_the_field_names_of_graph500() {
    let output = bfs(&["--scale", "10", "--root", "458", "--quiet"]);
    let text = String::from_utf8(output.stdout).expect("the output is text");
    assert!(output.stderr.is_empty(), "--quiet prints no messages");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(':').next()).collect();
    for name in
        ["SCALE", "edgefactor", "NBFS", "graph_generation", "num_mpi_processes", "construction_time", "min_time"]
    {
        assert!(names.contains(&name), "{name}: {text}");
    }
    for name in ["firstquartile_time", "stddev_time", "max_TEPS", "harmonic_mean_TEPS", "harmonic_stddev_TEPS"] {
        assert!(names.contains(&name), "{name}: {text}");
    }
    assert!(text.contains("SCALE:                      10\n"), "{text}");
}

#[test]
fn invalid_arguments_are_reported_once() {
    for (args, status, expected) in [
        (&["--scale", "0"][..], 2, "scale 0"),
        (
            &["--scale", "1", "--parts", "4"],
            2,
            "2 vertices cannot be distributed to 4 shards\nhint: choose a larger scale",
        ),
        (&["--scale", "31", "--parts", "2"], 77, "a graph of scale 31 needs"),
        (&["--scale", "10", "--parts", "3", "--root", "1024"], 2, "invalid root 1024"),
        (&["--scale", "10", "--parts", "0"], 2, "0 is not in 1..=1024"),
    ] {
        let output = bfs(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        assert!(stderr.matches(expected).count() == 1 && !stderr.contains("panicked"), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
