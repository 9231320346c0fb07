//! Walks over the columns of a matrix: from touch to touch the same number of bytes, exactly, which need not be whole pages,
//! now and then out of turn, because loops over several columns at once are unrolled. Finds the step in the exact addresses
//! of a thread's faults. Must not know what follows from it.

use super::Fault;

/// So many faults of one thread in one neighbourhood tell a step.
const TOUCHES: usize = 6;
/// Columns that lie closer, in pages, are swept rather than walked over.
const STEP_MIN_PAGES: u64 = 2;
/// From one fault to the next so many columns at most may have caused none, or come before it.
const SKIPPED_MAX: u64 = 32;
/// A fault farther from the one before it belongs to another walk, bytes.
const REACH: u64 = 4 << 20;
/// So many walks are looked for at a time.
const WALKS_MAX: usize = 32;

/// The last faults of a thread in a neighbourhood.
#[derive(Clone, Debug, Default)]
struct StridedWalk {
    process: u32,
    thread: u32,
    addresses: Vec<u64>,
    stamp: u64,
}

#[derive(Debug, Default)]
pub(super) struct StridedWalks {
    walks: Vec<StridedWalk>,
    stamp: u64,
}

impl StridedWalks {
    /// Takes a fault; the step of the walk that it is part of, in bytes, once that is clear. What begins with a page goes on
    /// from the page before it, as in a sweep or within a column, and tells no step.
    pub(super) fn observe(&mut self, fault: &Fault, page: u64) -> Option<i64> {
        if fault.address.is_multiple_of(page) {
            return None;
        }
        self.stamp += 1;
        let at = self.place(fault);
        let walk = &mut self.walks[at];
        walk.stamp = self.stamp;
        if walk.addresses.last() == Some(&fault.address) {
            return None;
        }
        if walk.addresses.len() == TOUCHES {
            walk.addresses.remove(0);
        }
        walk.addresses.push(fault.address);
        let step = (walk.addresses.len() == TOUCHES).then(|| step_of(&walk.addresses, STEP_MIN_PAGES * page)).flatten();
        if step.is_some() {
            walk.addresses.clear();
        }
        step
    }

    /// A process is gone, or has become another program.
    pub(super) fn forget(&mut self, process: u32) {
        self.walks.retain(|walk| walk.process != process);
    }

    /// The place of its walk: one that it is near to, or a new one.
    fn place(&mut self, fault: &Fault) -> usize {
        let near = |walk: &StridedWalk| {
            let last = walk.addresses.last();
            (walk.process, walk.thread) == (fault.process, fault.thread)
                && last.is_none_or(|last| last.abs_diff(fault.address) <= REACH)
        };
        if let Some(at) = self.walks.iter().position(near) {
            return at;
        }
        let new = StridedWalk { process: fault.process, thread: fault.thread, ..StridedWalk::default() };
        if self.walks.len() < WALKS_MAX {
            self.walks.push(new);
            return self.walks.len() - 1;
        }
        let at = (0..WALKS_MAX).min_by_key(|at| self.walks[*at].stamp).unwrap_or(0);
        self.walks[at] = new;
        at
    }
}

/// What all distances are multiples of, if they go one way on the whole. Chance gives none: the addresses of faults at random
/// are multiples of eight bytes, or far apart.
fn step_of(addresses: &[u64], least: u64) -> Option<i64> {
    let distances = || addresses.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
    let step = distances().fold(0, gcd);
    let whole = addresses[addresses.len() - 1].wrapping_sub(addresses[0]) as i64;
    let walks = step >= least
        && distances().all(|distance| distance <= SKIPPED_MAX * step)
        && whole.unsigned_abs() >= addresses.len() as u64 / 2 * step;
    walks.then(|| step as i64 * whole.signum())
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn last_step(addresses: impl IntoIterator<Item = u64>) -> Option<i64> {
        let mut walks = StridedWalks::default();
        let fault = |address| Fault { process: 1, thread: 1, instruction: 1, address, major: true };
        addresses.into_iter().filter_map(|address| walks.observe(&fault(address), PAGE)).last()
    }

    #[test]
    fn columns_are_found_whatever_their_length_and_order() {
        let column = |at: u64| 0x7f00_0000_0100 + at * 26_624;
        assert_eq!(last_step((0..6).map(column)), Some(26_624));
        assert_eq!(last_step((0..6).rev().map(column)), Some(-26_624));
        assert_eq!(last_step([919, 917, 921, 923, 927, 925].map(column)), Some(2 * 26_624));
        // Beside them a column goes on in its next page, which tells nothing.
        let crossing = (0..12).flat_map(|at| [column(at), (column(at) | (PAGE - 1)) + 1]);
        assert_eq!(last_step(crossing), Some(26_624));
    }

    #[test]
    fn sweeps_chance_and_small_steps_are_no_walks() {
        let base = 0x7f00_0000_0000;
        assert_eq!(last_step((0..64).map(|at| base + at * PAGE)), None, "a sweep by pages");
        assert_eq!(last_step((0..64).map(|at| base + at * (PAGE + 24))), None, "a sweep of records");
        let random = (0..1000_u64).map(|at| base + at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << 22) / 8 * 8);
        assert_eq!(last_step(random), None);
        assert_eq!(last_step((0..64).map(|at| base + 16 + at % 2 * (1 << 20))), None, "to and fro");
    }
}
