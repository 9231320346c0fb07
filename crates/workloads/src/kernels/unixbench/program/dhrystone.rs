//! Dhrystone 2.1 (R. P. Weicker, Communications of the ACM 27, 1984, and SIGPLAN Notices 23, 1988): the statements,
//! types and names of the definition. This file and `dhrystone_2` are the two files of the definition, compiled
//! separately: no procedure of one is inlined into the other. Loops are counted, and the values that the definition
//! states are checked.

use core::ffi::c_char;
use core::hint::assert_unchecked;
use core::ptr::null_mut;

use super::copy;
use super::dhrystone_2::{func_1, func_2, proc_6, proc_7, proc_8};

pub type Enumeration = i32;
pub const IDENT_1: Enumeration = 0;
pub const IDENT_2: Enumeration = 1;
pub const IDENT_3: Enumeration = 2;
pub const IDENT_4: Enumeration = 3;
pub const IDENT_5: Enumeration = 4;

/// Thirty characters and a terminating zero.
pub type Str30 = [u8; 31];
pub type Arr1 = [i32; 50];
pub type Arr2 = [[i32; 50]; 50];

/// The record with its first variant, the only one that is used.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    next: *mut Record,
    discr: Enumeration,
    enum_comp: Enumeration,
    int_comp: i32,
    str_comp: Str30,
}

impl Record {
    const EMPTY: Self = Self { next: null_mut(), discr: 0, enum_comp: 0, int_comp: 0, str_comp: [0; 31] };
}

// As in C, other files could change these, so the compiler may not assume their values. All unsafe code of Dhrystone
// relies on two facts. The program has one thread and its signal handler uses none of these, so no access is
// concurrent. They are accessed as places or through raw pointers, so no reference to one of them is invalidated.
#[used]
static mut RECORDS: [Record; 2] = [Record::EMPTY; 2];
#[used]
static mut PTR_GLOB: *mut Record = null_mut();
#[used]
static mut NEXT_PTR_GLOB: *mut Record = null_mut();
#[used]
pub static mut INT_GLOB: i32 = 0;
#[used]
static mut BOOL_GLOB: i32 = 0;
#[used]
pub static mut CH_1_GLOB: u8 = 0;
#[used]
static mut CH_2_GLOB: u8 = 0;
#[used]
static mut ARR_1_GLOB: Arr1 = [0; 50];
#[used]
static mut ARR_2_GLOB: Arr2 = [[0; 50]; 50];
/// Number of loops started.
#[used]
static mut RUN_INDEX: u64 = 0;

const SOME: Str30 = *b"DHRYSTONE PROGRAM, SOME STRING\0";
const FIRST: Str30 = *b"DHRYSTONE PROGRAM, 1'ST STRING\0";
const SECOND: Str30 = *b"DHRYSTONE PROGRAM, 2'ND STRING\0";
const THIRD: Str30 = *b"DHRYSTONE PROGRAM, 3'RD STRING\0";

struct Locals {
    int_1: i32,
    int_2: i32,
    int_3: i32,
    enumeration: Enumeration,
    str_1: Str30,
    str_2: Str30,
}

pub fn run(time_ns: u64) -> ! {
    let mut locals = Locals { int_1: 0, int_2: 0, int_3: 0, enumeration: 0, str_1: FIRST, str_2: [0; 31] };
    // SAFETY: `set_up` comes first, as the other two require, and no other code runs.
    let (start, loops, wrong) = unsafe {
        set_up();
        let start = copy::begin(time_ns);
        let loops = run_loops(&mut locals);
        (start, loops, wrong(&locals, loops))
    };
    copy::end(&start, loops, &[wrong])
}

/// # Safety
/// No other code may use the globals concurrently.
unsafe fn set_up() {
    // SAFETY: both pointers point into `RECORDS`, which has two elements, and [8][7] is in `ARR_2_GLOB`, which has 50
    // by 50.
    unsafe {
        let records = (&raw mut RECORDS).cast::<Record>();
        PTR_GLOB = records;
        NEXT_PTR_GLOB = records.add(1);
        *PTR_GLOB = Record { next: NEXT_PTR_GLOB, discr: IDENT_1, enum_comp: IDENT_3, int_comp: 40, str_comp: SOME };
        ARR_2_GLOB[8][7] = 10;
    }
}

