//! The tests that ask the kernel for something, one program for all: as small as the programs of UnixBench, because
//! making a process and replacing one cost more the more there is of it. Compiled alone, by the crate's build script.
#![allow(dead_code)] // c.rs and copy.rs are for both programs.
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
    let words = copy::ArgIter { count: count as usize, first };
    // SAFETY: words of a command line end in a zero byte.
    match unsafe { CStr::from_ptr(words.text(1)) }.to_bytes() {
        b"calls" => calls::mix(words.number(2)),
        b"pipe" => pipes::throughput(words.number(2)),
        b"switch" => pipes::switching(words.number(2)),
        b"spawn" => processes::spawn(words.number(2)),
        b"execl" => processes::execl(&words),
        b"again" => processes::again(&words),
        b"loop" => processes::run_again_and_again(&words),
        b"copy" => files::copy(&words),
        _ => copy::fail("there is no such test"),
    }
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    copy::fail("a test panicked")
}

/// What the standard library's core names for unwinding; these programs end instead.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
