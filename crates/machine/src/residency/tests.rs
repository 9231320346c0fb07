//! Tests on this process and its children, with memory of known size.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use model::analysis::residency::{MemoryKind, NodeBytes};
use model::values::placement::MemoryPolicy;

use super::*;
use crate::memory::{HugePages, PlacedMemory};

/// Returns the memory of this process by kind, or `None`, with the reason printed, if pages cannot be queried here.
fn own_memory(test: &str) -> Option<BTreeMap<MemoryKind, u64>> {
    let found = match inspect(&[std::process::id()]) {
        Ok(found) => found,
        Err(error) => {
            println!("skipped: {test}: {error}");
            return None;
        }
    };
    let mut by_kind = BTreeMap::new();
    for part in found.parts {
        *by_kind.entry(part.kind).or_default() += part.memory.bytes.0;
    }
    Some(by_kind)
}

#[test]
fn written_pages_of_this_process_are_counted() {
    let test = "written_pages_of_this_process_are_counted";
    let bytes = 64 << 20;
    let mut memory = PlacedMemory::<u64>::new(bytes, &MemoryPolicy::Kernel, HugePages::Never).expect("64 MiB are free");
    let Some(before) = own_memory(test) else { return };
    memory.as_mut_slice().fill(1);
    let after = own_memory(test).expect("the first inspection succeeded");
    let grown = after[&MemoryKind::Anonymous].abs_diff(before[&MemoryKind::Anonymous]);
    // Other tests of this process run concurrently.
    assert!(grown.abs_diff(bytes as u64) < 8 << 20, "{before:?} {after:?}");
    assert!(after[&MemoryKind::Program] > 0 && after[&MemoryKind::Library] > 0 && after[&MemoryKind::Stack] > 0);
}

#[test]
fn huge_pages_are_counted_separately() {
    let test = "huge_pages_are_counted_separately";
    let bytes = 32 << 20;
    let mut memory =
        PlacedMemory::<u64>::new(bytes, &MemoryPolicy::Kernel, HugePages::Wanted).expect("32 MiB are free");
    memory.as_mut_slice().fill(1);
    let Some(huge) = memory.huge_bytes().filter(|huge| huge.0 > 0) else {
        println!("skipped: {test}: this kernel has no transparent huge pages");
        return;
    };
    let Some(found) = own_memory(test) else { return };
    assert!(found[&MemoryKind::HugePages] >= huge.0, "{huge} {found:?}");
}

/// A child that waits until its standard input is closed.
fn waiting_child() -> Child {
    let mut child = Command::new("sh")
        .args(["-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("it is a pipe").read_exact(&mut ready).expect("the child writes a line");
    child
}

#[test]
fn processes_that_ended_return_errors() {
    let mut child = waiting_child();
    let pid = child.id();
    if let Err(error) = inspect(&[pid]) {
        println!("skipped: processes_that_ended_return_errors: {error}");
        child.wait().expect("the child ends");
        return;
    }
    let proc = Proc::live();
    let pagemap = pagemap::PageMap::open(pid).expect("it is readable");
    let start = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it is readable");
    let start = u64::from_str_radix(start.split_once('-').expect("it has a mapping").0, 16).expect("an address");
    assert!(pagemap.is_alive(start));
    drop(child.stdin.take());
    let wait = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
    rustix::process::waitid(id, wait).expect("the child ends");
    assert!(!pagemap.is_alive(start), "its memory is freed");
    assert_eq!(inspect(&[pid]), Err(InspectError::Ended(pid)), "not yet reaped");
    child.wait().expect("the child is reaped");
    assert_eq!(inspect(&[pid]), Err(InspectError::Missing(pid)));
    let both = inspect(&[std::process::id(), pid]).expect("one process exists");
    assert_eq!((both.processes.len(), both.unseen[0].what.clone()), (1, format!("process {pid}")));
    drop(proc);
}

#[test]
fn kernel_threads_have_no_memory() {
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        let error = inspect(&[2]).unwrap_err();
        assert!(matches!(error, InspectError::KernelThread(2) | InspectError::NotPermitted { pid: 2, .. }), "{error}");
    } else {
        println!("skipped: kernel_threads_have_no_memory: kernel threads are not visible");
    }
}

fn file_with(bytes: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("data");
    let mut file = File::create(&path).expect("the directory is writable");
    file.write_all(&vec![1; bytes]).expect("the disk has space");
    file.sync_all().expect("the file is written");
    (dir, path)
}

#[test]
fn cached_part_of_a_file_is_found() {
    let page = syscall::page_bytes();
    let (_dir, path) = file_with(300 * page + 17);
    let all = cached_file(&path).expect("the file is readable");
    assert_eq!((all.size.0, all.memory.bytes.0), (300 * page as u64 + 17, 301 * page as u64));
    assert_eq!(all.ranges, [[0, 301 * page as u64]]);
    let on_nodes: u64 = all.memory.by_node.values().map(|bytes| bytes.0).sum();
    let expected = if all.nodes_unavailable.is_none() { all.memory.bytes.0 } else { 0 };
    assert_eq!(on_nodes, expected, "{all:?}");
    let file = File::open(&path).expect("the file is readable");
    rustix::fs::fadvise(
        &file,
        64 * page as u64,
        std::num::NonZero::new(128 * page as u64),
        rustix::fs::Advice::DontNeed,
    )
    .expect("advice is accepted");
    let part = cached_file(&path).expect("the file is readable");
    if part.memory.bytes == all.memory.bytes {
        println!("skipped: cached_part_of_a_file_is_found: files of this directory are memory");
        return;
    }
    assert_eq!(part.ranges, [[0, 64 * page as u64], [192 * page as u64, 301 * page as u64]]);
    assert_eq!(cached_file(&path).expect("the file is readable").ranges, part.ranges, "the inspection reads nothing");
}

#[test]
fn unsuitable_files_return_errors() {
    let (dir, path) = file_with(0);
    let empty = cached_file(&path).expect("an empty file has no pages");
    assert_eq!((empty.size, empty.memory), (Bytes(0), NodeBytes::default()));
    let error = cached_file(dir.path()).unwrap_err();
    assert!(error.to_string().ends_with("is a directory, not a file") && error.hint().is_some(), "{error}");
    assert!(cached_file(Path::new("/dev/null")).unwrap_err().to_string().contains("is a device"));
    let missing = cached_file(&dir.path().join("missing")).unwrap_err();
    assert!(matches!(missing, FileError::Open { is_missing: true, .. }), "{missing}");
}