/// Runs the loops; [`wrong`] then checks the values that the definition states. The variables are local to this
/// function and leave it only where their addresses are taken, as in C.
///
/// # Safety
/// Call after [`set_up`]. No other code may use the globals concurrently.
#[inline(never)]
unsafe fn run_loops(last: &mut Locals) -> u64 {
    let (mut int_1, mut int_2, mut int_3, mut enumeration) = (0, 0, 0, 0);
    let (str_1, mut str_2) = (FIRST, [0; 31]);
    // SAFETY: pointers to variables are to this function's own, which outlive the calls; both strings end in a zero
    // byte; `set_up` has set `PTR_GLOB`; `proc_8` gets 3 and 7. `int_3` is 7 at the assertion: the inner loop runs
    // once, with 2 and 3, and `proc_7` stores their sum plus 2.
    unsafe {
        RUN_INDEX = 0;
        while !copy::has_ended() {
            RUN_INDEX += 1;
            proc_5();
            proc_4();
            int_1 = 2;
            int_2 = 3;
            str_2 = SECOND;
            enumeration = IDENT_2;
            BOOL_GLOB = i32::from(func_2(&raw const str_1, &raw const str_2) == 0);
            while int_1 < int_2 {
                int_3 = 5 * int_1 - int_2;
                proc_7(int_1, int_2, &raw mut int_3);
                int_1 += 1;
            }
            proc_8(&raw mut ARR_1_GLOB, &raw mut ARR_2_GLOB, int_1, int_3);
            proc_1(PTR_GLOB);
            let mut ch_index = b'A';
            while ch_index <= CH_2_GLOB {
                if enumeration == func_1(ch_index, b'C') {
                    // Not executed.
                    proc_6(IDENT_1, &raw mut enumeration);
                    str_2 = THIRD;
                    int_2 = RUN_INDEX as i32;
                    INT_GLOB = RUN_INDEX as i32;
                }
                ch_index += 1;
            }
            // As in C, where division by any other value is undefined.
            assert_unchecked(int_3 > 0);
            int_2 *= int_1;
            int_1 = int_2 / int_3;
            int_2 = 7 * (int_2 - int_3) - int_1;
            proc_2(&raw mut int_1);
        }
        *last = Locals { int_1, int_2, int_3, enumeration, str_1, str_2 };
        RUN_INDEX
    }
}

/// # Safety
/// `record` is `PTR_GLOB`, and [`set_up`] has made its `next` valid.
#[inline(never)]
unsafe fn proc_1(record: *mut Record) {
    // SAFETY: `record` and its `next` are the two records, and `next` of both remains the second one: it is only ever
    // assigned from `next` of the first.
    unsafe {
        let next = (*record).next;
        *(*record).next = *PTR_GLOB;
        (*record).int_comp = 5;
        (*next).int_comp = (*record).int_comp;
        (*next).next = (*record).next;
        proc_3(&raw mut (*next).next);
        if (*next).discr == IDENT_1 {
            (*next).int_comp = 6;
            proc_6((*record).enum_comp, &raw mut (*next).enum_comp);
            (*next).next = (*PTR_GLOB).next;
            proc_7((*next).int_comp, 10, &raw mut (*next).int_comp);
        } else {
            // Not executed.
            *record = *(*record).next;
        }
    }
}

/// # Safety
/// `int_par` can be read and written.
unsafe fn proc_2(int_par: *mut i32) {
    // SAFETY: guaranteed by the caller; no other code uses the globals.
    unsafe {
        let mut int_loc = *int_par + 10;
        let mut enum_loc = IDENT_2;
        loop {
            if CH_1_GLOB == b'A' {
                int_loc -= 1;
                *int_par = int_loc - INT_GLOB;
                enum_loc = IDENT_1;
            }
            if enum_loc == IDENT_1 {
                break;
            }
        }
    }
}

/// # Safety
/// `record` can be written, and `PTR_GLOB` is a record.
unsafe fn proc_3(record: *mut *mut Record) {
    // SAFETY: guaranteed by the caller. `record` may point into the record of `PTR_GLOB`: both are raw pointers.
    unsafe {
        if !PTR_GLOB.is_null() {
            *record = (*PTR_GLOB).next;
        }
        proc_7(10, INT_GLOB, &raw mut (*PTR_GLOB).int_comp);
    }
}

/// # Safety
/// No other code may use the globals concurrently.
unsafe fn proc_4() {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bool_loc = i32::from(CH_1_GLOB == b'A');
        BOOL_GLOB |= bool_loc;
        CH_2_GLOB = b'B';
    }
}

/// # Safety
/// No other code may use the globals concurrently.
unsafe fn proc_5() {
    // SAFETY: guaranteed by the caller.
    unsafe {
        CH_1_GLOB = b'A';
        BOOL_GLOB = 0;
    }
}

/// Counts the variables that differ from the final values of the definition.
///
/// # Safety
/// Call after [`set_up`]. No other code may use the globals concurrently.
unsafe fn wrong(at: &Locals, loops: u64) -> u64 {
    // SAFETY: both pointers are to records since `set_up`, and the indices are below the lengths of the arrays.
    unsafe {
        let (record, next) = (*PTR_GLOB, *NEXT_PTR_GLOB);
        let right = [
            INT_GLOB == 5,
            BOOL_GLOB == 1,
            CH_1_GLOB == b'A',
            CH_2_GLOB == b'B',
            ARR_1_GLOB[8] == 7,
            ARR_2_GLOB[8][7] as u32 == (loops as u32).wrapping_add(10),
            record.next == NEXT_PTR_GLOB && next.next == NEXT_PTR_GLOB,
            record.discr == 0 && next.discr == 0,
            record.enum_comp == 2 && next.enum_comp == 1,
            record.int_comp == 17 && next.int_comp == 18,
            record.str_comp == SOME && next.str_comp == SOME,
            at.int_1 == 5 && at.int_2 == 13 && at.int_3 == 7,
            at.enumeration == 1,
            at.str_1 == FIRST && at.str_2 == SECOND,
        ];
        right.iter().filter(|right| !**right).count() as u64
    }
}

/// The string as a C pointer.
pub fn as_c(text: *const Str30) -> *const c_char {
    text.cast()
}
