//! A BLAS library, loaded at run time: the few functions that the workloads need, through CBLAS with 32-bit indices, as
//! all distributions build it. The worker threads call it. The library is configured not to start threads,
//! and this is verified if it reports its thread count. Must not depend on the algorithms that use it.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use model::values::workload::Parameters;

use super::tile::Tile;
use crate::job::{Failure, TrialContext};
use crate::kernels::library::{self, LoadedLibrary};

/// Libraries for `blas=auto`: OpenBLAS, otherwise the distribution's default BLAS.
const NAMES: [&str; 3] = ["libopenblas.so.0", "libblas.so.3", "libcblas.so.3"];
/// Maximum number of rows and columns with 32-bit indices.
pub(super) const N_MAX: usize = c_int::MAX as usize;
const HINT: &str = "install libopenblas0-pthread (Debian, Ubuntu), or name a library with --set blas=PATH";

// Constants of CBLAS.
const COLUMN_MAJOR: c_int = 102;
const PLAIN: c_int = 111;
const UPPER: c_int = 121;
const LOWER: c_int = 122;
const NON_UNIT: c_int = 131;
const UNIT: c_int = 132;
const LEFT: c_int = 141;

type Gemm<T> = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    T,
    *const T,
    c_int,
    *const T,
    c_int,
    T,
    *mut T,
    c_int,
);
type Trsm =
    unsafe extern "C" fn(c_int, c_int, c_int, c_int, c_int, c_int, c_int, f64, *const f64, c_int, *mut f64, c_int);
type Trsv = unsafe extern "C" fn(c_int, c_int, c_int, c_int, c_int, *const f64, c_int, *mut f64, c_int);
type Gemv =
    unsafe extern "C" fn(c_int, c_int, c_int, c_int, f64, *const f64, c_int, *const f64, c_int, f64, *mut f64, c_int);
type Ger = unsafe extern "C" fn(c_int, c_int, c_int, f64, *const f64, c_int, *const f64, c_int, *mut f64, c_int);
type Iamax = unsafe extern "C" fn(c_int, *const f64, c_int) -> usize;

/// The functions of one library.
pub(super) struct Blas {
    dgemm: Gemm<f64>,
    sgemm: Gemm<f32>,
    dtrsm: Trsm,
    dtrsv: Trsv,
    dgemv: Gemv,
    dger: Ger,
    idamax: Iamax,
    threads: Option<ThreadControl>,
    pub name: String,
    /// The last field, because the functions are valid only while the library is loaded.
    _library: Library,
}

/// Functions that set and return the number of `OpenBLAS` threads.
struct ThreadControl {
    set: unsafe extern "C" fn(c_int),
    get: unsafe extern "C" fn() -> c_int,
    /// Serialises the setter, which is not thread-safe.
    setter_lock: Mutex<()>,
}

pub(super) trait Real: Copy + Send + Sync {
    fn gemm(blas: &Blas) -> Gemm<Self>;
}

impl Real for f64 {
    fn gemm(blas: &Blas) -> Gemm<Self> {
        blas.dgemm
    }
}

impl Real for f32 {
    fn gemm(blas: &Blas) -> Gemm<Self> {
        blas.sgemm
    }
}

/// Returns why this machine has no BLAS for a workload with these parameters.
pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    library::missing(&names(parameters), HINT)
}

/// Returns the libraries that parameter `blas` names, in order of preference.
fn names(parameters: &Parameters) -> Vec<&str> {
    match parameters.text("blas") {
        "auto" => NAMES.to_vec(),
        name => vec![name],
    }
}

impl Blas {
    /// Loads the library that the job's parameter `blas` names.
    pub(super) fn load(job: &TrialContext) -> Result<Self, Failure> {
        Self::from_library(library::open_first(&names(&job.parameters), HINT)?)
    }

    fn from_library(found: LoadedLibrary) -> Result<Self, Failure> {
        let LoadedLibrary { library, name } = found;
        Ok(Self {
            dgemm: symbol(&library, &name, "cblas_dgemm")?,
            sgemm: symbol(&library, &name, "cblas_sgemm")?,
            dtrsm: symbol(&library, &name, "cblas_dtrsm")?,
            dtrsv: symbol(&library, &name, "cblas_dtrsv")?,
            dgemv: symbol(&library, &name, "cblas_dgemv")?,
            dger: symbol(&library, &name, "cblas_dger")?,
            idamax: symbol(&library, &name, "cblas_idamax")?,
            threads: ThreadControl::find(&library, &name),
            name,
            _library: library,
        })
    }

