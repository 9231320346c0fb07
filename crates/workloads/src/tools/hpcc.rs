//! An installed HPC Challenge (`hpcc`), run as it is: its own HPL, DGEMM, STREAM and `RandomAccess`, its summary read.
//!
//! Measures: what hpcc prints, one MPI process for each thread of the placement, in a grid as square as the count allows,
//! each with a BLAS of one thread. The processes together may use the placement's cpus; it seats nobody. `single` is one process
//! alone, `star` the mean of all at once, `mpi` all together. Our kernels `hpl`, `gemm`, `stream` and `gups` measure the same
//! one by one; this is for checking them, and for results that others know.
//! Does NOT run the program `xhpl`, which Debian does not have; hpcc's HPL is the same program, version 2.0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use machine::child::{Exit, Finished, find_program};
use model::trial::Sample;
use model::units::Nanos;
use model::workload::{Better, MetricSpec, ParameterKind, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, Job, Measured};
use crate::recipe::{CommandLine, Recipe};

/// What its summary calls a number, what we call it, its unit, and how many of its units make one of ours.
const NUMBERS: [(&str, &str, &str, f64); 17] = [
    ("HPL_Tflops", "hpl", "GFLOPS", 1e3),
    ("SingleDGEMM_Gflops", "dgemm-single", "GFLOPS", 1.0),
    ("StarDGEMM_Gflops", "dgemm-star", "GFLOPS", 1.0),
    ("SingleSTREAM_Triad", "triad-single", "MB/s", 1e3),
    ("SingleSTREAM_Copy", "copy-single", "MB/s", 1e3),
    ("SingleSTREAM_Scale", "scale-single", "MB/s", 1e3),
    ("SingleSTREAM_Add", "add-single", "MB/s", 1e3),
    ("StarSTREAM_Triad", "triad-star", "MB/s", 1e3),
    ("StarSTREAM_Copy", "copy-star", "MB/s", 1e3),
    ("StarSTREAM_Scale", "scale-star", "MB/s", 1e3),
    ("StarSTREAM_Add", "add-star", "MB/s", 1e3),
    ("SingleRandomAccess_GUPs", "gups-single", "GUPS", 1.0),
    ("StarRandomAccess_GUPs", "gups-star", "GUPS", 1.0),
    ("MPIRandomAccess_GUPs", "gups-mpi", "GUPS", 1.0),
    ("PTRANS_GBs", "ptrans", "GB/s", 1.0),
    ("SingleFFT_Gflops", "fft-single", "GFLOPS", 1.0),
    ("StarFFT_Gflops", "fft-star", "GFLOPS", 1.0),
];

/// The version whose summary we know.
const VERSION: (&str, &str) = ("1", "5");

/// Its input as its example has it, but for sizes and the grid: `(first word, what it is)`.
const INPUT: [(&str, &str); 31] = [
    ("", "HPLinpack benchmark input file"),
    ("", "made by nearfar"),
    ("HPL.out", "output file name"),
    ("8", "device out"),
    ("1", "# of problems sizes (N)"),
    ("{n}", "Ns"),
    ("1", "# of NBs"),
    ("{nb}", "NBs"),
    ("0", "PMAP process mapping (0=Row-,1=Column-major)"),
    ("1", "# of process grids (P x Q)"),
    ("{p}", "Ps"),
    ("{q}", "Qs"),
    ("16.0", "threshold"),
    ("1", "# of panel fact"),
    ("2", "PFACTs (0=left, 1=Crout, 2=Right)"),
    ("1", "# of recursive stopping criterium"),
    ("4", "NBMINs (>= 1)"),
    ("1", "# of panels in recursion"),
    ("2", "NDIVs"),
    ("1", "# of recursive panel fact."),
    ("1", "RFACTs (0=left, 1=Crout, 2=Right)"),
    ("1", "# of broadcast"),
    ("1", "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"),
    ("1", "# of lookahead depth"),
    ("1", "DEPTHs (>=0)"),
    ("2", "SWAP (0=bin-exch,1=long,2=mix)"),
    ("64", "swapping threshold"),
    ("0", "L1 in (0=transposed,1=no-transposed) form"),
    ("0", "U  in (0=transposed,1=no-transposed) form"),
    ("1", "Equilibration (0=no,1=yes)"),
    ("8", "memory alignment in double (> 0)"),
];

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "hpcc".into(),
        summary: "an installed HPC Challenge: its HPL, DGEMM, STREAM and RandomAccess".into(),
        about: "Runs hpcc in a scratch folder with one MPI process for each thread of the placement and reads its summary: \
                hpl; dgemm, triad and gups of one process alone (single), the mean of all at once (star), and of all \
                together (mpi). Which BLAS it uses is the system's choice (update-alternatives). Not ours and not part of \
                this program: Debian's package hpcc."
            .into(),
        parameters: parameters([
            Parameter {
                name: "n",
                about: "equations of its HPL; the other tests take memory in proportion, STREAM's arrays n^2 / 3 words together",
                kind: ParameterKind::Integer { min: 16, max: 10_000_000 },
                default: Some("4096"),
                smoke: Some("400"),
            },
            Parameter {
                name: "nb",
                about: "columns of a block of its HPL",
                kind: ParameterKind::Integer { min: 1, max: 4096 },
                default: Some("192"),
                smoke: Some("64"),
            },
        ]),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(20_000_000_000),
    }
}

