//! Kronecker graphs and the search over them, as the Graph500 defines both: generator, construction, layout, search,
//! validation. Must not know a clock, files except through values that it is given, trials or placements: who calls
//! gives the threads (`Crew`) and says where memory lies (`Room`).

#![expect(
    clippy::inline_always,
    reason = "loops are compiled once for each kind of vectors, which takes all they call"
)]

#[cfg(target_endian = "big")]
compile_error!("graph files and bitmaps are little-endian here");

mod beginnings;
mod budget;
mod build;
mod classes;
mod coded;
mod crew;
mod degrees;
mod direction;
mod edge_list;
mod error;
mod expand;
mod far;
mod file;
mod ground;
mod head;
mod index;
mod kronecker;
mod lanes;
mod layout;
mod link;
mod mrg;
mod nodes;
mod out_of_core;
mod parts;
mod room;
mod roots;
mod scan;
mod search;
mod sort;
mod statistics;
mod storage;
mod tuples;
mod validate;

pub use budget::{Budget, Dram};
pub use build::{build, bytes_needed, check_fits};
pub use crew::{Crew, Hand, Stopped, Threads};
pub use direction::Tuning;
pub use edge_list::{Form, stream};
pub use error::Error;
pub use far::{Fetch, Io, PAGE_BYTES, READ_BYTES_MAX, READ_PADDING};
pub use file::{FileError, Header, Section, VERSION, read, read_header, write};
pub use kronecker::{EDGE_FACTOR, Generator, SCALE_MAX, Spec};
pub use lanes::Isa;
pub use layout::{COLUMNS_MAX, Layout, check_columns};
pub use link::{Link, Mail, Reduce, Together, agree, together};
pub use nodes::Nodes;
pub use out_of_core::{Beyond, Built, Needs, OutOfCore, Progress, build_beyond, build_out_of_core};
pub use parts::{Everywhere, Part, PartSearch, PartValidator, part_bytes_needed};
pub use room::Room;
pub use roots::Roots;
pub use search::Search;
pub use statistics::{Harmonic, Quartiles};
pub use storage::{Kept, Storage, Trouble, TroubleKind};
pub use tuples::{Edges, Tuples};
pub use validate::{NONE, Reached, Validator, Wrong};
