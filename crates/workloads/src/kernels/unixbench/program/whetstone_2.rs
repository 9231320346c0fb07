//! Whetstone's three procedures. Those that are called are never inlined, and the build script compiles this file
//! separately from their callers.

/// With the reciprocal of the definition's divisor.
#[inline(never)]
pub fn pa(e: &mut [f64; 4], t: f64, reciprocal: f64) {
    six_times(e, t, |sum| sum * reciprocal);
}

#[inline(never)]
pub fn pa_dividing(e: &mut [f64; 4], t: f64, t2: f64) {
    six_times(e, t, |sum| sum / t2);
}

#[inline(always)]
fn six_times(e: &mut [f64; 4], t: f64, last: impl Fn(f64) -> f64) {
    let [mut a, mut b, mut c, mut d] = *e;
    for _ in 0..6 {
        a = (a + b + c - d) * t;
        b = (a + b - c + d) * t;
        c = (a - b + c + d) * t;
        d = last(-a + b + c + d);
    }
    *e = [a, b, c, d];
}

/// # Safety
/// As [`p0`].
#[inline(never)]
pub unsafe fn p0_called(e1: *mut f64, j: usize, k: usize, l: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { p0(e1, j, k, l) }
}

/// Keeps one of the three elements in memory each time. In registers, the compiler would remove the exchange of the
/// three.
///
/// # Safety
/// The elements `j`, `k` and `l` from `e1` on can be read and written.
#[inline(always)]
pub unsafe fn p0(e1: *mut f64, j: usize, k: usize, l: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        *e1.add(j) = e1.add(k).read_volatile();
        e1.add(k).write_volatile(*e1.add(l));
        *e1.add(l) = *e1.add(j);
    }
}

/// # Safety
/// As [`p3`].
#[inline(never)]
pub unsafe fn p3_called(x: *mut f64, y: *mut f64, z: *mut f64, [t, t1, t2]: [f64; 3]) {
    // SAFETY: guaranteed by the caller.
    unsafe { p3(x, y, z, |sum| t * sum, |sum| t1 * sum, |sum| sum / t2) }
}

/// The three pointers may be equal, as in C, so each value is read again after a store to another.
///
/// # Safety
/// The three pointers can be read and written.
#[inline(always)]
pub unsafe fn p3(
    x: *mut f64,
    y: *mut f64,
    z: *mut f64,
    by_t: impl Fn(f64) -> f64,
    by_t1: impl Fn(f64) -> f64,
    by_t2: impl Fn(f64) -> f64,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        *x = *y;
        *y = *z;
        *x = by_t(*x + *y);
        *y = by_t1(*x + *y);
        *z = by_t2(*x + *y);
    }
}
