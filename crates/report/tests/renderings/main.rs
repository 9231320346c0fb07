//! What people read, as snapshots, and what must never happen in it.

mod fixture;
mod machines;
mod maps;
mod pages;
mod tables;
