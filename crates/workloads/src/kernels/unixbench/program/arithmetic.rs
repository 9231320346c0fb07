//! The tests that only compute, Dhrystone and Whetstone, one program for both. Compiled alone, by the crate's build
//! script, and apart from `system`, whose start is measured and shall need no mathematical library.
#![allow(dead_code)] // c.rs and copy.rs are for both programs.
#![no_std]
#![no_main]

mod c;
mod copy;
mod dhrystone;
mod dhrystone_2;
mod whetstone;
mod whetstone_2;

use core::ffi::{CStr, c_char, c_int};

/// `arithmetic TEST NANOSECONDS`
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, first: *const *const c_char) -> c_int {
    let words = copy::ArgIter { count: count as usize, first };
    // SAFETY: words of a command line end in a zero byte.
    match unsafe { CStr::from_ptr(words.text(1)) }.to_bytes() {
        b"dhrystone" => dhrystone::run(words.number(2)),
        b"whetstone" => whetstone::run::<false>(words.number(2)),
        b"whetstone-strict" => whetstone::run::<true>(words.number(2)),
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
