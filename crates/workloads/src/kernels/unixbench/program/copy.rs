//! The protocol between one copy of a test and the worker: the copy reports that it is ready, waits for the start
//! signal, measures until its time is over, and prints one line: count, nanoseconds, CPUs before and after, then the
//! test's own values.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use super::c;

/// Set when the time is over.
static OVER: AtomicBool = AtomicBool::new(false);

/// The command line arguments, including the program's name.
pub struct ArgIter {
    pub count: usize,
    pub first: *const *const c_char,
}

impl ArgIter {
    /// Returns the argument at this index; a missing one is an error of the worker.
    pub fn text(&self, index: usize) -> *const c_char {
        if index >= self.count {
            fail("missing command line argument");
        }
        // SAFETY: the kernel passes `count` pointers to a program, and none of them is changed.
        unsafe { *self.first.add(index) }
    }

    /// Returns the number at this index.
    pub fn number(&self, index: usize) -> u64 {
        // SAFETY: command line arguments end in a zero byte and live as long as the program.
        let word = unsafe { CStr::from_ptr(self.text(index)) };
        match word.to_str().ok().and_then(|word| word.parse().ok()) {
            Some(number) => number,
            None => fail("a command line argument is not a number"),
        }
    }
}

/// CPU and time at the start of a measurement.
pub struct CopyStart {
    cpu: c_int,
    at_ns: u64,
}

/// Signals readiness to the worker, waits for the start signal, then starts the timer.
pub fn begin(time_ns: u64) -> CopyStart {
    wait_for_start();
    start(time_ns)
}

/// Signals readiness to the worker and waits for the start signal.
pub fn wait_for_start() {
    let mut word = b'r';
    let byte = (&raw mut word).cast::<c_void>();
    // SAFETY: both calls access one byte, which is valid for the call.
    let (written, received) = unsafe { (c::write(1, byte, 1), c::read(0, byte, 1)) };
    if written != 1 || received != 1 {
        fail("no start signal received");
    }
    // Replaces standard input, the pipe of the worker, because a test that copies descriptors must not depend on its
    // type.
    // SAFETY: the path ends in a zero byte; a failure leaves the descriptors unchanged.
    unsafe { c::dup2(c::open(c"/dev/null".as_ptr(), c::O_RDWR), 0) };
}

pub fn start(time_ns: u64) -> CopyStart {
    let once = c::Timeval { seconds: (time_ns / 1_000_000_000) as i64, micros: (time_ns / 1000 % 1_000_000) as i64 };
    let timer = c::Itimerval { interval: c::Timeval { seconds: 0, micros: 0 }, value: once };
    // SAFETY: the handler only stores to an atomic; the timer is read during the call.
    unsafe {
        c::signal(c::SIGALRM, time_is_over);
        c::setitimer(c::ITIMER_REAL, &raw const timer, null_mut());
    }
    CopyStart { cpu: cpu(), at_ns: now_ns() }
}

/// Returns whether the time is over.
#[inline(always)]
pub fn has_ended() -> bool {
    OVER.load(Ordering::Relaxed)
}

extern "C" fn time_is_over(_: c_int) {
    OVER.store(true, Ordering::Relaxed);
}

/// The CPU that this copy runs on.
pub fn cpu() -> c_int {
    // SAFETY: takes no arguments and changes nothing.
    unsafe { c::sched_getcpu() }
}

/// Monotonic time in nanoseconds.
pub fn now_ns() -> u64 {
    let mut now = c::Timespec { seconds: 0, nanos: 0 };
    // SAFETY: the call writes the time.
    unsafe { c::clock_gettime(c::CLOCK_MONOTONIC, &raw mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanos as u64
}

/// Prints the result and exits.
pub fn end(start: &CopyStart, count: u64, values: &[u64]) -> ! {
    end_after(start.cpu, now_ns() - start.at_ns, count, values)
}

/// Like [`end`], for a test that measures its own time.
pub fn end_after(cpu_before: c_int, took_ns: u64, count: u64, values: &[u64]) -> ! {
    let mut line = LineBuffer::new();
    [count, took_ns, cpu_before as u64, cpu() as u64].iter().chain(values).for_each(|value| line.number(*value));
    line.print(1);
    // SAFETY: ends the program.
    unsafe { c::exit(0) }
}

/// Prints an error message with the C library's error number, and exits.
#[cold]
pub fn fail(message: &str) -> ! {
    let mut line = LineBuffer::new();
    line.text(message.as_bytes());
    line.text(b" (errno");
    // SAFETY: the location belongs to this thread and is valid as long as the thread lives.
    line.number(unsafe { *c::__errno_location() } as u64);
    line.text(b")");
    line.print(2);
    // SAFETY: ends the program.
    unsafe { c::exit(1) }
}

/// A line buffer of fixed size; text that does not fit is truncated.
pub struct LineBuffer {
    bytes: [u8; 512],
    used: usize,
}

impl LineBuffer {
    pub fn new() -> Self {
        Self { bytes: [0; 512], used: 0 }
    }

    pub fn text(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(free) = self.bytes.get_mut(self.used) {
                *free = *byte;
                self.used += 1;
            }
        }
    }

    /// Appends a number, preceded by a space unless the line is empty.
    pub fn number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut left = number;
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if self.used > 0 {
            self.text(b" ");
        }
        self.text(&digits[first..]);
    }

    /// The line as a C string, with a terminating zero byte.
    pub fn as_c(&mut self) -> *const c_char {
        self.text(b"\0");
        self.bytes.as_ptr().cast()
    }

    fn print(&mut self, fd: c_int) {
        self.text(b"\n");
        // SAFETY: the buffer has that many bytes. A failure cannot be reported.
        unsafe { c::write(fd, self.bytes.as_ptr().cast(), self.used) };
    }
}
