//! A process that outlives whoever starts it, and notices nothing of his end. Must not know what it does.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts it in a session of its own: it has no terminal that could hang up, and when those are gone that started it, the kernel does not
/// take it for a job that was left behind, which is sent SIGHUP when it is stopped at that moment.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec it makes one system call, without arguments.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(io::Error::from));
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn it_has_a_session_of_its_own() {
        let mut child = spawn_detached(Command::new("sleep").arg("1000").stdin(Stdio::null())).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let words: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let (group, session) = (words[2], words[3]);
        assert_eq!((group, session), (&*child.id().to_string(), &*child.id().to_string()));
    }
}
