//! Processes: creation, replacement by the same program, and commands.

use core::ffi::{c_char, c_int};
use core::ptr::null;

use super::{c, copy};

/// One loop: creates a child, which exits at once, and waits for it.
pub fn spawn(time_ns: u64) -> ! {
    let mut loops = 0u64;
    let start = copy::begin(time_ns);
    while !copy::has_ended() {
        // SAFETY: this program has one thread; the child only exits, as C programs do.
        unsafe {
            match c::fork() {
                0 => c::exit(0),
                child => wait_for(child),
            }
        }
        loops += 1;
    }
    copy::end(&start, loops, &[])
}

/// One loop: starts a command and waits for it. Arguments: the command.
pub fn run_repeatedly(args: &copy::ArgIter) -> ! {
    let command = args.text(3);
    let mut loops = 0u64;
    let start = copy::begin(args.number(2));
    while !copy::has_ended() {
        // SAFETY: this program has one thread; the arguments end in a null pointer.
        unsafe {
            match c::fork() {
                0 => {
                    c::execv(command, args.first.add(3));
                    copy::fail("cannot start the command");
                }
                child => wait_for(child),
            }
        }
        loops += 1;
    }
    copy::end(&start, loops, &[])
}

fn wait_for(child: c_int) {
    let mut status = 0;
    // SAFETY: the call writes one number.
    if child < 0 || unsafe { c::wait(&raw mut status) } != child || status != 0 {
        copy::fail("cannot create a process, or it failed");
    }
}

/// The first of a chain of programs, each replaced by the next; they pass their state as arguments.
pub fn execl(args: &copy::ArgIter) -> ! {
    copy::wait_for_start();
    replace(args, &Chain { programs: 0, began_ns: copy::now_ns(), cpu: copy::cpu() as u64 })
}

/// A later program of the chain; ends the chain when the time is over.
pub fn again(args: &copy::ArgIter) -> ! {
    let chain = Chain { programs: args.number(3) + 1, began_ns: args.number(4), cpu: args.number(5) };
    let took_ns = copy::now_ns() - chain.began_ns;
    if took_ns < args.number(2) {
        replace(args, &chain);
    }
    // SAFETY: takes no arguments and changes nothing.
    let process = unsafe { c::getpid() };
    copy::end_after(chain.cpu as c_int, took_ns, chain.programs, &[process as u64])
}

/// State that one program of the chain passes to the next.
struct Chain {
    /// Number of programs after the first.
    programs: u64,
    began_ns: u64,
    /// CPU of the first program.
    cpu: u64,
}

fn replace(args: &copy::ArgIter, chain: &Chain) -> ! {
    let mut numbers = [chain.programs, chain.began_ns, chain.cpu].map(|number| {
        let mut line = copy::LineBuffer::new();
        line.number(number);
        line
    });
    let [programs, began, cpu] = &mut numbers;
    let program = args.text(0);
    let next: [*const c_char; 7] =
        [program, c"again".as_ptr(), args.text(2), programs.as_c(), began.as_c(), cpu.as_c(), null()];
    // SAFETY: the arguments live until the call and end in a null pointer.
    unsafe { c::execv(program, next.as_ptr()) };
    copy::fail("cannot replace the program")
}
