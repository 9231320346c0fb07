//! The program of the computing tests, Dhrystone and Whetstone. The crate's build script compiles it separately from
//! `system`, because the start of `system` is measured and must not need the mathematical library.
#![allow(dead_code)] // Both programs include c.rs and copy.rs.
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
    let args = copy::ArgIter { count: count as usize, first };
    // SAFETY: command line arguments end in a zero byte.
    match unsafe { CStr::from_ptr(args.text(1)) }.to_bytes() {
        b"dhrystone" => dhrystone::run(args.number(2)),
        b"whetstone" => whetstone::run::<false>(args.number(2)),
        b"whetstone-strict" => whetstone::run::<true>(args.number(2)),
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
