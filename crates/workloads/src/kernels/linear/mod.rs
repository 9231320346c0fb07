//! Linear algebra: the common parts of `gemm` and `hpl`. A BLAS library, loaded at run time, does the arithmetic. The
//! pinned worker threads call it for their parts, so a thread with a verified binding executes every operation. The
//! library's own threads are disabled, which is verified.

mod blas;
mod element;
pub(crate) mod far_gemm;
pub(crate) mod gemm;
mod grid;
pub(crate) mod hpl;
mod random;
mod tile;

pub(crate) use blas::missing;

use model::values::workload::ParameterKind;

use crate::describe::{Parameter, choice};
use crate::job::Failure;

/// Declares the parameter that [`blas::Blas::load`] reads.
fn blas_parameter() -> Parameter {
    Parameter {
        name: "blas",
        about: "BLAS library: a path, or a name for dlopen; auto selects OpenBLAS, otherwise any installed BLAS",
        kind: ParameterKind::Text,
        default: Some("auto"),
        smoke: None,
    }
}

/// Declares the precision of a product of matrices.
fn precision_parameter() -> Parameter {
    Parameter {
        name: "precision",
        about: "double (fp64) or single (fp32)",
        kind: choice(&["fp64", "fp32"]),
        default: Some("fp64"),
        smoke: None,
    }
}

/// Returns the column stride: a multiple of a cache line, but never a multiple of 4 KiB, so that columns do not share
/// the same cache sets.
fn stride(rows: usize, element_bytes: usize) -> usize {
    let line = 64 / element_bytes;
    let stride = rows.next_multiple_of(line);
    if (stride * element_bytes).is_multiple_of(1024) { stride + line } else { stride }
}

/// Adds the order n to an error about matrices that do not fit in memory.
fn too_large(n: usize, failure: Failure) -> Failure {
    match failure {
        Failure::Unavailable(reason) => Failure::Unavailable(format!("n = {n}: {reason}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_strides_are_never_a_multiple_of_a_page() {
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
