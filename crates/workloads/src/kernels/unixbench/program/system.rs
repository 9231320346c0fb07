//! The program of the tests that use system calls. As small as the programs of UnixBench, because the cost of creating
//! and replacing a process grows with its size. The crate's build script compiles it separately.
#![allow(dead_code)] // Both programs include c.rs and copy.rs.
#![no_std]
#![no_main]

mod c;
mod calls;
mod copy;
mod files;
mod pipes;
mod processes;

use core::ffi::{CStr, c_char, c_int};

/// `system TEST NANOSECONDS ...`
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, first: *const *const c_char) -> c_int {
    let args = copy::ArgIter { count: count as usize, first };
    // SAFETY: command line arguments end in a zero byte.
    match unsafe { CStr::from_ptr(args.text(1)) }.to_bytes() {
        b"calls" => calls::mix(args.number(2)),
        b"pipe" => pipes::throughput(args.number(2)),
        b"switch" => pipes::switching(args.number(2)),
        b"spawn" => processes::spawn(args.number(2)),
        b"execl" => processes::execl(&args),
        b"again" => processes::again(&args),
        b"loop" => processes::run_repeatedly(&args),
        b"copy" => files::copy(&args),
        _ => copy::fail("unknown test"),
    }
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    copy::fail("a test panicked")
}

/// Referenced by `core` for unwinding; these programs exit instead.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
