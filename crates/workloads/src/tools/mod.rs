//! Adapters that run external programs and parse their output. Tools that need input files or check output files run in
//! the worker process, like kernels.

mod cache;
pub(crate) mod command;
pub(crate) mod compress;
pub(crate) mod fio;
pub(crate) mod hpcc;
mod installed;
pub(crate) mod kernel_build;
mod linpack;
pub(crate) mod openssl;
mod process;
pub(crate) mod sysbench;
pub(crate) mod unixbench;
pub(crate) mod xhpl;
