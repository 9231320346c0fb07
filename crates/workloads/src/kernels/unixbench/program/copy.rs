//! One copy of a test, as the worker sees it: the copy says that it is ready, waits for the word to start, measures
//! until its time is over, and prints one line: count, nanoseconds, cpus before and after, then the test's own values.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use super::c;

/// Set when the time is over.
static OVER: AtomicBool = AtomicBool::new(false);

/// The words of the command line after the program's name.
pub struct ArgIter {
    pub count: usize,
    pub first: *const *const c_char,
}

impl ArgIter {
    /// The word at this place; a missing one is a fault of the worker.
    pub fn text(&self, place: usize) -> *const c_char {
        if place >= self.count {
            fail("a word is missing on the command line");
        }
        // SAFETY: the kernel gives a program `count` pointers, and none of them is changed.
        unsafe { *self.first.add(place) }
    }

    /// The number at this place.
    pub fn number(&self, place: usize) -> u64 {
        // SAFETY: words of a command line end in a zero byte and live as long as the program.
        let word = unsafe { CStr::from_ptr(self.text(place)) };
        match word.to_str().ok().and_then(|word| word.parse().ok()) {
            Some(number) => number,
            None => fail("a word on the command line is not a number"),
        }
    }
}

/// Where and when a measurement began.
pub struct CopyStart {
    cpu: c_int,
    at_ns: u64,
}

/// Tells the worker that all is prepared and waits until it says go; then the time runs.
pub fn begin(time_ns: u64) -> CopyStart {
    wait_for_start();
    start(time_ns)
}

/// Tells the worker that all is prepared and waits until it says go.
pub fn wait_for_start() {
    let mut word = b'r';
    let byte = (&raw mut word).cast::<c_void>();
    // SAFETY: both calls have one byte that is theirs for the call.
    let (said, heard) = unsafe { (c::write(1, byte, 1), c::read(0, byte, 1)) };
    if said != 1 || heard != 1 {
        fail("nobody gave the word to start");
    }
    // What standard input is, the worker's pipe, must not matter to a test that copies descriptors.
    // SAFETY: the path ends in a zero byte; a failure leaves the descriptors as they are.
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

/// Whether the time is over.
#[inline(always)]
pub fn is_over() -> bool {
    OVER.load(Ordering::Relaxed)
}

extern "C" fn time_is_over(_: c_int) {
    OVER.store(true, Ordering::Relaxed);
}

/// The cpu that this copy runs on.
pub fn cpu() -> c_int {
    // SAFETY: takes nothing and changes nothing.
    unsafe { c::sched_getcpu() }
}

/// Nanoseconds of the steady clock.
pub fn now_ns() -> u64 {
    let mut now = c::Timespec { seconds: 0, nanos: 0 };
    // SAFETY: the time is written during the call.
    unsafe { c::clock_gettime(c::CLOCK_MONOTONIC, &raw mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanos as u64
}

/// Prints what was measured and ends the program.
pub fn end(begun: &CopyStart, count: u64, values: &[u64]) -> ! {
    end_after(begun.cpu, now_ns() - begun.at_ns, count, values)
}

/// As [`end`], for a test that keeps its own time.
pub fn end_after(cpu_before: c_int, took_ns: u64, count: u64, values: &[u64]) -> ! {
    let mut line = LineBuffer::new();
    [count, took_ns, cpu_before as u64, cpu() as u64].iter().chain(values).for_each(|value| line.number(*value));
    line.print(1);
    // SAFETY: ends the program.
    unsafe { c::exit(0) }
}

/// Ends the program with what went wrong and the C library's error number.
#[cold]
pub fn fail(what: &str) -> ! {
    let mut line = LineBuffer::new();
    line.text(what.as_bytes());
    line.text(b" (errno");
    // SAFETY: the location is this thread's for as long as it lives.
    line.number(unsafe { *c::__errno_location() } as u64);
    line.text(b")");
    line.print(2);
    // SAFETY: ends the program.
    unsafe { c::exit(1) }
}

/// A line in the making; what does not fit is cut off.
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

    /// A number after a space, unless it is the first thing in the line.
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

    /// The line as C has texts: with a zero byte behind it.
    pub fn as_c(&mut self) -> *const c_char {
        self.text(b"\0");
        self.bytes.as_ptr().cast()
    }

    fn print(&mut self, fd: c_int) {
        self.text(b"\n");
        // SAFETY: that many bytes are there. Nobody is left to be told that it failed.
        unsafe { c::write(fd, self.bytes.as_ptr().cast(), self.used) };
    }
}
