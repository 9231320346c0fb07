//! Encryption and decryption by OpenSSL's library or by the Linux kernel: throughput and CPU cost.
//!
//! Measures: blocks of one size through one cipher on every thread. Each thread has a separate key, context and buffer,
//! which stays in its caches. `message=stream` treats all blocks as one long message: key and vector are set once, and
//! the buffer is repeatedly encrypted in place. `message=block` makes each block a separate message: the vector is set
//! again, and ciphers with a tag also process 13 bytes of additional data and create or verify the tag, as packets
//! need. `engine=kernel` uses a pair of system calls per block and copies the data in and out.
//! Does NOT measure key generation, random numbers, authentication of CBC by a hash, protocols or networks. For the
//! Linux kernel, it does not include the CPU time of kernel threads or devices.
//! Definition: `openssl speed -evp NAME` (stream), `openssl speed -evp NAME -aead` (block). For GCM, that program
//! depends on its version: 3.0.22 makes each block a message even without `-aead` and sets the key for each, which
//! takes longer than a small block; `message=rekeyed` does the same. Its decryption with a tag is not copied: here each
//! tag is correct and verified, so the text is read from a second buffer.

pub(crate) mod cipher;
mod engine;
pub(crate) mod instructions;
mod kernel;
mod library;
mod self_test;

use std::collections::BTreeMap;
use std::time::Duration;

use machine::thread_time;
use model::values::id_set::NodeId;
use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, Parameters, WorkloadSpec};

use super::arena::Arena;
use super::clock;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::random::Random;
use crate::team::{self, Worker};
use cipher::{Cipher, Mode, TAG};
use engine::{CipherBuffers, OperationKind, Provider, Secret, Session, StepTally, StopWhen};

/// Samples per trial.
const ROUNDS: u32 = 10;

/// Bytes between two readings of the clock: about 10 us with the CPU's instructions, of which a reading takes 0.1 to
/// 0.2 %.
const BATCH_BYTES: u64 = 64 << 10;
/// Maximum number of steps between two readings of the clock for the Linux kernel's ciphers.
const KERNEL_BATCH_MAX: u64 = 64;

/// Bytes of a block of AES.
const AES_BLOCK: usize = 16;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "crypto".into(),
        summary: "encryption by OpenSSL's library or the Linux kernel: throughput and CPU cost".into(),
        about: "Blocks of one size through one cipher on every thread: as one long message, or each as a separate \
                message, as packets are. Throughput counts 1000 bytes, as openssl speed does. cpus-per-gbit is the \
                number of CPUs that 1 Gbit/s takes; cycles-per-byte uses the measured clock of the core. Does not \
                measure keys, protocols or networks. Source: openssl speed -evp, and -aead."
            .into(),
        parameters: parameters([
            Parameter {
                name: "cipher",
                about: "cipher with key length and mode",
                kind: ParameterKind::Choice(cipher::names()),
                default: Some("aes-128-cbc"),
                smoke: None,
            },
            Parameter {
                name: "block",
                about: "bytes per block (openssl speed: 16, 64, 256, 1024, 8192, 16384); for CBC a multiple of 16",
                kind: ParameterKind::Size { min: Bytes(16), max: Bytes(1 << 20) },
                default: Some("1KiB"),
                smoke: None,
            },
            Parameter {
                name: "direction",
                about: "encrypt or decrypt",
                kind: choice(&["encrypt", "decrypt"]),
                default: Some("encrypt"),
                smoke: None,
            },
            Parameter {
                name: "message",
                about: "all blocks as one message (stream), each as a separate one (block), or with a new key each \
                        (rekeyed)",
                kind: choice(&["stream", "block", "rekeyed"]),
                default: Some("stream"),
                smoke: None,
            },
            Parameter {
                name: "instructions",
                about: "with the CPU's cryptographic instructions (cpu), or the same build without them (software)",
                kind: choice(&["cpu", "software"]),
                default: Some("cpu"),
                smoke: None,
            },
            Parameter {
                name: "engine",
                about: "OpenSSL's library, or the Linux kernel's ciphers through AF_ALG sockets",
                kind: choice(&["library", "kernel"]),
                default: Some("library"),
                smoke: None,
            },
            Parameter {
                name: "library",
                about: "name or path of the libcrypto of OpenSSL 3",
                kind: ParameterKind::Text,
                default: Some("libcrypto.so.3"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "total duration of the ten rounds",
                kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
                default: Some("1s"),
                smoke: Some("50ms"),
            },
        ]),
        metrics: metrics([
            Metric::median("throughput", "kB/s", Better::Higher),
            Metric::median("rate", "Gbit/s", Better::Higher),
            Metric::median("cpu-per-byte", "ns", Better::Lower),
            Metric::median("cpus-per-gbit", "cpus", Better::Lower),
            Metric::median("cycles-per-byte", "cycles", Better::Lower),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(1_000_000_000),
    }
}

/// Rejects invalid combinations of parameters.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let cipher = cipher::by_name(parameters.text("cipher"));
    let block = parameters.size("block");
    if cipher.mode == Mode::Cbc && !block.is_multiple_of(AES_BLOCK) {
        return Err(format!("block is {block} bytes, but {} needs a multiple of {AES_BLOCK}", cipher.name));
    }
    if parameters.text("engine") != "kernel" {
        return Ok(());
    }
    if block > kernel::BLOCK_MAX {
        let most = Bytes(kernel::BLOCK_MAX as u64);
        return Err(format!("block is {}, but the kernel supports at most {most}", Bytes(block as u64)));
    }
    if parameters.text("message") == "rekeyed" {
        return Err("engine=kernel does not support message=rekeyed; hint: message=block".into());
    }
    if cipher.mode == Mode::Aead && parameters.text("message") == "stream" {
        return Err(format!("engine=kernel ends a message of {} with each call; hint: message=block", cipher.name));
    }
    Ok(())
}

