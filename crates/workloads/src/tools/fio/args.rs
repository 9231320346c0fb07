//! Translates the parameters of workload `io` into fio's arguments.

use std::path::Path;

use model::values::workload::Parameters;

use crate::job::TrialContext;
use crate::kernels::io::{has_writes, mixes};

/// The role of a run within its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FioRun {
    /// Writes, in order, all data that is verified later.
    Write,
    Measure,
}

/// Returns the arguments of one run. Every option is explicit, so that different defaults of another version cannot
/// change the measurement.
pub(super) fn words(job: &TrialContext, file: &str, bytes: u64, pass: FioRun, output: &Path) -> Vec<String> {
    let parameters = &job.parameters;
    let mut words = FioArgs(Vec::new());
    words.say("name", "nearfar");
    words.say("output", output.display());
    words.say("output-format", "json");
    words.say("eta", "never");
    words.say("verify_state_save", 0);
    // fio splits names at colons.
    words.say("filename", file.replace(':', "\\:"));
    words.say("allow_file_create", 0);
    words.say("thread", 1);
    words.say("group_reporting", 1);
    words.say("bs", parameters.integer("bs"));
    words.say("direct", u8::from(parameters.switch("direct")));
    words.say("invalidate", 0);
    words.say("overwrite", 1);
    content(parameters, &mut words);
    match pass {
        FioRun::Write => {
            words.say("rw", "write");
            words.say("size", bytes);
            words.say("ioengine", "psync");
            words.say("end_fsync", 1);
            words.say("do_verify", 0);
        }
        FioRun::Measure => {
            if !has_writes(parameters) {
                words.0.push("--readonly".into());
            }
            requests(job, bytes, &mut words);
            engine(parameters, &mut words);
            end(parameters, &mut words);
        }
    }
    words.0
}

/// Arguments of the form `--name=value`.
struct FioArgs(Vec<String>);

impl FioArgs {
    fn say(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("--{name}={value}"));
    }
}

fn content(parameters: &Parameters, words: &mut FioArgs) {
    let data = parameters.text("data");
    words.say(if data == "zero" { "zero_buffers" } else { "refill_buffers" }, 1);
    if let Some(percent) = data.strip_prefix("compress:") {
        words.say("buffer_compress_percentage", percent);
    }
    if parameters.switch("verify") {
        words.say("verify", "crc32c");
        words.say("verify_fatal", 1);
    }
}

fn requests(job: &TrialContext, whole: u64, words: &mut FioArgs) {
    let (parameters, threads) = (&job.parameters, job.threads as u64);
    let rw = parameters.text("rw");
    words.say("rw", rw);
    words.say("numjobs", threads);
    let block = parameters.integer("bs") as u64;
    // For sequential requests each thread has its own part of the file, as in `io`. So does each thread that verifies
    // its writes, because writes of another thread would otherwise count as corruption.
    let apart = !rw.starts_with("rand") || parameters.switch("verify") && has_writes(parameters);
    let part = whole / block / threads * block;
    if apart && threads > 1 && part > 0 {
        words.say("size", part);
        words.say("offset_increment", part);
    } else {
        words.say("size", whole);
    }
    words.say("iodepth", parameters.integer("iodepth"));
    if mixes(parameters) {
        words.say("rwmixread", parameters.integer("mix"));
        words.say("unified_rw_reporting", "both");
    }
    if rw.starts_with("rand") {
        // nearfar and fio use the same syntax.
        words.say("random_distribution", parameters.text("distribution"));
        words.say("norandommap", 1);
        words.say("random_generator", "tausworthe64");
    }
    // fio treats 0 as no seed, and accepts at most 63 bits.
    words.say("randseed", (job.seed >> 1).max(1));
    if parameters.integer("rate") > 0 {
        words.say("rate_iops", parameters.integer("rate"));
    }
    if parameters.integer("fsync") > 0 {
        words.say("fsync", parameters.integer("fsync"));
    }
    for kind in ["slat_percentiles", "clat_percentiles", "lat_percentiles"] {
        words.say(kind, 1);
    }
    words.say("percentile_list", "50:99:99.9:99.99");
}

fn engine(parameters: &Parameters, words: &mut FioArgs) {
    let engine = parameters.text("engine");
    words.say("ioengine", if engine == "preadv2" { "pvsync2" } else { engine });
    if engine == "io_uring" {
        let registered = u8::from(parameters.switch("registered"));
        words.say("fixedbufs", registered);
        words.say("registerfiles", registered);
        words.say("sqthread_poll", u8::from(parameters.switch("sqpoll")));
    }
    if parameters.switch("iopoll") {
        words.say("hipri", 1);
    }
}

fn end(parameters: &Parameters, words: &mut FioArgs) {
    if parameters.integer("amount") > 0 {
        words.say("io_size", parameters.integer("amount"));
    } else {
        words.say("time_based", 1);
        words.say("runtime", format!("{}us", parameters.integer("runtime") / 1000));
    }
    if parameters.integer("ramp") > 0 {
        words.say("ramp_time", format!("{}us", parameters.integer("ramp") / 1000));
    }
}
