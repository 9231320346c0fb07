//! Adapters: how other people's programs are run, and how to read what they printed or made. Those that need files made
//! before and looked at afterwards run in the worker process, as kernels do.

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
