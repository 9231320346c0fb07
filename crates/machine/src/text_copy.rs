//! Copies a program and its libraries to memory nodes, and mounts the copies over the originals in a private mount
//! namespace. The kernel frees them when the last process of the namespace ends, even if it is killed. Must not depend on
//! trials.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use model::hint::Hinted;
use model::values::id_set::NodeSet;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, elf};
use rustix::fs::CWD;
use rustix::mount::{self, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::thread::CapabilitySet;

use crate::child::{LaunchError, find_program};
use crate::syscall::{checked, has_capability};

/// Maximum number of interpreters of scripts, as in the Linux kernel.
const INTERPRETERS_MAX: usize = 4;
/// Maximum length of the first line of a script, as in the Linux kernel (`BINPRM_BUF_SIZE`).
const FIRST_LINE_MAX: usize = 256;
/// Mode bits of a set-user-ID or set-group-ID program.
const SET_ID: u32 = 0o6000;

/// Why a command cannot run from copies.
#[derive(Debug, thiserror::Error)]
pub enum TextCopyError {
    #[error(transparent)]
    NotFound(#[from] LaunchError),
    #[error("mounting copies of programs requires root (CAP_SYS_ADMIN)")]
    NotPermitted,
    #[error("{} is a set-user-ID program, and its copy would lose this right", .0.display())]
    SetId(PathBuf),
    #[error("cannot list the libraries of {}: {why}", .program.display())]
    NoLibraries { program: PathBuf, why: String },
    #[error("cannot copy {}: {error}", .path.display())]
    NotCopied { path: PathBuf, error: io::Error },
    #[error("cannot mount a copy over {}: {error}", .path.display())]
    NotMounted { path: PathBuf, error: io::Error },
}

impl Hinted for TextCopyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound(error) => error.hint(),
            Self::NotPermitted => Some("run the command as root".into()),
            Self::SetId(_) | Self::NoLibraries { .. } | Self::NotCopied { .. } | Self::NotMounted { .. } => None,
        }
    }
}

/// Checks whether this process may mount copies.
///
/// # Errors
/// If it may not.
pub fn check_permitted() -> Result<(), TextCopyError> {
    if has_capability(CapabilitySet::SYS_ADMIN) { Ok(()) } else { Err(TextCopyError::NotPermitted) }
}

/// Returns the files that the kernel and the dynamic loader map for a command: its program, interpreters and libraries,
/// without symbolic links. Libraries that the program loads at run time are not among them.
///
/// # Errors
/// If the program does not exist, or its loader cannot list its libraries.
pub fn text_files(argv: &[impl AsRef<OsStr>]) -> Result<BTreeSet<PathBuf>, TextCopyError> {
    let mut files = BTreeSet::new();
    let mut words: Vec<Vec<u8>> = argv.iter().map(|word| word.as_ref().as_bytes().to_vec()).collect();
    for _ in 0..=INTERPRETERS_MAX {
        let Some(name) = words.first() else { break };
        let program = resolve(OsStr::from_bytes(name))?;
        if let Some(interpreter) = interpreter_of_script(&program)? {
            words = interpreter;
        } else {
            files.extend(libraries(&program)?);
            // env(1) executes its first argument that is a program.
            words = if program.ends_with("env") { after_env(&words) } else { Vec::new() };
        }
        files.insert(program);
    }
    Ok(files)
}

fn resolve(program: &OsStr) -> Result<PathBuf, TextCopyError> {
    canonical(&find_program(&program.to_string_lossy())?)
}

fn canonical(path: &Path) -> Result<PathBuf, TextCopyError> {
    fs::canonicalize(path).map_err(|error| TextCopyError::NotCopied { path: path.into(), error })
}

/// Returns the words of the first line of a script; `None` for files without one.
fn interpreter_of_script(program: &Path) -> Result<Option<Vec<Vec<u8>>>, TextCopyError> {
    let failed = |error| TextCopyError::NotCopied { path: program.into(), error };
    let mut head = Vec::new();
    let file = File::open(program).map_err(failed)?;
    io::Read::read_to_end(&mut io::Read::take(file, FIRST_LINE_MAX as u64), &mut head).map_err(failed)?;
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Some(line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()))
}

fn after_env(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let is_program = |word: &&Vec<u8>| !word.starts_with(b"-") && !word.contains(&b'=');
    words.iter().skip(1).skip_while(|word| !is_program(word)).cloned().collect()
}

