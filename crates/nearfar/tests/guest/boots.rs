//! Two boots of one machine, whole and cut into nodes (`numa=fake`), side by side: the way in which a setting of the
//! boot is compared.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::boot::{Boot, boot};
use crate::trials::assert_proven;

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env_remove("NEARFAR_STORE").arg("--store").arg(store).args(args).output().expect("the program starts")
}

#[test]
fn two_boots_are_two_columns() {
    let name = "two_boots_are_two_columns";
    let folder = tempfile::tempdir().expect("a scratch folder");
    let both = folder.path().join("both.db");
    // Debian's cloud kernel is built without numa=fake.
    let plain = ["--shape", "plain", "--kernel", "full"];
    let fake = [&plain[..], &["--append", "numa=fake=4"]].concat();
    for (flags, nodes, file) in [(&plain[..], 1, "plain.db"), (&fake, 4, "fake.db")] {
        let store = folder.path().join(file);
        let ran = match boot(&Boot { flags, job: include_str!("boot.sh"), store: Some(&store) }) {
            Ok(ran) => ran,
            Err(why) => return println!("skipped: {name}: {why}"),
        };
        let map = ran.json("map", &[0]);
        assert_eq!(map["counts"]["numa"], nodes, "{map:#}");
        // hwloc before 2.10 shows one node where several share their cpus.
        assert!(map["numa"].as_array().expect("nodes").iter().all(|node| node["cpus"] == "0-3"), "{map:#}");
        if ran.has("numactl") {
            let lines = |step: &str| -> Vec<String> {
                let keep = |line: &&str| !line.contains(" free: ");
                ran.text(step).lines().filter(keep).map(|line| line.trim_end().into()).collect()
            };
            assert_eq!(lines("numactl-twin"), lines("numactl"));
        }
        ran.trials("stream").iter().for_each(assert_proven);
        let imported = nearfar(&both, &["import", store.to_str().expect("a path in text")]);
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    }
    let compared = nearfar(&both, &["compare", "--by", "boot", "--format", "json"]);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    let compared: Value = serde_json::from_slice(&compared.stdout).expect("compare prints JSON");
    assert_eq!(compared["columns"].as_array().map(Vec::len), Some(2), "{compared:#}");
    let rows = compared["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["values"].as_object().is_some_and(|values| values.len() == 2)), "{compared:#}");
}
