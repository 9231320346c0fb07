//! Commands whose stdout or stderr cannot be written: full, closed, or a pipe without a reader. Lost messages change
//! neither results nor the exit status; lost data on stdout is an error.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml:7");

/// Command lines that print messages on stderr, and data on stdout where `has_data`. `MODEL` and `DIR` are replaced.
struct CommandLine {
    words: &'static str,
    has_data: bool,
}

const fn prints(words: &'static str) -> CommandLine {
    CommandLine { words, has_data: true }
}

const fn fails(words: &'static str) -> CommandLine {
    CommandLine { words, has_data: false }
}

const COMMANDS: [CommandLine; 10] = [
    prints("measure queens --sim MODEL -r 2 --placement kernel"),
    prints("place --sim MODEL --budget 1m -- true"),
    prints("show"),
    prints("export"),
    prints("doctor"),
    prints("where --file DIR/r.db"),
    prints("placements --from MODEL_FILE"),
    fails("import DIR/missing.csv"),
    fails("measure nosuch"),
    fails("nosuch"),
];

/// Fault of a stream.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Full,
    Closed,
    NoReader,
}

fn broken(stream: Broken) -> Stdio {
    match stream {
        Broken::Full => OpenOptions::new().write(true).open("/dev/full").expect("/dev/full exists").into(),
        // Every write fails with EBADF.
        Broken::Closed => File::open("/dev/null").expect("/dev/null exists").into(),
        Broken::NoReader => std::io::pipe().expect("a pipe").1.into(),
    }
}

fn run(dir: &Path, command: &CommandLine, stdout: Option<Broken>, stderr: Option<Broken>) -> ExitStatus {
    let file = MODEL.rsplit_once(':').expect("a seed").0;
    let dir = dir.to_str().expect("the path is UTF-8");
    let replaced = |word: &str| word.replace("MODEL_FILE", file).replace("MODEL", MODEL).replace("DIR", dir);
    let mut nearfar = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    nearfar.args(command.words.split(' ').map(replaced)).stdin(Stdio::null());
    nearfar.env("NEARFAR_STATE", format!("{dir}/state")).env("NEARFAR_STORE", format!("{dir}/r.db"));
    nearfar.stdout(stdout.map_or_else(Stdio::null, broken)).stderr(stderr.map_or_else(Stdio::null, broken));
    nearfar.status().expect("the program starts")
}

#[test]
fn unwritable_streams_never_change_what_a_command_does() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut situations = 0;
    for command in &COMMANDS {
        let expected = run(dir.path(), command, None, None).code();
        for stream in [Broken::Full, Broken::Closed, Broken::NoReader] {
            let status = run(dir.path(), command, None, Some(stream)).code();
            assert_eq!(status, expected, "{}: stderr {stream:?}", command.words);
            let status = run(dir.path(), command, Some(stream), Some(stream)).code();
            let lost = match stream {
                _ if !command.has_data => expected,
                // `nearfar show | head` succeeds; the standard library ignores writes to a closed stdout.
                Broken::NoReader => Some(0),
                Broken::Full | Broken::Closed => Some(1),
            };
            let accepted = [lost, if matches!(stream, Broken::Closed) { expected } else { lost }];
            assert!(accepted.contains(&status), "{}: both {stream:?}: {status:?}", command.words);
            situations += 2;
        }
    }
    assert!(situations >= 45, "{situations} situations");
}