/// Returns why this machine lacks OpenSSL's library, or why the Linux kernel does not offer a cipher through its sockets.
pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    if parameters.text("engine") != "kernel" {
        return library::missing(parameters.text("library"));
    }
    let cipher = cipher::by_name(parameters.text("cipher"));
    let software = parameters.text("instructions") == "software";
    kernel::check(cipher, software).err()?.unavailable().map(str::to_string)
}

struct CipherTask {
    engine: Provider,
    cipher: &'static Cipher,
    kind: OperationKind,
    block: usize,
    key: Vec<u8>,
    iv: Vec<u8>,
    stop: StopWhen,
}

/// One round of one thread.
struct Round {
    steps: StepTally,
    cpu: Duration,
}

struct ThreadResult {
    rounds: Vec<Round>,
    /// Mean clock rate of the core before and after the rounds, in GHz.
    clock: Option<f64>,
    pages: BTreeMap<NodeId, u64>,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    check(&job.parameters).map_err(Failure::Failed)?;
    let task = CipherTask::new(job)?;
    let team = team::run(job, |worker| task.one_thread(job, worker))?;
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    for done in &team.results {
        done.pages.iter().for_each(|(node, pages)| *output.pages.entry(*node).or_default() += pages);
    }
    for round in 0..ROUNDS as usize {
        let rounds = team.results.iter().map(|done| &done.rounds[round]);
        report(rounds, task.block, &mut output)?;
        let clocked = team.results.iter().map(|done| Some((&done.rounds[round], done.clock?)));
        if let Some(cycles) = cycles_per_byte(clocked, task.block) {
            output.push("cycles-per-byte", cycles)?;
        }
    }
    Ok(output)
}

/// CPU time in cycles of each thread's core, per byte; `None` unless all clock rates are known.
fn cycles_per_byte<'r>(rounds: impl Iterator<Item = Option<(&'r Round, f64)>>, block: usize) -> Option<f64> {
    let rounds: Vec<_> = rounds.collect::<Option<_>>()?;
    let cycles: f64 = rounds.iter().map(|(round, clock)| round.cpu.as_nanos() as f64 * clock).sum();
    let blocks: u64 = rounds.iter().map(|(round, _)| round.steps.done).sum();
    Some(cycles / (blocks as f64 * block as f64))
}

fn report<'r>(
    rounds: impl Iterator<Item = &'r Round> + Clone,
    block: usize,
    output: &mut KernelOutput,
) -> Result<(), Failure> {
    let bytes = |round: &Round| round.steps.done as f64 * block as f64;
    let rate: f64 = rounds.clone().map(|round| bytes(round) / round.steps.took.as_secs_f64()).sum();
    let cpu_ns: f64 = rounds.clone().map(|round| round.cpu.as_nanos() as f64).sum();
    let cpu_ns_per_byte = cpu_ns / rounds.map(bytes).sum::<f64>();
    output.push("throughput", rate / 1e3)?;
    output.push("rate", rate * 8.0 / 1e9)?;
    output.push("cpu-per-byte", cpu_ns_per_byte)?;
    // 1 Gbit/s is 1/8 byte per nanosecond.
    output.push("cpus-per-gbit", cpu_ns_per_byte / 8.0)
}