fn all_metrics() -> Vec<MetricSpec> {
    let metric = |name, unit| Metric::median(name, unit, Better::Higher);
    NUMBERS.iter().flat_map(|(_, name, unit, _)| metrics([metric(name, unit)])).collect()
}

pub(crate) fn recipe(job: &Job) -> Result<Recipe, Failure> {
    let (rows, columns) = grid(job.threads);
    needed("hpcc", "hpcc")?;
    let mut program: Vec<String> = Vec::new();
    if job.threads > 1 {
        needed("mpirun", "openmpi-bin")?;
        // Where processes run is the placement's matter, so MPI binds none; containers run as root.
        let words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"];
        program.extend(words.map(String::from));
        program.push(job.threads.to_string());
    }
    program.push("hpcc".into());

    let folder = std::env::temp_dir().join(format!("nearfar-hpcc-{}-{:x}", std::process::id(), job.seed));
    let folder = folder.to_string_lossy().into_owned();
    let shell = |script: &str, words: Vec<String>| {
        let argv = ["sh", "-c", script].map(String::from).into_iter().chain(words).collect();
        CommandLine { argv, environment: BTreeMap::new() }
    };
    let mut prepare = shell("mkdir \"$0\" && printf %s \"$HPCC_INPUT\" >\"$0/hpccinf.txt\"", vec![folder.clone()]);
    let (n, nb) = (job.parameters.size("n"), job.parameters.size("nb"));
    prepare.environment.insert("HPCC_INPUT".into(), input(n, nb, rows, columns));
    let words = std::iter::once(folder.clone()).chain(program).collect();
    let mut command = shell("cd \"$0\" && \"$@\" >&2 && cat hpccoutf.txt", words);
    command.environment = crate::worker::environment();
    let cleanup = shell("rm -rf \"$0\"", vec![folder]);
    Ok(Recipe { prepare: Some(prepare), server: None, warmup: 0, command, cleanup: Some(cleanup) })
}

fn needed(program: &str, package: &str) -> Result<(), Failure> {
    let missing = |error| Failure::Unavailable(format!("{error}; hint: apt-get install {package}"));
    find_program(program).map(drop).map_err(missing)
}

/// Rows and columns of processes: as square as the count allows, no more rows than columns, as HPL likes it.
fn grid(processes: usize) -> (usize, usize) {
    let fits = |rows: &usize| processes.is_multiple_of(*rows);
    let rows = (1..=processes).take_while(|rows| rows * rows <= processes).filter(fits).last().unwrap_or(1);
    (rows, processes / rows)
}

fn input(n: usize, nb: usize, p: usize, q: usize) -> String {
    let mut text = String::new();
    for (value, what) in INPUT {
        let value = match value {
            "{n}" => n.to_string(),
            "{nb}" => nb.to_string(),
            "{p}" => p.to_string(),
            "{q}" => q.to_string(),
            other => other.into(),
        };
        writeln!(text, "{value:12} {what}").expect("writing to a String does not fail");
    }
    text
}

pub(crate) fn read(job: &Job, finished: &Finished) -> Result<Vec<Sample>, Failure> {
    if finished.exit != Exit::Code(0) {
        return Err(Failure::Failed(format!("it ended with {}", finished.last_words())));
    }
    samples(job.threads, &String::from_utf8_lossy(&finished.stdout))
}

fn samples(processes: usize, output: &str) -> Result<Vec<Sample>, Failure> {
    failed_tests(output)?;
    let summary = summary(output)?;
    let text = |name: &str| summary.get(name).ok_or_else(|| Failure::Failed(format!("its summary has no {name}")));
    let (line, major) = text("VersionMajor")?;
    let (_, minor) = text("VersionMinor")?;
    if (*major, *minor) != VERSION {
        return Err(Failure::Failed(format!(
            "its output line {line}: version {major}.{minor}; version 1.5 can be read"
        )));
    }
    let (line, success) = text("Success")?;
    if *success != "1" {
        return Err(Failure::Failed(format!(
            "its output line {line}: Success={success}, a test of its own has failed"
        )));
    }
    let (line, count) = text("CommWorldProcs")?;
    if *count != processes.to_string() {
        return Err(Failure::Failed(format!(
            "its output line {line}: it ran {count} processes, {processes} were asked for"
        )));
    }
    let mut measured = Measured::default();
    for (name, series, _, factor) in NUMBERS {
        let (line, value) = text(name)?;
        let number: f64 = value
            .parse()
            .map_err(|_| Failure::Failed(format!("its output line {line}: {name} is '{value}', which is no number")))?;
        // -1 is its word for a test that it did not run, 0 for one that was too short for its clock.
        if number > 0.0 {
            measured.push(series, number * factor)?;
        }
    }
    Ok(measured.samples)
}

