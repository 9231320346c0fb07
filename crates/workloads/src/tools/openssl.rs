//! Runs the unmodified `openssl speed -evp` of an installed OpenSSL and parses its output.
//!
//! Measures: kilobytes (1000 bytes) per second of one cipher at one block size, by the elapsed time that openssl
//! measures, with as many copies (`-multi`) as the placement has threads. All copies together may use the placement's
//! CPUs; none is pinned. Does NOT verify the encrypted data, because openssl does not. Workload `crypto` measures the
//! same and verifies it.
//! Source of the output format: openssl-speed(1) and real output of version 3.0 in the tests.

use std::collections::BTreeMap;

use machine::child::{Exit, ProcessResult, find_program};
use model::values::trial::Sample;
use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, Parameters, WorkloadSpec};

use crate::command_spec::{CommandLine, CommandSpec};
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext, with_hint};
use crate::kernels::crypto::{cipher, instructions};

const SECOND: u64 = 1_000_000_000;

pub(crate) fn describe() -> WorkloadSpec {
    let one = |name, unit| Metric::median(name, unit, Better::Higher);
    WorkloadSpec {
        name: "openssl".into(),
        summary: "the speed test of an installed openssl, for one cipher".into(),
        about:
            "Runs openssl speed -evp with as many copies as the placement has threads, and parses its rate by elapsed \
                time. openssl does not verify results; workload crypto measures the same and verifies them."
                .into(),
        parameters: parameters([
            Parameter {
                name: "cipher",
                about: "cipher (-evp)",
                kind: ParameterKind::Choice(cipher::names()),
                default: Some("aes-128-cbc"),
                smoke: None,
            },
            Parameter {
                name: "block",
                about: "bytes per block (-bytes)",
                kind: ParameterKind::Size { min: Bytes(16), max: Bytes(1 << 20) },
                default: Some("1KiB"),
                smoke: None,
            },
            Parameter {
                name: "direction",
                about: "encrypt, or decrypt (-decrypt)",
                kind: choice(&["encrypt", "decrypt"]),
                default: Some("encrypt"),
                smoke: None,
            },
            Parameter {
                name: "message",
                about: "stream: without -aead; block: -aead, for ciphers with a tag (some versions process GCM by block in both)",
                kind: choice(&["stream", "block"]),
                default: Some("stream"),
                smoke: None,
            },
            Parameter {
                name: "instructions",
                about: "with the CPU's cryptographic instructions (cpu), or without them (software)",
                kind: choice(&["cpu", "software"]),
                default: Some("cpu"),
                smoke: None,
            },
            Parameter {
                name: "program",
                about: "name or path of openssl",
                kind: ParameterKind::Text,
                default: Some("openssl"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "duration in whole seconds (-seconds)",
                kind: ParameterKind::Time { min: Nanos(SECOND), max: Nanos(3600 * SECOND) },
                default: Some("3s"),
                smoke: Some("1s"),
            },
        ]),
        metrics: metrics([one("throughput", "kB/s"), one("rate", "Gbit/s")]),
        threads_exactly: None,
        trial_time_guess: Nanos(3 * SECOND),
    }
}

/// Checks constraints that openssl's command line cannot express.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let cipher = parameters.text("cipher");
    if parameters.text("message") == "block" && !cipher::is_aead(cipher) {
        return Err(format!("openssl speed supports -aead only for ciphers with a tag, and {cipher} has none"));
    }
    if !(parameters.size("time") as u64).is_multiple_of(SECOND) {
        return Err("openssl speed takes whole seconds; write time=3s".into());
    }
    if parameters.text("program").trim().is_empty() {
        return Err("program is empty".into());
    }
    Ok(())
}

pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    let program = parameters.text("program");
    find_program(program).err().map(|error| with_hint(&error))
}

