//! What only a machine with several memory nodes can show, on one that is emulated: a real kernel, real pages, real
//! placements. Nothing is timed here: in emulation a far node is as fast as a near one. Skipped where QEMU or the
//! packages for the guest are missing (`scripts/setup guest`).

mod boot;
mod boots;
mod crypto;
mod expand;
mod interrupts;
mod memory;
mod trials;
mod two_sockets;
mod unplug;
