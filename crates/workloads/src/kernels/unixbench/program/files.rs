//! File copy: reads one file and writes another through a buffer; both restart at their beginning when the end is
//! reached.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::{c, copy};

/// The largest buffer of the definition.
const BUFFER_MAX: usize = 8192;
const KIB: u64 = 1024;

/// The copy buffer. Static, as in the original, and at least as aligned as large C arrays, because the kernel copies to
/// unaligned addresses more slowly.
#[repr(align(64))]
struct Buffer([u8; BUFFER_MAX]);

static mut BUFFER: Buffer = Buffer([0; BUFFER_MAX]);

/// Arguments: the buffer's bytes, the file's KiB, the two files. Counts bytes.
pub fn copy(args: &copy::ArgIter) -> ! {
    let buffer = args.number(3) as usize;
    if buffer == 0 || buffer > BUFFER_MAX {
        copy::fail("invalid buffer size");
    }
    let (from, to) = (open(args.text(5)), open(args.text(6)));
    prepare(from, buffer, args.number(4) * KIB / buffer as u64);
    let place = (&raw mut BUFFER).cast::<c_void>();
    let mut buffers = 0u64;
    let start = copy::begin(args.number(2));
    while !copy::has_ended() {
        // SAFETY: the buffer has that many bytes, and this program has one thread.
        let got = unsafe { c::read(from, place, buffer) };
        if got == 0 {
            rewind(from);
            rewind(to);
            continue;
        }
        // SAFETY: as above.
        if got != buffer as isize || unsafe { c::write(to, place, buffer) } != got {
            copy::fail("short read or write of a file");
        }
        buffers += 1;
    }
    copy::end(&start, buffers * buffer as u64, &[])
}

/// Writes the first file and reads it once. The original's warm-up does each for two seconds.
fn prepare(file: c_int, buffer: usize, buffers: u64) {
    let place = (&raw mut BUFFER).cast::<u8>();
    for index in 0..buffer {
        // SAFETY: the index is below the buffer's length, and this program has one thread.
        unsafe { *place.add(index) = index as u8 };
    }
    for _ in 0..buffers {
        // SAFETY: the buffer has that many bytes.
        if unsafe { c::write(file, place.cast(), buffer) } != buffer as isize {
            copy::fail("cannot write the first file");
        }
    }
    // Write-back of this data must not be measured.
    // SAFETY: takes a descriptor only.
    unsafe { c::fsync(file) };
    rewind(file);
    // SAFETY: as above.
    while unsafe { c::read(file, place.cast(), buffer) } > 0 {}
    rewind(file);
}

fn open(path: *const c_char) -> c_int {
    // SAFETY: the path ends in a zero byte.
    let file = unsafe { c::open(path, c::O_RDWR | c::O_CREAT, 0o600 as c_uint) };
    if file < 0 { copy::fail("cannot open a file") } else { file }
}

fn rewind(file: c_int) {
    // SAFETY: takes a descriptor only.
    unsafe { c::lseek(file, 0, 0) };
}
