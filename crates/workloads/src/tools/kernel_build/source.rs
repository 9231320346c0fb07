//! Locates a kernel's source: a directory, a tar file, or the content of Debian's package linux-source in /usr/src. A
//! tar file is unpacked once, into the cache. Must not depend on the build.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::job::Failure;
use crate::scratch::{Scratch, io_failure};
use crate::tools::{cache, process};

/// Installation directory of Debian's packages.
const PACKAGED: &str = "/usr/src";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KernelTree {
    /// A kernel's source, either unpacked or as a tar file.
    Kernel(PathBuf),
    Small,
}

/// Resolves the parameter `source` on this machine.
pub(super) fn of(parameter: &str) -> Result<KernelTree, Failure> {
    match parameter {
        "small" => Ok(KernelTree::Small),
        "auto" => Ok(newest_packaged(Path::new(PACKAGED)).map_or(KernelTree::Small, KernelTree::Kernel)),
        "debian" => newest_packaged(Path::new(PACKAGED)).map(KernelTree::Kernel).ok_or_else(|| {
            Failure::Unavailable(format!(
                "found no {PACKAGED}/linux-source-*.tar.xz; hint: apt-get install linux-source"
            ))
        }),
        path => match std::fs::metadata(path) {
            Ok(_) => Ok(KernelTree::Kernel(path.into())),
            Err(error) => Err(Failure::Failed(format!("source {path}: {error}"))),
        },
    }
}

/// Returns the tar file of the newest version, by version number.
fn newest_packaged(dir: &Path) -> Option<PathBuf> {
    let version = |path: &PathBuf| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?;
        let version = name.strip_prefix("linux-source-")?.strip_suffix(".tar.xz")?;
        version.split('.').map(|number| number.parse().ok()).collect()
    };
    let paths = std::fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| version(path).is_some()).max_by_key(version)
}

/// Returns the directory with the source, after unpacking it if it is a tar file.
pub(super) fn unpacked(path: &Path, cache: &Path, scratch: &Scratch) -> Result<PathBuf, Failure> {
    let found = std::fs::metadata(path).map_err(|error| io_failure("inspect", path, &error))?;
    let dir = if found.is_dir() {
        path.canonicalize().map_err(|error| io_failure("inspect", path, &error))?
    } else {
        let name = name(path, &found);
        // A cleaner of temporary directories may delete part of a tree.
        if !is_kernel(&cache.join(&name)) {
            cache::remove(&cache.join(&name))?;
        }
        cache::get_or_create(cache, &name, |unfinished| unpack(path, unfinished, scratch))?
    };
    if is_kernel(&dir) {
        return Ok(dir);
    }
    Err(Failure::Failed(format!("source {} is not the source of a Linux kernel: no Kconfig in it", path.display())))
}

fn is_kernel(dir: &Path) -> bool {
    ["Makefile", "Kconfig", "kernel/sched"].iter().all(|part| dir.join(part).exists())
}

/// Includes size and modification time: another file with the same name is another source.
fn name(path: &Path, found: &Metadata) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("source-{name}-{}-{}", found.len(), found.mtime())
}

fn unpack(path: &Path, dir: &Path, scratch: &Scratch) -> Result<(), Failure> {
    std::fs::create_dir(dir).map_err(|error| io_failure("create", dir, &error))?;
    let mut tar = Command::new("tar");
    // A tar file contains a single top-level directory of any name.
    tar.args(["--strip-components=1", "-xf"]).arg(path).arg("-C").arg(dir);
    process::run(tar, &format!("unpacking {}", path.display()), scratch).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_packaged_source_is_selected_by_version() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(newest_packaged(dir.path()), None);
        for name in
            ["linux-source-6.1.tar.xz", "linux-source-6.12.tar.xz", "linux-source-6.9.tar.xz", "linux-config-6.99"]
        {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(newest_packaged(dir.path()), Some(dir.path().join("linux-source-6.12.tar.xz")));
    }

    #[test]
    fn invalid_source_returns_an_error() {
        assert!(of("/no/such").unwrap_err().to_string().contains("source /no/such"));
        assert_eq!(of("small"), Ok(KernelTree::Small));
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path()).unwrap();
        let failure = unpacked(dir.path(), dir.path(), &scratch).unwrap_err();
        assert!(failure.to_string().contains("not the source of a Linux kernel"), "{failure}");
        let file = scratch.file("linux.tar.xz", b"no tar").unwrap();
        let failure = unpacked(&file, dir.path(), &scratch).unwrap_err().to_string();
        assert!(failure.contains("unpacking") && failure.contains("tar"), "{failure}");
    }

    #[test]
    fn tar_file_is_unpacked_once() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path()).unwrap();
        let tree = scratch.path("linux-9.9");
        std::fs::create_dir_all(tree.join("kernel/sched")).unwrap();
        for name in ["Makefile", "Kconfig"] {
            std::fs::write(tree.join(name), name).unwrap();
        }
        let file = scratch.path("linux.tar");
        let packed =
            Command::new("tar").arg("-C").arg(scratch.path("")).arg("-cf").arg(&file).arg("linux-9.9").status();
        assert!(packed.unwrap().success());
        let cache = cache::cache_dir(dir.path()).unwrap();
        let unpacked_to = unpacked(&file, &cache, &scratch).unwrap();
        assert_eq!(std::fs::read_to_string(unpacked_to.join("Kconfig")).unwrap(), "Kconfig");
        std::fs::write(unpacked_to.join("mark"), "").unwrap();
        assert_eq!(unpacked(&file, &cache, &scratch), Ok(unpacked_to.clone()));
        assert!(unpacked_to.join("mark").exists());
        std::fs::remove_file(unpacked_to.join("Makefile")).unwrap();
        assert_eq!(unpacked(&file, &cache, &scratch), Ok(unpacked_to.clone()));
        assert!(unpacked_to.join("Makefile").exists(), "an incomplete tree is unpacked again");
    }
}