pub(crate) fn recipe(job: &TrialContext) -> Result<CommandSpec, Failure> {
    check(&job.parameters).map_err(Failure::Failed)?;
    let text = |name| job.parameters.text(name);
    let seconds = job.parameters.size("time") as u64 / SECOND;
    let mut argv = vec![text("program").to_string(), "speed".into(), "-elapsed".into()];
    argv.extend(["-evp".into(), text("cipher").into()]);
    argv.extend(["-bytes".into(), job.parameters.integer("block").to_string()]);
    argv.extend(["-seconds".into(), seconds.to_string()]);
    argv.extend((text("direction") == "decrypt").then(|| "-decrypt".into()));
    argv.extend((text("message") == "block").then(|| "-aead".into()));
    if job.threads > 1 {
        argv.extend(["-multi".into(), job.threads.to_string()]);
    }
    let mut environment = BTreeMap::new();
    if text("instructions") == "software" {
        let why = "instructions=software is supported only on x86-64 and 64-bit ARM; hint: instructions=cpu";
        let variable = instructions::VARIABLE.ok_or_else(|| Failure::Unavailable(why.into()))?;
        environment.insert(variable.into(), instructions::software_value());
    }
    let command = CommandLine { argv, environment };
    Ok(CommandSpec::of(command))
}

pub(crate) fn read(job: &TrialContext, finished: &ProcessResult) -> Result<Vec<Sample>, Failure> {
    if finished.exit != Exit::Code(0) {
        return Err(Failure::Failed(format!("it ended with {}", finished.stderr_tail())));
    }
    samples(job, &String::from_utf8_lossy(&finished.stdout))
        .map_err(|why| Failure::Failed(format!("its output: {why}")))
}

fn samples(job: &TrialContext, output: &str) -> Result<Vec<Sample>, String> {
    let text = |name| job.parameters.text(name);
    let printed = parse(output, text("cipher"))?;
    let software = text("instructions") == "software";
    match &printed.cpu {
        Some(cpu) => instructions::verify(software, cpu)?,
        None if software => return Err("it does not report which instructions it uses (CPUINFO)".into()),
        None => {}
    }
    if printed.copies != job.threads {
        return Err(format!("{} copies instead of {}", printed.copies, job.threads));
    }
    let block = job.parameters.integer("block");
    if let Some(other) = printed.blocks.iter().find(|bytes| **bytes != block as u64) {
        return Err(format!("blocks of {other} bytes instead of {block}"));
    }
    let mut measured = KernelOutput::default();
    let rate = printed.kilobytes_per_second * 8.0 / 1e6;
    for (series, value) in [("throughput", printed.kilobytes_per_second), ("rate", rate)] {
        measured.push(series, value).map_err(|failure| failure.to_string())?;
    }
    Ok(measured.samples)
}

#[derive(Debug, PartialEq)]
struct Printed {
    /// Total of all copies, in units of 1000 bytes.
    kilobytes_per_second: f64,
    copies: usize,
    /// Block sizes in the output.
    blocks: Vec<u64>,
    /// Reported CPU features. Old versions report none.
    cpu: Option<String>,
}

/// Build information, which is skipped.
const BUILD: [&str; 5] = ["version:", "built on:", "options:", "compiler:", "The 'numbers' are in 1000s of bytes"];

