//! Encryption and decryption, by OpenSSL's library or by the kernel: how much a second, and what it costs of the cpus.
//!
//! Measures: blocks of one size through one cipher on every thread, each thread with a key, a context and a buffer of
//! its own that stays in its caches. As one long message (`message=stream`: key and vector are set once, the buffer is
//! encrypted in place again and again), or each block a message of its own (`message=block`: the vector is set anew,
//! and ciphers with a tag also take 13 bytes of additional data and make or check the tag), which is what packets need.
//! `engine=kernel` is a pair of system calls per block, with the data copied in and out.
//! Does NOT measure making keys, random numbers, hashing for CBC (without which it authenticates nothing), protocols or
//! networks; of the kernel not what kernel threads or devices do for us, whose time is nobody's here.
//! Definition: `openssl speed -evp NAME` (stream), `openssl speed -evp NAME -aead` (block). What that program does for
//! GCM depends on its version: 3.0.22 makes each block a message also without `-aead`, and sets the key anew for each,
//! which takes longer than a small block: `message=rekeyed` does the same. Its decryption with a tag is not copied:
//! here each tag is right and checked, for which the text is read from a second buffer.

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

/// Bytes between two looks at the clock: some 10 us with the cpu's instructions, of which a look is a thousandth or
/// two.
const BATCH_BYTES: u64 = 64 << 10;
/// The same through system calls.
const KERNEL_BATCH_MAX: u64 = 64;

/// Bytes of a block of AES.
const AES_BLOCK: usize = 16;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "crypto".into(),
        summary: "encryption by OpenSSL's library or the kernel: throughput, and what it costs of the cpus".into(),
        about: "Blocks of one size through one cipher, on every thread: as one long message, or each a message of its \
                own as packets are. Throughput counts 1000 bytes, as openssl speed does; cpus-per-gbit is the cpus that \
                1 Gbit/s takes, cycles-per-byte is by the core's clock, timed. Does not measure keys, protocols or networks. Source: openssl speed -evp, and -aead."
            .into(),
        parameters: parameters([
            Parameter {
                name: "cipher",
                about: "which cipher, its key length and its mode",
                kind: ParameterKind::Choice(cipher::names()),
                default: Some("aes-128-cbc"),
                smoke: None,
            },
            Parameter {
                name: "block",
                about: "bytes at once (openssl speed has 16, 64, 256, 1024, 8192, 16384); of CBC whole 16 bytes",
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
                about: "all blocks one message (stream), each one of its own (block), and with a new key (rekeyed)",
                kind: choice(&["stream", "block", "rekeyed"]),
                default: Some("stream"),
                smoke: None,
            },
            Parameter {
                name: "instructions",
                about: "with the cpu's cryptographic instructions (cpu), or the same build without them (software)",
                kind: choice(&["cpu", "software"]),
                default: Some("cpu"),
                smoke: None,
            },
            Parameter {
                name: "engine",
                about: "OpenSSL's library, or the kernel's ciphers through AF_ALG sockets",
                kind: choice(&["library", "kernel"]),
                default: Some("library"),
                smoke: None,
            },
            Parameter {
                name: "library",
                about: "the libcrypto of OpenSSL 3 that is loaded: a name or a path",
                kind: ParameterKind::Text,
                default: Some("libcrypto.so.3"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "how long the ten rounds take together",
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

/// What goes together and what does not.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let cipher = cipher::of(parameters.text("cipher"));
    let block = parameters.size("block");
    if cipher.mode == Mode::Cbc && !block.is_multiple_of(AES_BLOCK) {
        return Err(format!(
            "block is {block} bytes, which are no whole blocks of {AES_BLOCK} as {} needs",
            cipher.name
        ));
    }
    if parameters.text("engine") != "kernel" {
        return Ok(());
    }
    if block > kernel::BLOCK_MAX {
        let most = Bytes(kernel::BLOCK_MAX as u64);
        return Err(format!("block is {}, and the kernel takes at most {most} at once", Bytes(block as u64)));
    }
    if parameters.text("message") == "rekeyed" {
        return Err("the kernel takes no new key while messages are under way; set message=block".into());
    }
    if cipher.mode == Mode::Aead && parameters.text("message") == "stream" {
        return Err(format!("the kernel ends a message of {} with each call; set message=block", cipher.name));
    }
    Ok(())
}

struct CipherTask {
    engine: Provider,
    cipher: &'static Cipher,
    way: OperationKind,
    block: usize,
    key: Vec<u8>,
    iv: Vec<u8>,
    until: StopWhen,
}

/// One round of one thread.
struct Round {
    steps: StepTally,
    cpu: Duration,
}

struct ThreadResult {
    rounds: Vec<Round>,
    /// Of its core, in GHz; mean of before and after.
    clock: Option<f64>,
    pages: BTreeMap<NodeId, u64>,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    check(&job.parameters).map_err(Failure::Failed)?;
    let task = CipherTask::of(job)?;
    let crew = team::run(job, |member| task.one_thread(job, member))?;
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    for done in &crew.results {
        done.pages.iter().for_each(|(node, pages)| *measured.pages.entry(*node).or_default() += pages);
    }
    for round in 0..ROUNDS as usize {
        let rounds = crew.results.iter().map(|done| &done.rounds[round]);
        report(rounds, task.block, &mut measured)?;
        let clocked = crew.results.iter().map(|done| Some((&done.rounds[round], done.clock?)));
        if let Some(cycles) = cycles_per_byte(clocked, task.block) {
            measured.push("cycles-per-byte", cycles)?;
        }
    }
    Ok(measured)
}

/// Time on the cpus in cycles of each thread's core; None unless all clocks are known.
fn cycles_per_byte<'r>(rounds: impl Iterator<Item = Option<(&'r Round, f64)>>, block: usize) -> Option<f64> {
    let rounds: Vec<_> = rounds.collect::<Option<_>>()?;
    let cycles: f64 = rounds.iter().map(|(round, clock)| round.cpu.as_nanos() as f64 * clock).sum();
    let blocks: u64 = rounds.iter().map(|(round, _)| round.steps.done).sum();
    Some(cycles / (blocks as f64 * block as f64))
}

fn report<'r>(
    rounds: impl Iterator<Item = &'r Round> + Clone,
    block: usize,
    measured: &mut KernelOutput,
) -> Result<(), Failure> {
    let bytes = |round: &Round| round.steps.done as f64 * block as f64;
    let rate: f64 = rounds.clone().map(|round| bytes(round) / round.steps.took.as_secs_f64()).sum();
    let cpu_ns: f64 = rounds.clone().map(|round| round.cpu.as_nanos() as f64).sum();
    let cpu_ns_per_byte = cpu_ns / rounds.map(bytes).sum::<f64>();
    measured.push("throughput", rate / 1e3)?;
    measured.push("rate", rate * 8.0 / 1e9)?;
    measured.push("cpu-per-byte", cpu_ns_per_byte)?;
    // 1 Gbit/s is 1/8 of a byte each nanosecond.
    measured.push("cpus-per-gbit", cpu_ns_per_byte / 8.0)
}