    /// Makes the library compute on the calling thread, and verifies it. Each thread must call this before its first
    /// computation.
    pub(super) fn set_single_thread(&self) -> Result<(), Failure> {
        // Other libraries take their thread count from the environment, which worker processes set (see `worker`).
        let Some(threads) = &self.threads else { return Ok(()) };
        let _turn = threads.setter_lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both functions have these signatures in every version of OpenBLAS, and the lock excludes other
        // callers.
        let count = unsafe {
            (threads.set)(1);
            (threads.get)()
        };
        match count {
            1 => Ok(()),
            count => Err(Failure::Failed(format!("{} uses {count} threads instead of one", self.name))),
        }
    }

    /// C = alpha A B + beta C.
    ///
    /// # Safety
    /// No other thread may write to A or B, or access C, during the call.
    pub(super) unsafe fn gemm<T: Real>(&self, alpha: T, a: Tile<T>, b: Tile<T>, beta: T, c: Tile<T>) {
        assert!(a.rows() == c.rows() && a.columns() == b.rows() && b.columns() == c.columns());
        let (rows, columns, inner) = (int(c.rows()), int(c.columns()), int(a.columns()));
        let (lda, ldb, ldc) = (int(a.stride()), int(b.stride()), int(c.stride()));
        let gemm = T::gemm(self);
        // SAFETY: the tiles are in live memory, their sizes match, and the caller excludes other accesses.
        unsafe {
            gemm(
                COLUMN_MAJOR,
                PLAIN,
                PLAIN,
                rows,
                columns,
                inner,
                alpha,
                a.start(),
                lda,
                b.start(),
                ldb,
                beta,
                c.start(),
                ldc,
            );
        }
    }

    /// Solves L X = B in place of B, where L is the lower triangle of a square tile with ones on its diagonal.
    ///
    /// # Safety
    /// No other thread may write to L, or access B, during the call.
    pub(super) unsafe fn solve_lower(&self, l: Tile<f64>, b: Tile<f64>) {
        assert!(l.rows() == l.columns() && l.rows() == b.rows());
        let (rows, columns) = (int(b.rows()), int(b.columns()));
        let (ldl, ldb) = (int(l.stride()), int(b.stride()));
        // SAFETY: as in gemm.
        unsafe {
            (self.dtrsm)(COLUMN_MAJOR, LEFT, LOWER, PLAIN, UNIT, rows, columns, 1.0, l.start(), ldl, b.start(), ldb);
        }
    }

    /// Solves U x = y in place of y, a column of a tile, where U is the upper triangle of a square tile.
    ///
    /// # Safety
    /// No other thread may write to U, or access y, during the call.
    pub(super) unsafe fn solve_upper(&self, u: Tile<f64>, y: Tile<f64>) {
        assert!(u.rows() == u.columns() && u.rows() == y.rows() && y.columns() == 1);
        // SAFETY: as in gemm.
        unsafe {
            (self.dtrsv)(COLUMN_MAJOR, UPPER, PLAIN, NON_UNIT, int(u.rows()), u.start(), int(u.stride()), y.start(), 1);
        }
    }

    /// y = y - A x, where x and y are columns of a tile.
    ///
    /// # Safety
    /// No other thread may write to A or x, or access y, during the call.
    pub(super) unsafe fn subtract_product(&self, a: Tile<f64>, x: Tile<f64>, y: Tile<f64>) {
        assert!(a.columns() == x.rows() && a.rows() == y.rows() && x.columns() == 1 && y.columns() == 1);
        // SAFETY: as in gemm.
        unsafe {
            (self.dgemv)(
                COLUMN_MAJOR,
                PLAIN,
                int(a.rows()),
                int(a.columns()),
                -1.0,
                a.start(),
                int(a.stride()),
                x.start(),
                1,
                1.0,
                y.start(),
                1,
            );
        }
    }

    /// A = A - x y, where x is a column of a tile and y a row.
    ///
    /// # Safety
    /// No other thread may write to x or y, or access A, during the call.
    pub(super) unsafe fn subtract_outer(&self, x: Tile<f64>, y: Tile<f64>, a: Tile<f64>) {
        assert!(a.rows() == x.rows() && a.columns() == y.columns() && x.columns() == 1 && y.rows() == 1);
        // SAFETY: as in gemm.
        unsafe {
            (self.dger)(
                COLUMN_MAJOR,
                int(a.rows()),
                int(a.columns()),
                -1.0,
                x.start(),
                1,
                y.start(),
                int(y.stride()),
                a.start(),
                int(a.stride()),
            );
        }
    }

