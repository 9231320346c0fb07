//! The program of a command line that begins with a wrapper such as setpriv, for names and sentences. Must not decide what
//! is run.

/// A program that runs another one.
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
    /// Number of words after the options and before the program.
    operands: usize,
}

const WRAPPERS: [Wrapper; 11] = [
    Wrapper { name: "chrt", with_value: &["-T", "-P", "-D"], operands: 1 },
    Wrapper { name: "env", with_value: &["-u", "--unset", "-C", "--chdir"], operands: 0 },
    Wrapper { name: "ionice", with_value: &["-c", "--class", "-n", "--classdata"], operands: 0 },
    Wrapper { name: "nice", with_value: &["-n", "--adjustment"], operands: 0 },
    Wrapper { name: "numactl", with_value: &["-C", "-N", "-i", "-m", "-p", "-w"], operands: 0 },
    Wrapper { name: "runuser", with_value: &["-u", "--user", "-g", "--group", "-G", "--supp-group"], operands: 0 },
    Wrapper {
        name: "setpriv",
        with_value: &[
            "--reuid",
            "--ruid",
            "--euid",
            "--regid",
            "--rgid",
            "--egid",
            "--groups",
            "--inh-caps",
            "--ambient-caps",
            "--bounding-set",
            "--securebits",
            "--pdeathsig",
        ],
        operands: 0,
    },
    Wrapper { name: "stdbuf", with_value: &["-i", "-o", "-e"], operands: 0 },
    Wrapper { name: "sudo", with_value: &["-u", "--user", "-g", "--group"], operands: 0 },
    Wrapper { name: "taskset", with_value: &[], operands: 1 },
    Wrapper { name: "timeout", with_value: &["-k", "--kill-after", "-s", "--signal"], operands: 1 },
];

/// Returns the name of the program that does the work, without its directory: `postgres` of `setpriv --reuid=postgres
/// /usr/bin/postgres -D data`. The first word if it is not a known wrapper, or if nothing follows its options.
pub fn program_name(argv: &[String]) -> &str {
    let mut program = argv;
    while let Some(inner) = wrapped(program) {
        program = inner;
    }
    program.first().map_or("", |word| file_name(word))
}

/// Returns the command line that a wrapper runs; `None` unless the first word is a wrapper.
fn wrapped(argv: &[String]) -> Option<&[String]> {
    let (first, rest) = argv.split_first()?;
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == file_name(first))?;
    let mut operands = wrapper.operands;
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        if word.starts_with('-') {
            at += usize::from(wrapper.with_value.contains(&word.as_str()));
        } else if operands > 0 {
            operands -= 1;
        } else if wrapper.name != "env" || !word.contains('=') {
            return Some(&rest[at..]);
        }
        at += 1;
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_skips_wrappers() {
        for (line, expected) in [
            ("/usr/bin/gzip -k file", "gzip"),
            ("setpriv --reuid=postgres --clear-groups postgres -D /srv", "postgres"),
            ("setpriv --reuid postgres --regid postgres /usr/lib/postgres -D /srv", "postgres"),
            ("/usr/bin/env A=1 -u B nice -n 5 app", "app"),
            ("taskset -c 0-3 app 1", "app"),
            ("timeout -k 5 60 sudo -u web nginx", "nginx"),
            ("numactl -m 0 --physcpubind=0 app", "app"),
            ("taskset -p 1", "taskset"),
            ("nice", "nice"),
            ("", ""),
        ] {
            let argv: Vec<String> = line.split_whitespace().map(String::from).collect();
            assert_eq!(program_name(&argv), expected, "{line}");
        }
    }
}
