//! Finds Java virtual machines among processes, by the library that they map. Must not depend on why they matter.

use std::io::Read;
use std::path::{Path, PathBuf};

use model::analysis::live::JavaProcess;

/// Library of the virtual machine itself.
const LIBRARY: &str = "libjvm.so";
/// Maximum number of bytes read of the mappings of a process.
const MAPS_BYTES_MAX: u64 = 16 << 20;
/// Directories between the library and that of its Java installation: `lib/server`, formerly `jre/lib/amd64/server`.
const LEVELS_MAX: usize = 5;
const RELEASE_BYTES_MAX: u64 = 1 << 20;

/// Returns the processes that run a Java virtual machine. A process that cannot be inspected is not among them.
pub fn java_processes(pids: &[u32]) -> Vec<JavaProcess> {
    let java = |pid: &u32| {
        let library = mapped_library(*pid)?;
        Some(JavaProcess { pid: *pid, version: version_of(Path::new(&format!("/proc/{pid}/root")), &library) })
    };
    pids.iter().filter_map(java).collect()
}

/// Returns the path of the library, as the process sees it.
fn mapped_library(pid: u32) -> Option<PathBuf> {
    let maps = read(Path::new(&format!("/proc/{pid}/maps")), MAPS_BYTES_MAX)?;
    let path = |line: &str| line.find('/').map(|at| PathBuf::from(line[at..].trim_end_matches(" (deleted)")));
    maps.lines().filter_map(path).find(|path| path.file_name().is_some_and(|name| name == LIBRARY))
}

/// Reads the version of the installation that contains a library, in the file system of the process.
fn version_of(root: &Path, library: &Path) -> Option<String> {
    let release = |dir: &Path| {
        let text = read(&root.join(dir.strip_prefix("/").ok()?).join("release"), RELEASE_BYTES_MAX)?;
        let value = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
        Some(value.trim_matches('"').to_owned())
    };
    library.ancestors().skip(1).take(LEVELS_MAX).find_map(release)
}

fn read(path: &Path, bytes_max: u64) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_that_of_the_installation_of_the_library() {
        let root = tempfile::tempdir().expect("a directory");
        let home = root.path().join("opt/java");
        std::fs::create_dir_all(&home).expect("a directory");
        std::fs::write(home.join("release"), "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.13\"\n").expect("a file");
        let version = |library| version_of(root.path(), Path::new(library));
        assert_eq!(version("/opt/java/lib/server/libjvm.so").as_deref(), Some("17.0.13"));
        assert_eq!(version("/opt/java/jre/lib/amd64/server/libjvm.so").as_deref(), Some("17.0.13"));
        assert_eq!(version("/opt/other/lib/server/libjvm.so"), None);
    }

    #[test]
    fn process_without_the_library_is_none() {
        assert_eq!(java_processes(&[std::process::id()]), []);
    }
}