    /// Returns the index of the number with the largest absolute value.
    pub(super) fn largest(&self, numbers: &[f64]) -> usize {
        // SAFETY: the pointer and the length are a slice's.
        unsafe { (self.idamax)(int(numbers.len()), numbers.as_ptr(), 1) }
    }
}

impl ThreadControl {
    fn find(library: &Library, name: &str) -> Option<Self> {
        Some(Self {
            set: symbol(library, name, "openblas_set_num_threads").ok()?,
            get: symbol(library, name, "openblas_get_num_threads").ok()?,
            setter_lock: Mutex::new(()),
        })
    }
}

/// Looks up a function of the library. `T` must be its type in CBLAS's header.
fn symbol<T: Copy>(library: &Library, name: &str, function: &str) -> Result<T, Failure> {
    // SAFETY: the callers above use the types of CBLAS's and OpenBLAS's headers, and keep the library loaded.
    let found = unsafe { library.get::<T>(function) };
    found.map(|symbol| *symbol).map_err(|_| Failure::Unavailable(format!("{name} has no {function}; hint: {HINT}")))
}

fn int(size: usize) -> c_int {
    c_int::try_from(size).expect("sizes are checked against N_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;
    use model::values::workload::Value;

    fn load(name: &str) -> Result<Blas, Failure> {
        let mut job = job_for_tests("gemm");
        job.parameters.0.insert("blas".into(), Value::Text(name.into()));
        Blas::load(&job)
    }

    #[test]
    fn missing_blas_is_unavailable_and_hints_at_the_package() {
        for name in ["/nowhere/libblas.so", "libc.so.6"] {
            let failure = load(name).err().unwrap();
            let Failure::Unavailable(reason) = failure else { panic!("{failure}") };
            assert!(reason.contains(name) && reason.contains("libopenblas0-pthread"), "{reason}");
        }
    }

    fn tile<T>(memory: &mut [T; 4]) -> Tile<'_, T> {
        Tile::new(memory, 2, 2, 2)
    }

    fn column(memory: &mut [f64; 2]) -> Tile<'_, f64> {
        Tile::new(memory, 2, 1, 2)
    }

    #[test]
    fn functions_return_the_expected_results() {
        let blas = match load("auto") {
            Ok(blas) => blas,
            Err(failure) => return println!("skipped: linear: {failure}"),
        };
        blas.set_single_thread().unwrap();
        // In column order: [1 2; 3 4] times [5 6; 7 8]. All values are small integers, so there is no rounding.
        let (mut left, mut right, mut product) = ([1.0, 3.0, 2.0, 4.0], [5.0, 7.0, 6.0, 8.0], [1.0; 4]);
        // SAFETY: only this thread has these arrays.
        unsafe { blas.gemm(2.0, tile(&mut left), tile(&mut right), -1.0, tile(&mut product)) };
        check(&product, &[37.0, 85.0, 43.0, 99.0]);
        let mut upper = [4.0, 8.0];
        // SAFETY: as above. x + 2 z = 4, 4 z = 8.
        unsafe { blas.solve_upper(tile(&mut left), column(&mut upper)) };
        check(&upper, &[0.0, 2.0]);
        // SAFETY: as above. The second row minus three times the first.
        unsafe { blas.solve_lower(tile(&mut left), tile(&mut right)) };
        check(&right, &[5.0, -8.0, 6.0, -10.0]);
        let mut rest = [10.0, 10.0];
        // SAFETY: as above.
        unsafe { blas.subtract_product(tile(&mut left), column(&mut upper), column(&mut rest)) };
        check(&rest, &[6.0, 2.0]);
        // SAFETY: as above.
        unsafe { blas.subtract_outer(column(&mut rest), Tile::new(&mut [1.0, 2.0], 1, 2, 1), tile(&mut left)) };
        check(&left, &[-5.0, 1.0, -10.0, 0.0]);
        let (single, mut result) = ([1.0f32, 3.0, 2.0, 4.0], [0.0f32; 4]);
        // SAFETY: as above.
        unsafe { blas.gemm(1.0, tile(&mut { single }), tile(&mut { single }), 0.0, tile(&mut result)) };
        check(&result.map(f64::from), &[7.0, 15.0, 10.0, 22.0]);
        assert_eq!(blas.largest(&[1.0, -7.0, 3.0]), 1);
    }

    fn check(found: &[f64], expected: &[f64]) {
        let near = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-12;
        assert!(found.iter().zip(expected).all(near), "{found:?} is not {expected:?}");
    }
}