impl CipherTask {
    /// Opens the provider and runs its self-tests.
    fn new(job: &TrialContext) -> Result<Self, Failure> {
        let text = |name| job.parameters.text(name);
        let cipher = cipher::by_name(text("cipher"));
        let software = text("instructions") == "software";
        let block = job.parameters.size("block");
        let of_library = |software| library::Library::load(text("library"), software).map(Provider::Library);
        let (engine, other, batch_max) = match text("engine") {
            // Without the library, the test vectors alone must suffice.
            "kernel" => (Provider::Kernel { software }, of_library(false).ok(), KERNEL_BATCH_MAX),
            _ => (of_library(software)?, None, u64::MAX),
        };
        let mut random = Random::of_thread(job.seed, 0);
        let mut key = vec![0; cipher.vector.key.len() / 2];
        let mut iv = vec![0; cipher.vector.iv.len() / 2];
        let mut sample = vec![0; block];
        for place in [&mut key, &mut iv, &mut sample] {
            place.fill_with(|| random.next() as u8);
        }
        let secret = Secret { cipher, key: &key, iv: &iv };
        self_test::known_answer(&engine, cipher)?;
        self_test::round_trip(&engine, other.as_ref(), secret, &sample)?;
        let kind = OperationKind {
            encrypt: text("direction") == "encrypt",
            message_per_block: text("message") != "stream",
            rekey: text("message") == "rekeyed",
        };
        let batch = (BATCH_BYTES / block as u64).clamp(1, batch_max);
        let stop = StopWhen::Elapsed { time: job.time("time") / ROUNDS, batch };
        Ok(Self { engine, cipher, kind, block, key, iv, stop })
    }

    fn one_thread(&self, job: &TrialContext, worker: &Worker<'_>) -> Result<ThreadResult, Failure> {
        let mut arena = Arena::small(job, self.block * 2)?;
        let (target, source) = arena.as_bytes().split_at_mut(self.block);
        let mut random = Random::of_thread(job.seed, 1 + worker.index);
        target.fill_with(|| random.next() as u8);
        let secret = Secret { cipher: self.cipher, key: &self.key, iv: &self.iv };
        let aead = self.cipher.mode == Mode::Aead;
        let tag = self.fill_source(secret, target, source)?;
        let mut buffers = CipherBuffers { target, source, tag };
        let aad: &[u8] = if aead { &engine::AAD } else { &[] };
        let mut session = self.engine.session(secret, aad, self.kind.encrypt)?;
        // Before the rounds as a warm-up; after them to verify that the state is still correct.
        self_test::steps(&self.engine, secret, &mut session, &mut buffers, self.kind)?;
        let (rounds, clock) = worker.timed(|| {
            let mut rounds = Vec::with_capacity(ROUNDS as usize);
            let before = clock::cycles_per_ns();
            for _ in 0..ROUNDS {
                worker.barrier()?;
                rounds.push(self.round(&mut session, &mut buffers)?);
            }
            let clock = before.zip(clock::cycles_per_ns()).map(|(before, after)| f64::midpoint(before, after));
            Ok((rounds, clock))
        })?;
        self_test::steps(&self.engine, secret, &mut session, &mut buffers, self.kind)?;
        Ok(ThreadResult { rounds, clock, pages: arena.pages_by_node()? })
    }

    /// Prepares the encrypted text from which messages with a tag are decrypted. Returns its tag.
    fn fill_source(&self, secret: Secret<'_>, text: &[u8], source: &mut [u8]) -> Result<[u8; TAG], Failure> {
        // Also if it is not read: touches all pages before the timed region.
        source.copy_from_slice(text);
        if self.cipher.mode != Mode::Aead || self.kind.encrypt || !self.kind.message_per_block {
            return Ok([0; TAG]);
        }
        let (encrypted, tag) = self_test::seal(&self.engine, secret, &engine::AAD, text)?;
        source.copy_from_slice(&encrypted);
        Ok(tag)
    }

    fn round(&self, session: &mut Session<'_>, buffers: &mut CipherBuffers<'_>) -> Result<Round, Failure> {
        let cpu = thread_time::used();
        let steps = session.repeat(buffers, self.cipher.mode == Mode::Aead, self.kind, true, self.stop);
        let cpu = thread_time::used().saturating_sub(cpu);
        if steps.rejected > 0 {
            let (rejected, all, reason) = (steps.rejected, steps.done, session.error_message());
            return Err(Failure::Failed(format!(
                "{}: {rejected} of {all} blocks were rejected: {reason}",
                self.cipher.name
            )));
        }
        Ok(Round { steps, cpu })
    }
}

#[cfg(test)]
mod tests;
