//! Pipes: how fast one process writes and reads, and how fast two hand a number to and fro.

use core::ffi::{c_int, c_void};

use super::{c, copy};

/// The two ends of a pipe.
struct Pipe {
    read: c_int,
    write: c_int,
}

impl Pipe {
    fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: two numbers are written during the call.
        if unsafe { c::pipe(ends.as_mut_ptr()) } != 0 {
            copy::fail("no pipe");
        }
        Self { read: ends[0], write: ends[1] }
    }
}

/// One loop: 512 bytes written and read again.
pub fn throughput(time_ns: u64) -> ! {
    let mut buffer = [0u8; 512];
    buffer.iter_mut().zip(0..).for_each(|(byte, value)| *byte = value as u8);
    let pipe = Pipe::new();
    let mut loops = 0u64;
    let begun = copy::begin(time_ns);
    while !copy::is_over() {
        let place = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the buffer has that many bytes, and nobody else has it.
        let moved = unsafe { (c::write(pipe.write, place, buffer.len()), c::read(pipe.read, place, buffer.len())) };
        if moved != (512, 512) {
            copy::fail("a pipe took or gave less than 512 bytes");
        }
        loops += 1;
    }
    let mut left = 0;
    // SAFETY: one number is written during the call.
    unsafe { c::ioctl(pipe.read, c::FIONREAD, &raw mut left) };
    let sum = buffer.iter().map(|byte| u64::from(*byte)).sum();
    copy::end(&begun, loops, &[left as u64, sum])
}

/// One loop: a number goes to another process and comes back, over two pipes. Both sides count along.
pub fn switching(time_ns: u64) -> ! {
    let (there, back) = (Pipe::new(), Pipe::new());
    // SAFETY: this program has one thread.
    match unsafe { c::fork() } {
        0 => answer(&there, &back),
        child if child > 0 => ask(&there, &back, time_ns),
        _ => copy::fail("no second process"),
    }
}

fn ask(there: &Pipe, back: &Pipe, time_ns: u64) -> ! {
    // SAFETY: the other side's ends are not used on this side.
    unsafe { (c::close(there.read), c::close(back.write)) };
    let mut loops = 0u64;
    let begun = copy::begin(time_ns);
    while !copy::is_over() {
        if !send(there, loops) || receive(back) != Some(loops) {
            copy::fail("the number did not come back as it was sent");
        }
        loops += 1;
    }
    copy::end(&begun, loops, &[])
}

fn answer(there: &Pipe, back: &Pipe) -> ! {
    // SAFETY: the other side's ends are not used on this side; closing them lets it see that this side has ended.
    unsafe { (c::close(there.write), c::close(back.read), c::close(0), c::close(1)) };
    let mut loops = 0u64;
    // The pipe's end is the end of the test.
    while let Some(number) = receive(there) {
        if number != loops || !send(back, loops) {
            break;
        }
        loops += 1;
    }
    // SAFETY: ends this process.
    unsafe { c::exit(0) }
}

fn send(pipe: &Pipe, number: u64) -> bool {
    // SAFETY: eight bytes are there.
    unsafe { c::write(pipe.write, (&raw const number).cast(), 8) == 8 }
}

fn receive(pipe: &Pipe) -> Option<u64> {
    let mut number = 0u64;
    // SAFETY: eight bytes are written during the call.
    let got = unsafe { c::read(pipe.read, (&raw mut number).cast(), 8) };
    (got == 8).then_some(number)
}