/// Returns the dynamic loader of a program and the libraries that it lists. Empty for a statically linked program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, TextCopyError> {
    let failed = |why: String| TextCopyError::NoLibraries { program: program.into(), why };
    let content = fs::read(program).map_err(|error| failed(error.to_string()))?;
    let Some(loader) = loader(&content) else { return Ok(Vec::new()) };
    let output = Command::new(OsStr::from_bytes(&loader)).arg("--list").arg(program).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().into()));
    }
    // Lines such as "libc.so.6 => /lib/libc.so.6 (0x7f00)". The last word is the address.
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = listed.lines().filter_map(|line| {
        let line = line.trim().rsplit_once(" (")?.0;
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    paths.chain([PathBuf::from(OsStr::from_bytes(&loader))]).map(|path| canonical(&path)).collect()
}

/// Returns the path of the dynamic loader in an ELF file.
fn loader(content: &[u8]) -> Option<Vec<u8>> {
    fn of<T: FileHeader<Endian = Endianness>>(content: &[u8]) -> Option<Vec<u8>> {
        let header = T::parse(content).ok()?;
        let endian = header.endian().ok()?;
        let mut segments = header.program_headers(endian, content).ok()?.iter();
        segments.find_map(|segment| segment.interpreter(endian, content).ok().flatten()).map(<[u8]>::to_vec)
    }
    match FileKind::parse(content).ok()? {
        FileKind::Elf32 => of::<elf::FileHeader32<Endianness>>(content),
        FileKind::Elf64 => of::<elf::FileHeader64<Endianness>>(content),
        _ => None,
    }
}

/// Moves the calling thread to a new mount namespace, in which copies of the files are mounted over the originals. The
/// copies are in memory of these nodes. Programs that this thread executes map the copies.
///
/// # Errors
/// If a file cannot be copied or mounted. The process may then be in the new namespace, with some of the copies.
pub fn enter(files: &BTreeSet<PathBuf>, nodes: &NodeSet) -> Result<(), TextCopyError> {
    check_permitted()?;
    let sources: Vec<File> = files.iter().map(|path| source(path)).collect::<Result<_, _>>()?;
    let directory = std::env::temp_dir();
    let not_mounted =
        |path: &Path, error: rustix::io::Errno| TextCopyError::NotMounted { path: path.into(), error: error.into() };
    own_namespace().map_err(|error| TextCopyError::NotMounted { path: "/".into(), error })?;
    // The files are open, so those below this directory are copied, too.
    mount_memory(&directory, nodes).map_err(|error| not_mounted(&directory, error))?;
    let copies = sources.iter().zip(files).enumerate().map(|(index, (source, path))| {
        let failed = |error| TextCopyError::NotCopied { path: path.into(), error };
        let copy = directory.join(index.to_string());
        copy_file(source, &copy).map_err(failed)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        mount::open_tree(CWD, &copy, flags).map_err(|error| failed(error.into()))
    });
    let copies: Vec<OwnedFd> = copies.collect::<Result<_, _>>()?;
    mount::unmount(&directory, UnmountFlags::DETACH).map_err(|error| not_mounted(&directory, error))?;
    for (copy, path) in copies.iter().zip(files) {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        mount::move_mount(copy, "", CWD, path.as_path(), flags).map_err(|error| not_mounted(path, error))?;
    }
    Ok(())
}

fn source(path: &Path) -> Result<File, TextCopyError> {
    let failed = |error| TextCopyError::NotCopied { path: path.into(), error };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    if mode & SET_ID != 0 { Err(TextCopyError::SetId(path.into())) } else { Ok(file) }
}

fn own_namespace() -> io::Result<()> {
    // SAFETY: unshare takes flags and no pointers. It gives this thread its own mount namespace.
    checked(|| unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    // Otherwise other namespaces would get the mounts, too.
    Ok(mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Mounts a file system in memory of these nodes.
fn mount_memory(directory: &Path, nodes: &NodeSet) -> rustix::io::Result<()> {
    let policy = if nodes.len() == 1 { "bind" } else { "interleave" };
    let options = CString::new(format!("mode=0755,mpol={policy}:{nodes}")).expect("node lists contain no zero byte");
    mount::mount("nearfar", directory, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, options.as_c_str())
}

/// Creates a copy with the owner and the access rights of the original.
fn copy_file(mut source: &File, copy: &Path) -> io::Result<()> {
    let about = source.metadata()?;
    let mut target = File::create_new(copy)?;
    io::copy(&mut source, &mut target)?;
    std::os::unix::fs::fchown(&target, Some(about.uid()), Some(about.gid()))?;
    target.set_permissions(fs::Permissions::from_mode(about.mode() & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &BTreeSet<PathBuf>) -> Vec<String> {
        files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    fn script(directory: &Path, name: &str, first_line: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, format!("{first_line}\ntrue\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn programs_are_listed_with_loader_and_libraries() {
        let files = names(&text_files(&["cat", "/etc/passwd"]).unwrap());
        assert!(files.contains(&"cat".to_string()), "{files:?}");
        assert!(files.iter().any(|name| name.starts_with("libc.")), "{files:?}");
        assert!(files.iter().any(|name| name.starts_with("ld-")), "{files:?}");
    }

    #[test]
    fn scripts_are_listed_with_their_interpreters() {
        let directory = tempfile::tempdir().unwrap();
        let direct = script(directory.path(), "direct", "#! /bin/sh -e");
        let env = script(directory.path(), "by-env", "#!/usr/bin/env -S A=1 cat");
        let files = names(&text_files(&[&direct]).unwrap());
        let sh = fs::canonicalize("/bin/sh").unwrap();
        let sh = sh.file_name().unwrap().to_string_lossy().into_owned();
        assert!(files.contains(&"direct".to_string()) && files.contains(&sh), "{files:?}");
        let files = names(&text_files(&[&env]).unwrap());
        assert!(["by-env", "cat", "env"].iter().all(|name| files.contains(&(*name).to_string())), "{files:?}");
    }

    #[test]
    fn missing_and_set_user_id_programs_return_errors() {
        let missing = text_files(&["nearfar-without-such-a-program"]).unwrap_err();
        assert!(missing.to_string().contains("nearfar-without-such-a-program"), "{missing}");
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), "raised", "#!/bin/sh");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(matches!(source(&program), Err(TextCopyError::SetId(_))));
    }
}