/// Parses the output line by line. An unknown line is an error that quotes the line.
fn parse(output: &str, cipher: &str) -> Result<Printed, String> {
    let (mut copies, mut blocks, mut cpu, mut result) = (0, Vec::new(), None, None);
    for (index, line) in output.lines().enumerate() {
        let wrong = |why: &str| format!("line {}: {why}: '{line}'", index + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            _ if BUILD.iter().any(|known| line.starts_with(known)) => {}
            ["CPUINFO:", ..] => cpu = Some(line["CPUINFO:".len()..].trim().to_string()),
            ["Forked", "child", _] => copies += 1,
            // Result of one copy: its block sizes, then its rate in bytes per second.
            ["Got:", got, "from", _] => {
                if let Some(bytes) = got.strip_prefix("+H:") {
                    blocks.push(bytes.parse().map_err(|_| wrong("no number of bytes"))?);
                } else if !got.starts_with("+F:") {
                    return Err(wrong("not known"));
                }
            }
            ["type", bytes, "bytes"] => blocks.push(bytes.parse().map_err(|_| wrong("no number of bytes"))?),
            [name, number] if name.eq_ignore_ascii_case(cipher) => {
                let number = number.strip_suffix('k').and_then(|number| number.parse::<f64>().ok());
                let number = number.filter(|number| number.is_finite() && *number > 0.0);
                if result.replace(number.ok_or_else(|| wrong("no number of 1000 bytes per second"))?).is_some() {
                    return Err(wrong("a second result"));
                }
            }
            _ => return Err(wrong("not known")),
        }
    }
    let kilobytes_per_second = result.ok_or_else(|| format!("there is no result of {cipher}"))?;
    Ok(Printed { kilobytes_per_second, copies: copies.max(1), blocks, cpu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    // Real output of OpenSSL 3.0.22 (stdout; progress messages go to stderr).
    const ONE: &str = include_str!("openssl/one-3.0.22.txt");
    const MULTI: &str = include_str!("openssl/multi-3.0.22.txt");
    const SOFTWARE: &str = include_str!("openssl/software-3.0.22.txt");

    fn job(pairs: &[(&str, &str)]) -> TrialContext {
        let mut job = job_for_tests("openssl");
        for (name, text) in pairs {
            crate::kernels::set(&mut job, name, text);
        }
        job
    }

    fn throughput(job: &TrialContext, output: &str) -> Result<f64, String> {
        samples(job, output).map(|samples| samples[0].value)
    }

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-6
    }

    #[test]
    fn output_is_parsed() {
        assert!(close(throughput(&job(&[]), ONE).unwrap(), 1_056_033.79));
        let two = TrialContext { threads: 2, ..job(&[("cipher", "chacha20-poly1305"), ("block", "16")]) };
        assert!(close(throughput(&two, MULTI).unwrap(), 189_003.89));
        if instructions::VARIABLE == Some("OPENSSL_ia32cap") {
            let software = job(&[("cipher", "aes-256-gcm"), ("block", "16KiB"), ("instructions", "software")]);
            assert!(close(throughput(&software, SOFTWARE).unwrap(), 201_113.6));
        }
    }

    #[test]
    fn unrequested_results_return_errors() {
        let wrong = |job: &TrialContext, output: &str| throughput(job, output).unwrap_err();
        assert!(wrong(&job(&[("block", "16")]), ONE).contains("blocks of 1024 bytes instead of 16"));
        assert!(wrong(&TrialContext { threads: 2, ..job(&[]) }, ONE).contains("1 copies instead of 2"));
        assert!(wrong(&job(&[("cipher", "aes-256-cbc")]), ONE).contains("line 8: not known: 'AES-128-CBC "));
        if instructions::VARIABLE == Some("OPENSSL_ia32cap") {
            assert!(wrong(&job(&[("instructions", "software")]), ONE).contains("still uses cryptographic"));
            let gcm = job(&[("cipher", "aes-256-gcm"), ("block", "16KiB")]);
            assert!(wrong(&gcm, SOFTWARE).contains("disables instructions"));
        }
    }

    #[test]
    fn unknown_and_malformed_lines_return_errors() {
        let parsed = |from: &str, to: &str| parse(&ONE.replace(from, to), "aes-128-cbc");
        assert_eq!(parsed("built on: Wed", "Caution: Wed").unwrap_err().split(": ").nth(1), Some("not known"));
        assert!(parsed("1056033.79k", "1056033.79").unwrap_err().contains("line 8: no number of 1000 bytes"));
        assert!(parsed("1056033.79k", "infk").unwrap_err().contains("line 8"));
        assert!(parsed("AES-128-CBC    1056033.79k", "").unwrap_err().contains("no result of aes-128-cbc"));
        let twice = format!("{ONE}AES-128-CBC 1.00k\n");
        assert!(parse(&twice, "aes-128-cbc").unwrap_err().contains("line 9: a second result"));
    }

    #[test]
    fn command_line_contains_the_parameters() {
        let asked = [("direction", "decrypt"), ("message", "block"), ("cipher", "aes-128-gcm"), ("time", "2s")];
        let recipe = recipe(&TrialContext { threads: 3, ..job(&asked) }).unwrap();
        assert_eq!(
            recipe.command.argv.join(" "),
            "openssl speed -elapsed -evp aes-128-gcm -bytes 1024 -seconds 2 -decrypt -aead -multi 3"
        );
        assert!(recipe.command.environment.is_empty());
        assert!(check(&job(&[("message", "block")]).parameters).unwrap_err().contains("aes-128-cbc has none"));
        assert!(check(&job(&[("time", "1500ms")]).parameters).unwrap_err().contains("whole seconds"));
    }
}
