//! Compares two boots of one machine, with one memory node and divided into four (`numa=fake`), as boot parameters are
//! compared.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::boot::{Boot, DIED, MISSING, boot, boot_in_vain};
use crate::trials::assert_verified;

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env_remove("NEARFAR_STORE").arg("--store").arg(store).args(args).output().expect("the program starts")
}

#[test]
fn boots_with_different_parameters_are_separate_columns() {
    let name = "boots_with_different_parameters_are_separate_columns";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let both = directory.path().join("both.db");
    // Debian's cloud kernel is built without numa=fake.
    let plain = ["--shape", "plain", "--kernel", "full"];
    let fake = [&plain[..], &["--append", "numa=fake=4"]].concat();
    let next = [
        "next: boot with the kernel parameters numa=fake=4 and rerun the command",
        "next: boot without numa=fake=4 and rerun the command",
    ];
    for (flags, nodes, file, next) in [(&plain[..], 1, "plain.db", next[0]), (&fake, 4, "fake.db", next[1])] {
        let store = directory.path().join(file);
        let job = match boot(&Boot { flags, job: include_str!("boot.sh"), store: Some(&store), ..Boot::default() }) {
            Ok(job) => job,
            Err(reason) => return println!("skipped: {name}: {reason}"),
        };
        let map = job.json("map", &[0]);
        assert_eq!(map["counts"]["numa"], nodes, "{map:#}");
        // hwloc before 2.10 reports one node if several share their CPUs.
        assert!(map["numa"].as_array().expect("nodes").iter().all(|node| node["cpus"] == "0-3"), "{map:#}");
        if job.has("numactl") {
            let lines = |step: &str| -> Vec<String> {
                let keep = |line: &&str| !line.contains(" free: ");
                job.text(step).lines().filter(keep).map(|line| line.trim_end().into()).collect()
            };
            assert_eq!(lines("numactl-twin"), lines("numactl"));
        }
        let trials = job.trials("run");
        let streams: Vec<&Value> = trials.iter().filter(|trial| trial["workload"] == "stream").collect();
        streams.iter().for_each(|trial| assert_verified(trial));
        // With one node there is nothing to interleave over.
        let interleaved = streams.iter().filter(|trial| trial["placement"] == "kernel+interleave").count();
        assert_eq!(interleaved > 0, nodes > 1, "{trials:#?}");
        let stderr = job.text("run.stderr");
        assert!(stderr.contains(next), "{stderr}");
        let imported = nearfar(&both, &["import", store.to_str().expect("a UTF-8 path")]);
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    }
    // Both boots of the experiment are in one store.
    let compared = nearfar(&both, &["compare", "--by", "boot", "--format", "json"]);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    let compared: Value = serde_json::from_slice(&compared.stdout).expect("compare prints JSON");
    assert_eq!(compared["columns"].as_array().map(Vec::len), Some(2), "{compared:#}");
    let rows = compared["rows"].as_array().expect("rows");
    let in_both = rows.iter().filter(|row| row["values"].as_object().is_some_and(|values| values.len() == 2));
    // Interleaved cells exist only in the boot with several nodes.
    let tests: Vec<&str> = in_both.filter_map(|row| row["test"].as_str()).collect();
    assert!(tests.iter().any(|test| test.contains("stream")), "{compared:#}");
    assert!(tests.iter().any(|test| test.contains("chase")), "{compared:#}");
    assert!(!tests.iter().any(|test| test.contains("interleave")), "{compared:#}");
    // The experiment compares interleaved memory under the other boot with the plain boot.
    let compared = nearfar(&both, &["compare", "--format", "json"]);
    let compared: Value = serde_json::from_slice(&compared.stdout).expect("compare prints JSON");
    assert_eq!(compared["baseline"], "plain, kernel", "{compared:#}");
    assert!(compared["columns"].as_array().is_some_and(|all| all.contains(&"numa=fake=4, kernel+interleave".into())));
}

#[test]
fn boot_without_end_is_ended() {
    let output = boot_in_vain("5").expect("scripts/guest starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(MISSING) => println!("skipped: boot_without_end_is_ended: {stderr}"),
        status => {
            assert_eq!(status, Some(DIED), "{stderr}");
            assert!(stderr.starts_with("guest: the guest did not boot within 5 s;"), "{stderr}");
        }
    }
}
