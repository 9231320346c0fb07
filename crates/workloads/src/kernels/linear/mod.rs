//! Linear algebra on one core's speed of multiplying and adding: what `gemm` and `hpl` share. The arithmetic is a BLAS
//! library's, loaded at run time and called by our own seated threads, each for its part: so every flop is done by a
//! thread whose seat is proven. The library's own threads are off, which is read back.

mod blas;
mod element;
pub(crate) mod far_gemm;
pub(crate) mod gemm;
mod grid;
pub(crate) mod hpl;
mod random;
mod tile;

use model::values::workload::ParameterKind;

use crate::describe::{Parameter, choice};
use crate::job::Failure;

/// The parameter that [`blas::Blas::load`] reads.
fn blas_parameter() -> Parameter {
    Parameter {
        name: "blas",
        about: "the BLAS library, a path or a name as dlopen takes it; auto for OpenBLAS, else any BLAS that is installed",
        kind: ParameterKind::Text,
        default: Some("auto"),
        smoke: None,
    }
}

/// Of a product of matrices.
fn precision_parameter() -> Parameter {
    Parameter {
        name: "precision",
        about: "double (fp64) or single (fp32)",
        kind: choice(&["fp64", "fp32"]),
        default: Some("fp64"),
        smoke: None,
    }
}

/// Columns begin at a multiple of a line, and not all in the same sets of the caches: never a multiple of 4 KiB apart.
fn stride(rows: usize, element_bytes: usize) -> usize {
    let line = 64 / element_bytes;
    let stride = rows.next_multiple_of(line);
    if (stride * element_bytes).is_multiple_of(1024) { stride + line } else { stride }
}

/// The memory of a matrix that does not fit is named with the size that asks for it.
fn too_large(n: usize, failure: Failure) -> Failure {
    match failure {
        Failure::Unavailable(why) => Failure::Unavailable(format!("n = {n}: {why}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_never_a_page_apart() {
        for rows in [1, 7, 8, 128, 512, 1000, 4096, 65_536] {
            for element in [4, 8] {
                let bytes = stride(rows, element) * element;
                assert!(
                    bytes >= rows * element && bytes.is_multiple_of(64) && !bytes.is_multiple_of(4096),
                    "{rows} x {element}: {bytes}"
                );
            }
        }
    }
}
