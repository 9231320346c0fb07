//! Far arrays: arrays in a file on a disk, for programs that know that their data exceed DRAM. A [`FarFile`] is
//! allocated completely before use and has no name, so a full disk is an error at creation and a killed process leaves
//! nothing. Its bytes are accessed in two ways: a [`View`] maps them as memory, paged by the kernel; a [`Mover`]
//! transfers pieces between the file and registered buffers by direct I/O while the caller computes. [`Tiles`] is an
//! array of blocks on top of a mover with a bounded number of blocks in DRAM, a [`Reader`] keeps many small reads in
//! flight, and a [`ScratchFile`] may have any size and, if named, outlives its process.
//!
//! Must not know what is computed with the data. Data live as long as the value.

mod buffers;
mod error;
mod file;
mod location;
mod mover;
mod reader;
mod ring;
mod scratch;
mod tiles;
mod view;

pub use buffers::{Buffer, NearArena};
pub use error::FarError;
pub(crate) use file::fill_with_zeros;
pub use file::{Access, FarFile};
pub(crate) use location::FileSystem;
pub use location::{DIR_VARIABLE, FarLocation};
pub use mover::{Mover, MoverSettings, TransferError, TransferId, TransferStats};
pub use reader::Reader;
pub use scratch::ScratchFile;
pub use tiles::{TileSettings, Tiles};
pub use view::{Advice, Backing, View};

#[cfg(test)]
mod tests;
