//! System call overhead: five short system calls in turn.

use super::{c, copy};

/// The mask that the calls set and therefore also return.
const MASK: u32 = 0o022;

/// One loop: close a duplicate of standard input, get the process ID and the user ID, set the umask.
pub fn mix(time_ns: u64) -> ! {
    // SAFETY: the mask belongs to this process alone.
    unsafe { c::umask(MASK) };
    let mut loops = 0u64;
    let mut wrong = 0u64;
    let start = copy::begin(time_ns);
    while !copy::has_ended() {
        // SAFETY: closes only the duplicate that was just made; the other calls access no memory.
        unsafe {
            wrong += u64::from(c::close(c::dup(0)) != 0);
            c::getpid();
            c::getuid();
            wrong += u64::from(c::umask(MASK) != MASK);
        }
        loops += 1;
    }
    copy::end(&start, loops, &[wrong])
}