impl CipherTask {
    /// Opens the engine, and has it prove that it encrypts.
    fn of(job: &TrialContext) -> Result<Self, Failure> {
        let text = |name| job.parameters.text(name);
        let cipher = cipher::of(text("cipher"));
        let software = text("instructions") == "software";
        let block = job.parameters.size("block");
        let of_library = |software| library::Library::load(text("library"), software).map(Provider::Library);
        let (engine, other, batch_max) = match text("engine") {
            // Where there is no library the vectors have to do.
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
        let way = OperationKind {
            encrypt: text("direction") == "encrypt",
            message_per_block: text("message") != "stream",
            rekey: text("message") == "rekeyed",
        };
        let batch = (BATCH_BYTES / block as u64).clamp(1, batch_max);
        let until = StopWhen::Elapsed { time: job.time("time") / ROUNDS, batch };
        Ok(Self { engine, cipher, way, block, key, iv, until })
    }

    fn one_thread(&self, job: &TrialContext, member: &Worker<'_>) -> Result<ThreadResult, Failure> {
        let mut arena = Arena::small(job, self.block * 2)?;
        let (target, source) = arena.as_bytes().split_at_mut(self.block);
        let mut random = Random::of_thread(job.seed, 1 + member.index);
        target.fill_with(|| random.next() as u8);
        let secret = Secret { cipher: self.cipher, key: &self.key, iv: &self.iv };
        let aead = self.cipher.mode == Mode::Aead;
        let tag = self.fill_source(secret, target, source)?;
        let mut desk = CipherBuffers { target, source, tag };
        let aad: &[u8] = if aead { &engine::AAD } else { &[] };
        let mut session = self.engine.session(secret, aad, self.way.encrypt)?;
        // Before, so that the first round is not the first use; after, so that the rounds spoilt nothing.
        self_test::steps(&self.engine, secret, &mut session, &mut desk, self.way)?;
        let (rounds, clock) = member.timed(|| {
            let mut rounds = Vec::with_capacity(ROUNDS as usize);
            let before = clock::cycles_per_ns();
            for _ in 0..ROUNDS {
                member.barrier()?;
                rounds.push(self.round(&mut session, &mut desk)?);
            }
            let clock = before.zip(clock::cycles_per_ns()).map(|(before, after)| f64::midpoint(before, after));
            Ok((rounds, clock))
        })?;
        self_test::steps(&self.engine, secret, &mut session, &mut desk, self.way)?;
        Ok(ThreadResult { rounds, clock, pages: arena.pages_by_node()? })
    }

    /// The encrypted text that messages with a tag are decrypted from, and its tag.
    fn fill_source(&self, secret: Secret<'_>, text: &[u8], source: &mut [u8]) -> Result<[u8; TAG], Failure> {
        // Also where it is not read: all pages are there before the clock runs.
        source.copy_from_slice(text);
        if self.cipher.mode != Mode::Aead || self.way.encrypt || !self.way.message_per_block {
            return Ok([0; TAG]);
        }
        let (encrypted, tag) = self_test::seal(&self.engine, secret, &engine::AAD, text)?;
        source.copy_from_slice(&encrypted);
        Ok(tag)
    }

    fn round(&self, session: &mut Session<'_>, desk: &mut CipherBuffers<'_>) -> Result<Round, Failure> {
        let cpu = thread_time::used();
        let steps = session.repeat(desk, self.cipher.mode == Mode::Aead, self.way, true, self.until);
        let cpu = thread_time::used().saturating_sub(cpu);
        if steps.refused > 0 {
            let (refused, all, why) = (steps.refused, steps.done, session.last_words());
            return Err(Failure::Failed(format!(
                "{}: {refused} of {all} blocks were refused: {why}",
                self.cipher.name
            )));
        }
        Ok(Round { steps, cpu })
    }
}

#[cfg(test)]
mod tests;
