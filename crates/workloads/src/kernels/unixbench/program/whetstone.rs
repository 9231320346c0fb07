//! Whetstone (H. J. Curnow and B. A. Wichmann, Computer Journal 19, 1976) in double precision: the eight remaining
//! modules of its eleven, with their weights 12, 14, 345, 210, 32, 899, 616 and 93, as R. Longbottom's C version of
//! 1996 runs them. A pass runs each module a hundred times its weight and measures its user time; the first module is
//! short, so it is repeated ten times and a tenth of its time is counted. One pass is ten million Whetstone
//! instructions, so passes per second times ten are MWIPS.
//!
//! UnixBench compiles it with -O2 -ffast-math. With these options gcc inlines two of three procedures, replaces the
//! integer module by its constant result, multiplies where the definition divides, and simplifies a square root in an
//! exponential. Without `STRICT` the modules do the work that remains after that; with it, all work that is defined.

use core::arch::asm;
use core::hint::black_box;

use super::whetstone_2::{p0, p0_called, p3, p3_called, pa, pa_dividing};
use super::{c, copy};

/// Loops per weight and pass.
const LOOPS: i64 = 100;
/// The first module's repetitions.
const FIRST: i64 = 10;
const MODULES: usize = 8;

const T: f64 = 0.499_999_75;
const T1: f64 = 0.500_000_25;
const T2: f64 = 2.0;

// SAFETY: the signatures are those of glibc and musl; the functions that take only numbers accept every number.
unsafe extern "C" {
    safe fn atan(x: f64) -> f64;
    safe fn cos(x: f64) -> f64;
    safe fn exp(x: f64) -> f64;
    safe fn log(x: f64) -> f64;
    safe fn sqrt(x: f64) -> f64;
    fn sincos(x: f64, sine: *mut f64, cosine: *mut f64);
}

/// Results and seconds of the modules over some passes.
struct Passes {
    results: [f64; MODULES],
    seconds: [f64; MODULES],
}

