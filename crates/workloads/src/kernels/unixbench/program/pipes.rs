//! Pipes: the throughput of one process, and the rate at which two processes send a number back and forth.

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
        // SAFETY: the call writes two numbers.
        if unsafe { c::pipe(ends.as_mut_ptr()) } != 0 {
            copy::fail("cannot create a pipe");
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
    let start = copy::begin(time_ns);
    while !copy::has_ended() {
        let place = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the buffer has that many bytes, and no other code accesses it.
        let moved = unsafe { (c::write(pipe.write, place, buffer.len()), c::read(pipe.read, place, buffer.len())) };
        if moved != (512, 512) {
            copy::fail("short read or write of a pipe");
        }
        loops += 1;
    }
    let mut remaining = 0;
    // SAFETY: the call writes one number.
    unsafe { c::ioctl(pipe.read, c::FIONREAD, &raw mut remaining) };
    let sum = buffer.iter().map(|byte| u64::from(*byte)).sum();
    copy::end(&start, loops, &[remaining as u64, sum])
}

/// One loop: a number is sent to another process and back, over two pipes. Both sides count.
pub fn switching(time_ns: u64) -> ! {
    let (request, response) = (Pipe::new(), Pipe::new());
    // SAFETY: this program has one thread.
    match unsafe { c::fork() } {
        0 => echo(&request, &response),
        child if child > 0 => send_and_receive(&request, &response, time_ns),
        _ => copy::fail("cannot create a second process"),
    }
}

fn send_and_receive(request: &Pipe, response: &Pipe, time_ns: u64) -> ! {
    // SAFETY: this side does not use the other side's ends.
    unsafe { (c::close(request.read), c::close(response.write)) };
    let mut loops = 0u64;
    let start = copy::begin(time_ns);
    while !copy::has_ended() {
        if !send(request, loops) || receive(response) != Some(loops) {
            copy::fail("wrong number returned");
        }
        loops += 1;
    }
    copy::end(&start, loops, &[])
}

fn echo(request: &Pipe, response: &Pipe) -> ! {
    // SAFETY: this side does not use the other side's ends; closing them lets the other side detect the end of this
    // process.
    unsafe { (c::close(request.write), c::close(response.read), c::close(0), c::close(1)) };
    let mut loops = 0u64;
    // End of file on the pipe ends the test.
    while let Some(number) = receive(request) {
        if number != loops || !send(response, loops) {
            break;
        }
        loops += 1;
    }
    // SAFETY: ends this process.
    unsafe { c::exit(0) }
}

fn send(pipe: &Pipe, number: u64) -> bool {
    // SAFETY: the number has eight bytes.
    unsafe { c::write(pipe.write, (&raw const number).cast(), 8) == 8 }
}

fn receive(pipe: &Pipe) -> Option<u64> {
    let mut number = 0u64;
    // SAFETY: the call writes eight bytes.
    let got = unsafe { c::read(pipe.read, (&raw mut number).cast(), 8) };
    (got == 8).then_some(number)
}