/// HPL and the others say so of every test that they check.
fn failed_tests(output: &str) -> Result<(), Failure> {
    match output.lines().enumerate().find(|(_, line)| line.trim_end().ends_with("FAILED")) {
        Some((index, line)) => {
            Err(Failure::Failed(format!("its output line {}: a check of its own failed: {}", index + 1, line.trim())))
        }
        None => Ok(()),
    }
}

/// The summary's values, with the lines where they stand.
fn summary(output: &str) -> Result<BTreeMap<&str, (usize, &str)>, Failure> {
    let mut values = BTreeMap::new();
    let mut inside = false;
    for (index, line) in output.lines().enumerate() {
        match line.trim_end() {
            "Begin of Summary section." => inside = true,
            "End of Summary section." if inside => return Ok(values),
            line if inside => {
                let (name, value) = line.split_once('=').ok_or_else(|| {
                    Failure::Failed(format!("its output line {}: '{line}' is not NAME=VALUE", index + 1))
                })?;
                values.insert(name, (index + 1, value));
            }
            _ => {}
        }
    }
    let what = if inside { "does not end" } else { "is missing" };
    let lines = output.lines().count();
    Err(Failure::Failed(format!(
        "the summary of its output {what}, which ends after line {lines}; hint: is it hpccoutf.txt?"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    const OUTPUT: &str = include_str!("hpcc/hpccoutf-1.5.0.txt");

    #[test]
    fn its_summary_is_read_in_our_units() {
        let samples = samples(1, OUTPUT).unwrap();
        let value = |name: &str| samples.iter().find(|sample| sample.series == name).unwrap().value;
        for (name, expected) in [
            ("hpl", 24.5475),
            ("dgemm-single", 61.746),
            ("dgemm-star", 51.2764),
            ("triad-single", 85_586.9),
            ("gups-single", 1.38971),
            ("gups-mpi", 0.077_472_1),
        ] {
            assert!((value(name) / expected - 1.0).abs() < 1e-9, "{name}: {}", value(name));
        }
    }

    #[test]
    fn what_is_not_its_output_is_named_with_its_line() {
        let error = |output: &str| samples(1, output).unwrap_err().to_string();
        let broken = |from: &str, to: &str| error(&OUTPUT.replace(from, to));
        let cases = [
            (broken("VersionMinor=5", "VersionMinor=7"), "line 382: version 1.7"),
            (broken("Success=1", "Success=0"), "line 387: Success=0"),
            (broken("sizeof_int=4", "sizeof_int 4"), "line 390: 'sizeof_int 4' is not NAME=VALUE"),
            (broken("HPL_Tflops=0.0245475", "HPL_Tflops=fast"), "line 401: HPL_Tflops is 'fast'"),
            (broken("SingleDGEMM_Gflops", "SingleDgemm"), "no SingleDGEMM_Gflops"),
            (broken("...... PASSED", "...... FAILED"), "line 367: a check of its own failed"),
            (broken("End of Summary section.", ""), "is not NAME=VALUE"),
            (error("HPLinpack 2.3"), "summary of its output is missing, which ends after line 1"),
            (samples(2, OUTPUT).unwrap_err().to_string(), "line 399: it ran 1 processes, 2 were"),
        ];
        for (error, expected) in cases {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn tests_that_were_not_run_have_no_sample() {
        let output = OUTPUT.replace("PTRANS_GBs=21.0397", "PTRANS_GBs=-1");
        assert!(samples(1, &output).unwrap().iter().all(|sample| sample.series != "ptrans"));
    }

    #[test]
    fn its_input_has_its_lines_in_order() {
        let text = input(1000, 80, 2, 3);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
        assert_eq!(
            [&lines[5], &lines[7], &lines[10], &lines[11]],
            [&["1000", "Ns"], &["80", "NBs"], &["2", "Ps"], &["3", "Qs"]]
        );
        assert_eq!(lines.len(), 31);
        for (count, expected) in [(1, (1, 1)), (2, (1, 2)), (6, (2, 3)), (12, (3, 4)), (7, (1, 7))] {
            assert_eq!(grid(count), expected);
        }
    }

    #[test]
    fn where_it_is_not_installed_the_package_is_named() {
        match recipe(&job_for_tests("hpcc")) {
            Ok(recipe) => assert_eq!(recipe.command.argv.last().unwrap(), "hpcc"),
            Err(failure) => println!("skipped: hpcc: {failure}"),
        }
        let Err(Failure::Unavailable(why)) = needed("no-such-hpcc", "hpcc") else { panic!("it is there") };
        assert!(why.contains("no-such-hpcc") && why.ends_with("apt-get install hpcc"), "{why}");
    }
}
