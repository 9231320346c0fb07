//! Runs the reference HPL, alone (`xhpl`) or within `hpcc`: one MPI process for each thread, in a grid that is as
//! square as the count allows, with the input and output files in a scratch directory.
//!
//! The processes together may use the placement's CPUs. MPI binds none of them, and each has a single-threaded BLAS.

use std::fmt::Write as _;
use std::sync::Arc;

use model::values::placement::MemoryPolicy;
use model::values::units::Bytes;
use model::values::workload::ParameterKind;

use super::installed;
use crate::command_spec::{CommandLine, CommandSpec};
use crate::describe::Parameter;
use crate::job::{Failure, TrialContext};
use crate::scratch::Scratch;

/// HPL's example input, except for sizes and the grid: `(first word, description)`.
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

/// Returns the parameters of both tools: the size, with the given description, and the block size.
pub(super) fn size_and_block(about: &'static str) -> [Parameter; 2] {
    [
        Parameter {
            name: "n",
            about,
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
    ]
}

/// Runs a program that reads `input` and writes `output`. The text of `output` becomes the output of the trial's
/// command.
pub(super) fn recipe(job: &TrialContext, program: &str, input: &str, output: &str) -> Result<CommandSpec, Failure> {
    let (n, nb) = (job.parameters.size("n"), job.parameters.size("nb"));
    let matrix = Bytes((n as u64).pow(2) * size_of::<f64>() as u64);
    // HPL would skip the test and mention that only in its output.
    let too_large = |error| Failure::Unavailable(format!("n = {n}: {error}"));
    machine::memory::check_available(matrix, &MemoryPolicy::Kernel).map_err(too_large)?;
    let (rows, columns) = grid(job.threads);
    let mut words: Vec<String> = Vec::new();
    if job.threads > 1 {
        installed::require("mpirun", "openmpi-bin")?;
        // The placement decides where processes run, so MPI must not bind them. Containers run as root.
        let mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"];
        words.extend(mpirun.map(String::from));
        words.push(job.threads.to_string());
    }
    words.push(program.into());

    let scratch = Scratch::new(&std::env::temp_dir())?;
    scratch.file(input, input_text(n, nb, rows, columns).as_bytes())?;
    let script = "cd \"$0\" && output=$1 && shift && \"$@\" >&2 && cat \"$output\"";
    let dir = scratch.dir().to_string_lossy().into_owned();
    let shell = ["sh", "-c", script, &dir, output].map(String::from);
    let argv = shell.into_iter().chain(words).collect();
    let command = CommandLine { argv, environment: crate::worker::environment() };
    Ok(CommandSpec { scratch: Some(Arc::new(scratch)), ..CommandSpec::of(command) })
}

/// Returns the rows and columns of the process grid: as square as possible, with no more rows than columns, as
/// recommended for HPL.
fn grid(processes: usize) -> (usize, usize) {
    let fits = |rows: &usize| processes.is_multiple_of(*rows);
    let rows = (1..=processes).take_while(|rows| rows * rows <= processes).filter(fits).last().unwrap_or(1);
    (rows, processes / rows)
}

fn input_text(n: usize, nb: usize, p: usize, q: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{job_for_tests, set};

    #[test]
    fn input_lines_are_in_order() {
        let text = input_text(1000, 80, 2, 3);
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
    fn oversized_matrix_is_refused_before_the_run() {
        let mut job = job_for_tests("hpcc");
        set(&mut job, "n", "2000000");
        let Err(Failure::Unavailable(why)) = recipe(&job, "hpcc", "in", "out") else { panic!("it fits") };
        assert!(why.contains("n = 2000000: 29.1TiB of memory do not fit"), "{why}");
    }
}
