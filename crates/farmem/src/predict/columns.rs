//! Walks over the columns of a matrix: accesses at exactly equal distances in bytes, not necessarily whole pages, and
//! sometimes out of order, because loops over several columns are unrolled. Finds the step from the exact addresses of
//! a thread's faults. Must not know what follows from it.

use super::Fault;

/// Faults of one thread in one neighbourhood that determine a step.
const TOUCHES: usize = 6;
/// Minimum distance of columns, in pages; closer ones are a sweep.
const STEP_MIN_PAGES: u64 = 2;
/// Maximum number of columns between two faults, skipped or out of order.
const SKIPPED_MAX: u64 = 32;
/// Maximum distance of two faults of one walk, in bytes.
const REACH: u64 = 4 << 20;
/// Number of walks tracked concurrently.
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
    /// Adds a fault. Returns the step of its walk in bytes once it is known. A fault at the start of a page continues
    /// the page before, as in a sweep or within a column, and determines no step.
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

    /// Forgets a process that has ended or executed another program.
    pub(super) fn forget(&mut self, process: u32) {
        self.walks.retain(|walk| walk.process != process);
    }

    /// Index of the walk near the fault, or of a new one.
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

/// Greatest common divisor of all distances if they mainly go in one direction. Random faults have none: their
/// addresses are multiples of eight bytes or far apart.
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
    fn columns_of_any_length_and_order_are_found() {
        let column = |at: u64| 0x7f00_0000_0100 + at * 26_624;
        assert_eq!(last_step((0..6).map(column)), Some(26_624));
        assert_eq!(last_step((0..6).rev().map(column)), Some(-26_624));
        assert_eq!(last_step([919, 917, 921, 923, 927, 925].map(column)), Some(2 * 26_624));
        // In between, a column continues in its next page, which determines no step.
        let crossing = (0..12).flat_map(|at| [column(at), (column(at) | (PAGE - 1)) + 1]);
        assert_eq!(last_step(crossing), Some(26_624));
    }

    #[test]
    fn sweeps_random_access_and_small_steps_are_not_walks() {
        let base = 0x7f00_0000_0000;
        assert_eq!(last_step((0..64).map(|at| base + at * PAGE)), None, "a sweep by pages");
        assert_eq!(last_step((0..64).map(|at| base + at * (PAGE + 24))), None, "a sweep of records");
        let random = (0..1000_u64).map(|at| base + at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << 22) / 8 * 8);
        assert_eq!(last_step(random), None);
        assert_eq!(last_step((0..64).map(|at| base + 16 + at % 2 * (1 << 20))), None, "alternating");
    }
}
