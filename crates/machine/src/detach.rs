//! Starts a process that outlives its parent. Must not depend on the program that it runs.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a command in a new session: it has no terminal that could hang up, and when its parents have ended, the
/// kernel does not treat it as an orphaned process group, which would receive SIGHUP if it were stopped at that moment.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec the closure makes one system call, without arguments.
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
    fn detached_process_leads_a_new_session() {
        let mut child = spawn_detached(Command::new("sleep").arg("1000").stdin(Stdio::null())).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let (group, session) = (fields[2], fields[3]);
        assert_eq!((group, session), (&*child.id().to_string(), &*child.id().to_string()));
    }
}
