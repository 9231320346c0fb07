//! Processes: made, replaced by themselves, and as commands.

use core::ffi::{c_char, c_int};
use core::ptr::null;

use super::{c, copy};

/// One loop: a child is made, ends at once and is waited for.
pub fn spawn(time_ns: u64) -> ! {
    let mut loops = 0u64;
    let begun = copy::begin(time_ns);
    while !copy::is_over() {
        // SAFETY: this program has one thread; the child does nothing but end as C programs do.
        unsafe {
            match c::fork() {
                0 => c::exit(0),
                child => wait_for(child),
            }
        }
        loops += 1;
    }
    copy::end(&begun, loops, &[])
}

/// One loop: a command is started and waited for. Words: the command.
pub fn run_again_and_again(words: &copy::ArgIter) -> ! {
    let command = words.text(3);
    let mut loops = 0u64;
    let begun = copy::begin(words.number(2));
    while !copy::is_over() {
        // SAFETY: this program has one thread; the words end in a null pointer.
        unsafe {
            match c::fork() {
                0 => {
                    c::execv(command, words.first.add(3));
                    copy::fail("the command cannot be started");
                }
                child => wait_for(child),
            }
        }
        loops += 1;
    }
    copy::end(&begun, loops, &[])
}

fn wait_for(child: c_int) {
    let mut status = 0;
    // SAFETY: one number is written during the call.
    if child < 0 || unsafe { c::wait(&raw mut status) } != child || status != 0 {
        copy::fail("a process could not be made, or did not end well");
    }
}

/// The first of a chain of programs, each the same and replaced by the next; what they know they hand on as words.
pub fn execl(words: &copy::ArgIter) -> ! {
    copy::wait_for_start();
    replace(words, &Chain { programs: 0, began_ns: copy::now_ns(), cpu: copy::cpu() as u64 })
}

/// Another one of the chain: ends it when the time is over.
pub fn again(words: &copy::ArgIter) -> ! {
    let chain = Chain { programs: words.number(3) + 1, began_ns: words.number(4), cpu: words.number(5) };
    let took_ns = copy::now_ns() - chain.began_ns;
    if took_ns < words.number(2) {
        replace(words, &chain);
    }
    // SAFETY: takes nothing and changes nothing.
    let process = unsafe { c::getpid() };
    copy::end_after(chain.cpu as c_int, took_ns, chain.programs, &[process as u64])
}

/// What one program of the chain tells the next.
struct Chain {
    /// How many programs there were after the first.
    programs: u64,
    began_ns: u64,
    /// Where the first one was.
    cpu: u64,
}

fn replace(words: &copy::ArgIter, chain: &Chain) -> ! {
    let mut numbers = [chain.programs, chain.began_ns, chain.cpu].map(|number| {
        let mut line = copy::LineBuffer::new();
        line.number(number);
        line
    });
    let [programs, began, cpu] = &mut numbers;
    let program = words.text(0);
    let next: [*const c_char; 7] =
        [program, c"again".as_ptr(), words.text(2), programs.as_c(), began.as_c(), cpu.as_c(), null()];
    // SAFETY: the words live until the call, and end in a null pointer.
    unsafe { c::execv(program, next.as_ptr()) };
    copy::fail("the program could not replace itself")
}