impl Passes {
    fn all_seconds(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

/// Counts passes; the time is their CPU time in nanoseconds. The values are the nanoseconds of each module and, from a
/// single pass, whose results are known, the result of each module.
pub fn run<const STRICT: bool>(time_ns: u64) -> ! {
    let (passes, alone) = calibrate::<STRICT>(time_ns as f64 / 1e9);
    copy::wait_for_start();
    let cpu = copy::cpu();
    let last = run_passes::<STRICT>(passes);
    let nanos = last.seconds.map(|seconds| (seconds * 1e9) as u64);
    let results = alone.results.map(f64::to_bits);
    let mut values = [0; 2 * MODULES];
    values[..MODULES].copy_from_slice(&nanos);
    values[MODULES..].copy_from_slice(&results);
    copy::end_after(cpu, nanos.iter().sum(), passes as u64, &values)
}

/// Returns the number of passes that take this long, and the first pass. Multiplies the number by five until the passes
/// take a twentieth of the time.
fn calibrate<const STRICT: bool>(seconds: f64) -> (i64, Passes) {
    let alone = run_passes::<STRICT>(1);
    let (mut passes, mut took) = (1, alone.all_seconds());
    while took < seconds / 20.0 {
        passes *= 5;
        took = run_passes::<STRICT>(passes).all_seconds();
    }
    ((seconds * passes as f64 / took).max(1.0) as i64, alone)
}

fn run_passes<const STRICT: bool>(passes: i64) -> Passes {
    let mut e1 = [1.0, -1.0, -1.0, -1.0];
    let mut done = Passes { results: [0.0; MODULES], seconds: [0.0; MODULES] };
    let mut note = |module: usize, (result, seconds): (f64, f64)| {
        (done.results[module], done.seconds[module]) = (result, seconds);
    };
    let (result, seconds) = timed(|| array_elements(passes, &mut e1));
    note(0, (result, seconds / FIRST as f64));
    note(1, timed(|| array_as_parameter::<STRICT>(passes, &mut e1)));
    note(2, timed(|| conditional_jumps(passes)));
    note(3, timed(|| integer_arithmetic::<STRICT>(passes, &mut e1)));
    note(4, timed(|| trigonometric_functions(passes)));
    note(5, timed(|| procedure_calls::<STRICT>(passes)));
    note(6, timed(|| array_references::<STRICT>(passes, &mut e1)));
    note(7, timed(|| standard_functions::<STRICT>(passes)));
    done
}

fn timed(module: impl FnOnce() -> f64) -> (f64, f64) {
    let before = user_seconds();
    let result = module();
    (result, user_seconds() - before)
}

fn user_seconds() -> f64 {
    let none = c::Timeval { seconds: 0, micros: 0 };
    let mut usage = c::Rusage { user: none, system: none, rest: [0; 14] };
    // SAFETY: the call writes the usage.
    unsafe { c::getrusage(c::RUSAGE_SELF, &raw mut usage) };
    usage.user.seconds as f64 + usage.user.micros as f64 * 1e-6
}

#[inline(never)]
fn array_elements(passes: i64, e1: &mut [f64; 4]) -> f64 {
    let mut t = T;
    let [mut a, mut b, mut c, mut d] = *e1;
    for _ in 0..passes {
        for _ in 0..12 * LOOPS * FIRST {
            a = (a + b + c - d) * t;
            b = (a + b - c + d) * t;
            c = (a - b + c + d) * t;
            d = (-a + b + c + d) * t;
        }
        t = 1.0 - t;
    }
    *e1 = [a, b, c, d];
    d
}

#[inline(never)]
fn array_as_parameter<const STRICT: bool>(passes: i64, e1: &mut [f64; 4]) -> f64 {
    let mut t = T;
    for _ in 0..passes {
        for _ in 0..14 * LOOPS {
            if STRICT { pa_dividing(e1, t, T2) } else { pa(e1, t, 1.0 / T2) }
        }
        t = 1.0 - t;
    }
    e1[3]
}

#[inline(never)]
fn conditional_jumps(passes: i64) -> f64 {
    let mut j = 1i64;
    for _ in 0..passes {
        for _ in 0..345 * LOOPS {
            j = if j == 1 { 2 } else { 3 };
            j = if j > 2 { 0 } else { 1 };
            j = if j < 1 { 1 } else { 0 };
            // A compiler that sees through this reduces the three jumps to a swap of 0 and 1, and all of them together
            // to nothing.
            // SAFETY: emits no instruction.
            unsafe { asm!("/* {0} */", inout(reg) j, options(nomem, nostack)) };
        }
    }
    j as f64
}

#[inline(never)]
fn integer_arithmetic<const STRICT: bool>(passes: i64, e1: &mut [f64; 4]) -> f64 {
    let (mut j, mut k, mut l) = (1i64, 2i64, 3i64);
    for _ in 0..passes {
        if STRICT {
            // The values do not change; a compiler that knows this removes all the work.
            (j, k, l) = (black_box(j), black_box(k), black_box(l));
        }
        for _ in 0..210 * LOOPS {
            j = j * (k - j) * (l - k);
            k = l * k - (l - j) * k;
            l = (l - k) * (k + j);
            e1[(l - 2) as usize & 3] = (j + k + l) as f64;
            e1[(k - 2) as usize & 3] = (j * k * l) as f64;
        }
    }
    e1[0] + e1[1]
}

#[inline(never)]
fn trigonometric_functions(passes: i64) -> f64 {
    let mut t = T;
    let (mut x, mut y) = (0.5, 0.5);
    for _ in 0..passes {
        for _ in 1..32 * LOOPS {
            x = t * turned(x, x + y, x - y);
            y = t * turned(y, x + y, x - y);
        }
        t = 1.0 - t;
    }
    y
}

/// One call computes sine and cosine of an angle, as C compilers emit it.
#[inline(always)]
fn turned(angle: f64, sum: f64, difference: f64) -> f64 {
    let (mut sine, mut cosine) = (0.0, 0.0);
    // SAFETY: the call writes two numbers.
    unsafe { sincos(angle, &raw mut sine, &raw mut cosine) };
    atan(T2 * sine * cosine / (cos(sum) + cos(difference) - 1.0))
}

#[inline(never)]
fn procedure_calls<const STRICT: bool>(passes: i64) -> f64 {
    let (mut x, mut y, mut z) = (1.0, 1.0, 1.0);
    for _ in 0..passes {
        for _ in 0..899 * LOOPS {
            // SAFETY: three local variables of this function.
            unsafe {
                if STRICT {
                    p3_called(&raw mut x, &raw mut y, &raw mut z, [T, T1, T2]);
                } else {
                    p3(&raw mut x, &raw mut y, &raw mut z, |sum| sum * T, |sum| sum * T1, |sum| sum * (1.0 / T2));
                }
            };
        }
    }
    z
}

#[inline(never)]
fn array_references<const STRICT: bool>(passes: i64, e1: &mut [f64; 4]) -> f64 {
    let (j, k, l) = (0, 1, 2);
    (e1[0], e1[1], e1[2]) = (1.0, 2.0, 3.0);
    for _ in 0..passes {
        for _ in 0..616 * LOOPS {
            // SAFETY: the indices are below four.
            unsafe { if STRICT { p0_called(e1.as_mut_ptr(), j, k, l) } else { p0(e1.as_mut_ptr(), j, k, l) } };
        }
    }
    e1[2]
}

#[inline(never)]
fn standard_functions<const STRICT: bool>(passes: i64) -> f64 {
    let mut x = 0.75;
    for _ in 0..passes {
        for _ in 0..93 * LOOPS {
            x = if STRICT { sqrt(exp(log(x) / T1)) } else { exp(log(x) * (0.5 / T1)) };
        }
    }
    x
}
