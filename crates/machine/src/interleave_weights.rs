//! The kernel's weights of memory nodes for weighted interleaving: reads them, and writes them until `nearfar restore` or a
//! reboot. Must not choose weights.

use std::collections::BTreeMap;
use std::path::Path;

use model::placements::measured_map::{KernelWeights, WEIGHTS_DIR as DIR, WeightWrite, weight_path};
use model::values::id_set::NodeId;
use model::values::undo::SettingTarget;

use crate::sysfs;
use crate::undo::{AppliedSettings, ChangeError, SettingsRoot};

/// Names of the file that lets the kernel derive the weights (Linux 6.16). Kernels in which `auto` is a macro for
/// `__auto_type` give the file that name.
const AUTO: [&str; 2] = ["auto", "__auto_type"];

/// Name in the undo journal.
const SETTING: &str = "interleave-weights";

/// Returns the present weights; `None` if the kernel has no weighted interleaving.
pub fn read(root: &Path) -> Option<KernelWeights> {
    let names = root.join(DIR).is_dir().then(|| sysfs::names(&root.join(DIR)))?;
    let weight = |name: String| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        Some((NodeId(node), sysfs::read_text(root, &format!("{DIR}/{name}")).ok()?.parse().ok()?))
    };
    let auto = auto_path(root).and_then(|path| sysfs::read_text(root, &path).ok());
    Some(KernelWeights {
        auto: auto.map(|text| text == "true"),
        weights: names.into_iter().filter_map(weight).collect(),
    })
}

/// Returns the location of the journal of changed weights.
pub fn journal_of(site: &SettingsRoot) -> SettingsRoot {
    site.kept_for(SETTING)
}

/// Returns what [`apply`] writes, in this order.
pub fn writes(root: &Path, weights: &BTreeMap<NodeId, u8>) -> Vec<WeightWrite> {
    changes(root, weights).into_iter().map(|(path, value)| WeightWrite { path: format!("/{path}"), value }).collect()
}

/// Writes the weights, and leaves them changed. The journal remains in `site`, which is that of [`journal_of`]. After an
/// error, all values are as before.
///
/// # Errors
/// If the journal cannot be written, or if the kernel refuses a value.
pub fn apply(site: &SettingsRoot, weights: &BTreeMap<NodeId, u8>) -> Result<(), ChangeError> {
    let mut settings = AppliedSettings::begin(site)?;
    for (path, value) in changes(&site.root, weights) {
        settings.set(SETTING, SettingTarget::File(path), &value)?;
    }
    settings.keep();
    Ok(())
}

/// The kernel ends the derived weights when a weight is written. They are ended first, so that restoring in reverse order
/// begins them last.
fn changes(root: &Path, weights: &BTreeMap<NodeId, u8>) -> Vec<(String, String)> {
    let auto = auto_path(root).map(|path| (path, "false".to_string()));
    let weight = |(node, weight): (&NodeId, &u8)| (weight_path(*node), weight.to_string());
    auto.into_iter().chain(weights.iter().map(weight)).collect()
}

fn auto_path(root: &Path) -> Option<String> {
    AUTO.iter().map(|name| format!("{DIR}/{name}")).find(|path| root.join(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;
    use crate::undo;

    fn path(name: &str) -> String {
        format!("{DIR}/{name}")
    }

    fn weights(all: &[(u32, u8)]) -> BTreeMap<NodeId, u8> {
        all.iter().map(|(node, weight)| (NodeId(*node), *weight)).collect()
    }

    #[test]
    fn weights_of_every_kernel_are_read() {
        assert_eq!(read(tree(&[("sys/kernel/mm/x", "")]).path()), None);
        let cases = [(None, None), (Some("auto"), Some(true)), (Some("__auto_type"), Some(true))];
        for (name, auto) in cases {
            let dir = tree(&[(&path("node0"), "1\n"), (&path("node12"), "255\n")]);
            if let Some(name) = name {
                std::fs::write(dir.path().join(path(name)), "true\n").unwrap();
            }
            let expected = KernelWeights { auto, weights: weights(&[(0, 1), (12, 255)]) };
            assert_eq!(read(dir.path()), Some(expected), "{name:?}");
        }
    }

    #[test]
    fn weights_are_kept_until_they_are_restored_and_auto_is_last() {
        for auto in AUTO {
            let before = [(path("node0"), "15\n"), (path("node1"), "1\n"), (path(auto), "true\n")];
            let dir = tree(&before.each_ref().map(|(path, text)| (path.as_str(), *text)));
            let site = journal_of(&SettingsRoot { root: dir.path().into(), state: dir.path().join("state") });
            apply(&site, &weights(&[(0, 15), (1, 5)])).unwrap();
            assert_eq!(
                read(dir.path()),
                Some(KernelWeights { auto: Some(false), weights: weights(&[(0, 15), (1, 5)]) })
            );
            let restored = undo::restore(&site, false).unwrap();
            let paths: Vec<String> = restored.iter().map(|restored| restored.change.target.to_string()).collect();
            assert_eq!(paths, [path("node1"), path(auto)].map(|path| format!("/{path}")), "node0 was not changed");
            assert_eq!(
                read(dir.path()),
                Some(KernelWeights { auto: Some(true), weights: weights(&[(0, 15), (1, 1)]) })
            );
        }
    }

    #[test]
    fn refused_weight_leaves_all_values_as_before() {
        let dir = tree(&[(&path("node0"), "1\n"), (&path("auto"), "true\n")]);
        let site = journal_of(&SettingsRoot { root: dir.path().into(), state: dir.path().join("state") });
        let error = apply(&site, &weights(&[(0, 2), (1, 5)])).unwrap_err();
        assert!(error.what.contains("weighted_interleave/node1"), "{}", error.what);
        assert!(!error.hint.contains("--quieten"), "{}", error.hint);
        assert_eq!(read(dir.path()), Some(KernelWeights { auto: Some(true), weights: weights(&[(0, 1)]) }));
        assert_eq!(undo::restore(&site, false).unwrap(), []);
    }
}
