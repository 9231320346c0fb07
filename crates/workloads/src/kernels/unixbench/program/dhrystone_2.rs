//! Dhrystone 2.1, the second of the definition's two files. Nothing here may be inlined into the first file, so its
//! callees are marked as never inlined, and the build script compiles each file of a program separately.

use super::c;
use super::dhrystone::{
    Arr1, Arr2, CH_1_GLOB, Enumeration, IDENT_1, IDENT_2, IDENT_3, IDENT_4, IDENT_5, INT_GLOB, Str30, as_c,
};

/// # Safety
/// `enum_ref` can be written.
#[inline(never)]
pub unsafe fn proc_6(enum_val: Enumeration, enum_ref: *mut Enumeration) {
    // SAFETY: guaranteed by the caller; only this one thread uses `INT_GLOB`.
    unsafe {
        *enum_ref = enum_val;
        if func_3(enum_val) == 0 {
            // Not executed.
            *enum_ref = IDENT_4;
        }
        match enum_val {
            IDENT_1 => *enum_ref = IDENT_1,
            IDENT_2 => *enum_ref = if INT_GLOB > 100 { IDENT_1 } else { IDENT_4 },
            IDENT_3 => *enum_ref = IDENT_2,
            IDENT_5 => *enum_ref = IDENT_3,
            _ => {}
        }
    }
}

/// # Safety
/// `int_ref` can be written.
#[inline(never)]
pub unsafe fn proc_7(int_1: i32, int_2: i32, int_ref: *mut i32) {
    let int_loc = int_1.wrapping_add(2);
    // SAFETY: guaranteed by the caller.
    unsafe { *int_ref = int_2.wrapping_add(int_loc) };
}

/// # Safety
/// Both arrays can be read and written, and `int_1` is 0 to 14.
#[inline(never)]
pub unsafe fn proc_8(arr_1: *mut Arr1, arr_2: *mut Arr2, int_1: i32, int_2: i32) {
    // As in C: without bounds checks, because the definition stays within bounds, and with sums that do not overflow.
    // SAFETY: indices are at most 49: `int_1` plus 5, 6 or 35.
    let one = |index: i32| unsafe { arr_1.cast::<i32>().offset(index as isize) };
    // SAFETY: rows are at most 39 and indices 20, in 50 rows of 50: the pointer is cast from one to all of the array.
    let two = |row: i32, index: i32| unsafe { arr_2.cast::<i32>().offset(row as isize * 50 + index as isize) };
    // SAFETY: the elements are in the arrays, as computed above, and no sum leaves the range of i32; only this one
    // thread uses `INT_GLOB`.
    unsafe {
        let int_loc = int_1.unchecked_add(5);
        *one(int_loc) = int_2;
        *one(int_loc.unchecked_add(1)) = *one(int_loc);
        *one(int_loc.unchecked_add(30)) = int_loc;
        let mut int_index = int_loc;
        while int_index <= int_loc.unchecked_add(1) {
            *two(int_loc, int_index) = int_loc;
            int_index = int_index.unchecked_add(1);
        }
        *two(int_loc, int_loc.unchecked_sub(1)) += 1;
        *two(int_loc.unchecked_add(20), int_loc) = *one(int_loc);
        INT_GLOB = 5;
    }
}

/// # Safety
/// No other code may use the globals concurrently.
#[inline(never)]
pub unsafe fn func_1(ch_1: u8, ch_2: u8) -> Enumeration {
    // SAFETY: guaranteed by the caller.
    unsafe { same_letter(ch_1, ch_2) }
}

/// The body of `func_1`, for callers in this file.
///
/// # Safety
/// As `func_1`.
#[inline(always)]
unsafe fn same_letter(ch_1: u8, ch_2: u8) -> Enumeration {
    if ch_1 == ch_2 {
        // Not executed.
        // SAFETY: guaranteed by the caller.
        unsafe { CH_1_GLOB = ch_1 };
        return IDENT_2;
    }
    IDENT_1
}

/// # Safety
/// Both strings can be read and end in a zero byte. No other code may use the globals concurrently.
#[inline(never)]
pub unsafe fn func_2(str_1: *const Str30, str_2: *const Str30) -> i32 {
    // SAFETY: guaranteed by the caller; the indices are 2 and 3 of 31.
    unsafe {
        let mut ch_loc = b'A';
        let mut int_loc = 2;
        while int_loc <= 2 {
            let index = int_loc as usize;
            if same_letter(*str_1.cast::<u8>().add(index), *str_2.cast::<u8>().add(index + 1)) == IDENT_1 {
                ch_loc = b'A';
                int_loc += 1;
            }
        }
        if (b'W'..b'Z').contains(&ch_loc) {
            // Not executed.
            int_loc = 7;
        }
        if ch_loc == b'R' {
            // Not executed.
            return 1;
        }
        if c::strcmp(as_c(str_1), as_c(str_2)) > 0 {
            // Not executed.
            INT_GLOB = int_loc + 7;
            return 1;
        }
        0
    }
}

fn func_3(enum_val: Enumeration) -> i32 {
    i32::from(enum_val == IDENT_3)
}
