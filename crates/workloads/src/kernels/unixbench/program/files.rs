//! File copy: one file read and written to another through a buffer, both from the start again at the end.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::{c, copy};

/// The largest buffer that is defined.
const BUFFER_MAX: usize = 8192;
const KIB: u64 = 1024;

/// Where the bytes lie in between; not on the stack, as with the original, and at least as aligned as C's large arrays:
/// the kernel copies to odd addresses more slowly.
#[repr(align(64))]
struct Buffer([u8; BUFFER_MAX]);

static mut BUFFER: Buffer = Buffer([0; BUFFER_MAX]);

/// Words: the buffer's bytes, the file's KiB, the two files. Counts bytes.
pub fn copy(words: &copy::ArgIter) -> ! {
    let buffer = words.number(3) as usize;
    if buffer == 0 || buffer > BUFFER_MAX {
        copy::fail("there is no such buffer");
    }
    let (from, to) = (open(words.text(5)), open(words.text(6)));
    prepare(from, buffer, words.number(4) * KIB / buffer as u64);
    let place = (&raw mut BUFFER).cast::<c_void>();
    let mut buffers = 0u64;
    let begun = copy::begin(words.number(2));
    while !copy::is_over() {
        // SAFETY: the buffer has that many bytes, and this program has one thread.
        let got = unsafe { c::read(from, place, buffer) };
        if got == 0 {
            rewind(from);
            rewind(to);
            continue;
        }
        // SAFETY: as above.
        if got != buffer as isize || unsafe { c::write(to, place, buffer) } != got {
            copy::fail("a file took or gave less than a buffer");
        }
        buffers += 1;
    }
    copy::end(&begun, buffers * buffer as u64, &[])
}

/// Writes the first file and reads it once, as the original's warming up does with it for two seconds each.
fn prepare(file: c_int, buffer: usize, buffers: u64) {
    let place = (&raw mut BUFFER).cast::<u8>();
    for index in 0..buffer {
        // SAFETY: the index is below the buffer's length, and this program has one thread.
        unsafe { *place.add(index) = index as u8 };
    }
    for _ in 0..buffers {
        // SAFETY: the buffer has that many bytes.
        if unsafe { c::write(file, place.cast(), buffer) } != buffer as isize {
            copy::fail("the first file could not be written");
        }
    }
    // Writing back what was written now is not to be measured.
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
    if file < 0 { copy::fail("a file could not be opened") } else { file }
}

fn rewind(file: c_int) {
    // SAFETY: takes a descriptor only.
    unsafe { c::lseek(file, 0, 0) };
}
