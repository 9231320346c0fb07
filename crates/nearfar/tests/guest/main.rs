//! Tests that need several memory nodes, on an emulated machine: real kernel, real pages, real placements. No test
//! depends on speed: in emulation all nodes are equally fast. Skipped without QEMU or the packages of the guest
//! (`scripts/setup guest`).

mod boot;
mod boots;
mod crypto;
mod expand;
mod interrupts;
mod memory;
mod residency;
mod text;
mod tiers;
mod trials;
mod two_sockets;
mod unplug;
