//! Engine F: arrays in a file on a disk, for programs that know that their data are far. A [`FarFile`] has its whole room
//! before it is used and no name in any folder, so that a full disk is an error at the start and a killed process leaves
//! nothing behind. Two ways to its bytes: a [`View`] maps them as memory, in and out of which the kernel moves pages; a
//! [`Mover`] moves pieces between the file and registered buffers while the caller computes, past the page cache, and
//! [`Tiles`] is an array of blocks above it with a bounded number of them in DRAM. A [`Reader`] has many small reads of a file
//! under way at once. A [`ScratchFile`] has any size, and with a name outlives who made it.
//!
//! Must not know what is computed with them. Data live as long as the value: nothing here is kept after it is dropped.

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
pub use location::{FOLDER_VARIABLE, FarLocation};
pub use mover::{Mover, MoverSettings, TransferError, TransferId, TransferStats};
pub use reader::Reader;
pub use scratch::ScratchFile;
pub use tiles::{TileSettings, Tiles};
pub use view::{Advice, Backing, View};

#[cfg(test)]
mod tests;
