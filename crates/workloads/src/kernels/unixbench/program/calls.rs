//! System call overhead: five calls that do next to nothing, in turn.

use super::{c, copy};

/// What the calls set the mask to, which is then what they report.
const MASK: u32 = 0o022;

/// One loop: close a duplicate of standard input, ask for the process and for the user, set the mask for new files.
pub fn mix(time_ns: u64) -> ! {
    // SAFETY: the mask is this process's own.
    unsafe { c::umask(MASK) };
    let mut loops = 0u64;
    let mut wrong = 0u64;
    let begun = copy::begin(time_ns);
    while !copy::is_over() {
        // SAFETY: only the duplicate that was just made is closed; the others take no memory.
        unsafe {
            wrong += u64::from(c::close(c::dup(0)) != 0);
            c::getpid();
            c::getuid();
            wrong += u64::from(c::umask(MASK) != MASK);
        }
        loops += 1;
    }
    copy::end(&begun, loops, &[wrong])
}
