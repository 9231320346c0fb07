//! Compares the number of waiting faults with and without the predictor, for access patterns over twice the DRAM limit.

use super::memory_model::{MemoryModel, PAGE};
use super::*;

/// Start of the simulated mapping.
const BASE: u64 = 0x7f00_0000_0000;
/// Number of pages accessed; half of them fit in DRAM.
const PAGES: u64 = 16384;
/// Duration of an access, in nanoseconds.
const TOUCH: u64 = 2000;

/// One access: thread, instruction, page.
type Touch = (u32, u64, u64);

/// Number of faults that waited and the predictor's counters; the predictor is used only if `steered`.
fn play(touches: impl IntoIterator<Item = Touch>, steered: bool) -> (u64, Counts) {
    play_bytes(touches.into_iter().map(|(thread, instruction, page)| (thread, instruction, page * PAGE)), steered)
}

/// As [`play`], with byte addresses instead of pages.
fn play_bytes(touches: impl IntoIterator<Item = Touch>, steered: bool) -> (u64, Counts) {
    let dram = PAGES / 2 * PAGE;
    let tuning = Tuning { minor_period: 4, ..Tuning::for_dram(dram, PAGE) };
    let (mut memory, mut predictor) = (MemoryModel::new(PAGES / 2, BASE), Predictor::new(tuning));
    for page in 0..PAGES {
        memory.touch(page);
    }
    (memory.waited, memory.minor) = (0, 0);
    for (at, (thread, instruction, byte)) in touches.into_iter().enumerate() {
        let Some(major) = memory.touch(byte / PAGE) else { continue };
        if !steered || (!major && !memory.minor.is_multiple_of(tuning.minor_period)) {
            continue;
        }
        predictor.observe(&Fault { process: 1, thread, instruction, address: BASE + byte, major });
        let now = at as u64 * TOUCH;
        let headroom = dram as i64 - (memory.near.len() as u64 * PAGE) as i64;
        for order in predictor.orders(now, headroom) {
            let pages = memory.apply(&order);
            predictor.fetched(&order, pages, now);
        }
    }
    (memory.waited, predictor.counts())
}

/// Waiting faults without the predictor divided by those with it.
fn gain(touches: impl IntoIterator<Item = Touch> + Clone) -> f64 {
    let (plain, _) = play(touches.clone(), false);
    let (steered, counts) = play(touches, true);
    println!("{plain} waits without, {steered} with: {counts:?}");
    plain as f64 / steered.max(1) as f64
}

fn sweep(pages: Range<u64>) -> impl Iterator<Item = Touch> + Clone {
    pages.map(|page| (1, 0x10, page))
}

/// Pseudo-random numbers that do not depend on another generator.
fn scrambled(count: u64) -> impl Iterator<Item = u64> + Clone {
    (0..count).map(|at| {
        let mut x = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 13
    })
}

#[test]
fn cyclic_sweeps_rarely_wait() {
    let cyclic = (0..3).flat_map(|_| sweep(0..PAGES));
    assert!(gain(cyclic) > 10.0);
    let backward = (0..3).flat_map(|_| sweep(0..PAGES).map(|(thread, ip, page)| (thread, ip, PAGES - 1 - page)));
    assert!(gain(backward) > 10.0);
}

/// Half of a program's peak may be any number of bytes, but advice must be page-aligned.
#[test]
fn unaligned_budgets_give_aligned_advice() {
    for dram in (24..38).map(|bits| (1 << bits) + 1_234_567) {
        for page in [PAGE, 16 << 10, 64 << 10] {
            let Tuning { ahead_max, behind, piece, .. } = Tuning::for_dram(dram, page);
            assert!([ahead_max, behind, piece].iter().all(|bytes| *bytes > 0 && bytes.is_multiple_of(page)), "{dram}");
        }
    }
    let tuning = Tuning::for_dram(540_000 << 10, PAGE);
    let mut predictor = Predictor::new(tuning);
    let mut evicted = 0;
    for address in (BASE..BASE + (64 << 20)).step_by(16 * PAGE as usize) {
        predictor.observe(&Fault {
            process: 1,
            thread: 1,
            instruction: 0x10,
            address,
            major: address < BASE + (1 << 20),
        });
        for order in predictor.orders(0, -1) {
            let Advice::PageOut(range) = &order.advice else { continue };
            assert!(range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE), "{range:x?}");
            evicted += range.end - range.start;
        }
    }
    assert!(evicted > 50 << 20, "{evicted} of 64 MiB");
}

#[test]
fn streams_of_one_loop_and_of_two_threads_are_distinguished() {
    let third = PAGES / 3;
    let triad =
        (0..3).flat_map(move |_| (0..third).flat_map(move |at| [0, 1, 2].map(|of| (1, 0x10 + of, of * third + at))));
    assert!(gain(triad) > 8.0);
    let threads = (0..3).flat_map(move |_| (0..PAGES / 2).flat_map(|at| [(1, 0x10, at), (2, 0x10, PAGES / 2 + at)]));
    assert!(gain(threads) > 8.0);
}

#[test]
fn matrix_columns_are_a_strided_stream() {
    let columns = (0..32).flat_map(|column| (column..PAGES).step_by(32).map(|page| (1, 0x10, page)));
    let (_, counts) = play(columns.clone(), true);
    assert!(counts.stepping > 0, "{counts:?}");
    assert!(gain(columns) > 1.5);
}

/// Columns of 6.5 pages each, in blocks of rows, as a BLAS accesses a matrix that it adds to. Prefetching everything
/// between them would evict earlier prefetches.
#[test]
fn unaligned_columns_are_a_strided_stream() {
    const COLUMN: u64 = 26_624;
    const BLOCK: u64 = 3072;
    let columns = PAGES * PAGE / COLUMN;
    let block = move |first: u64| {
        (0..columns).flat_map(move |column| {
            let start = column * COLUMN + first;
            let next_page = start / PAGE * PAGE + PAGE;
            let second = (next_page < start + BLOCK).then_some((1, 0x11, next_page));
            std::iter::once((1, 0x10, start)).chain(second)
        })
    };
    let product = (0..3).flat_map(|_| (256..COLUMN - BLOCK).step_by(BLOCK as usize)).flat_map(block);
    let (plain, _) = play_bytes(product.clone(), false);
    let (steered, counts) = play_bytes(product, true);
    println!("{plain} waits without, {steered} with: {counts:?}");
    assert!(counts.stepping > 0, "{counts:?}");
    assert!(steered * 3 < plain, "{steered} of {plain}");
    assert!(counts.used * 2 > counts.fetched, "{counts:?}");
}

#[test]
fn random_access_is_not_prefetched() {
    let random = scrambled(40_000).map(|page| (1, 0x10, page % PAGES));
    let (plain, _) = play(random.clone(), false);
    let (steered, counts) = play(random, true);
    assert!(steered as f64 <= 1.02 * plain as f64, "{plain} and {steered}");
    assert!(counts.fetched < 400, "{counts:?}");
}

/// C += A B in panels, as in a BLAS: a panel of B stays in DRAM while A and C are swept.
#[test]
fn blocked_matrix_product_waits_less() {
    let (a, b, c) = (0..PAGES * 3 / 8, PAGES * 3 / 8..PAGES * 5 / 8, PAGES * 5 / 8..PAGES);
    let panels = 4;
    let product = (0..panels).flat_map(move |panel| {
        let width = (b.end - b.start) / panels;
        let panel = sweep(b.start + panel * width..b.start + (panel + 1) * width);
        let rows = a.clone().zip(c.clone()).flat_map(|(a, c)| [(1, 0x20, a), (1, 0x30, c), (1, 0x31, c)]);
        panel.chain(rows)
    });
    assert!(gain(product) > 3.0);
}

/// Two halves are read and a third array is written, in runs that double in length.
#[test]
fn merge_sort_waits_less() {
    let half = PAGES / 2;
    let passes = (6..13).flat_map(move |bits| {
        let run = 1_u64 << bits;
        (0..half / (2 * run)).flat_map(move |pair| {
            let first = pair * 2 * run;
            (0..run).flat_map(move |at| {
                [
                    (1, 0x40, first + at),
                    (1, 0x41, first + run + at),
                    (1, 0x42, half + first + 2 * at),
                    (1, 0x42, half + first + 2 * at + 1),
                ]
            })
        })
    });
    assert!(gain(passes) > 3.0);
}

/// A frontier read in order and neighbours at random addresses: only the frontier is worth prefetching.
#[test]
fn breadth_first_search_does_not_wait_more() {
    let neighbours = scrambled(30_000).collect::<Vec<_>>();
    let search = (0..10_000_u64).flat_map(move |at| {
        let order = (1, 0x50, at * PAGES / 20_000);
        let pages = (0..3).map(|n| neighbours[(at * 3 + n) as usize] % (PAGES / 2) + PAGES / 2).collect::<Vec<_>>();
        std::iter::once(order).chain(pages.into_iter().map(|page| (1, 0x51, page)))
    });
    assert!(gain(search) > 0.97);
}

#[test]
fn useless_prefetches_stop() {
    // Sixteen pages forward, then a random jump: every run looks like the start of a sweep.
    let runs = scrambled(2000).flat_map(|start| (0..16).map(move |at| (1, 0x60, start % (PAGES - 16) + at)));
    let (_, counts) = play(runs, true);
    assert!(counts.used * 10 >= counts.fetched || counts.rests > 0, "{counts:?}");
}

/// Number of pages prefetched by an order for a contiguous range.
fn pages_of(order: &Order) -> u64 {
    match &order.advice {
        Advice::Fetch(range) => (range.end - range.start) / PAGE,
        _ => 0,
    }
}

/// A BLAS packs a few columns of 13 pages backwards, then other columns: as dense as a sweep, but too short to judge.
#[test]
fn short_sweeps_prefetch_little() {
    const RUNS: u64 = 1000;
    let mut predictor = Predictor::new(Tuning::for_dram(1 << 29, PAGE));
    let mut fetched = 0;
    for (run, start) in (0..).zip(scrambled(RUNS)) {
        for at in (0..6).rev() {
            let address = BASE + (start % (1 << 28) + 13 * at) * PAGE;
            predictor.observe(&Fault { process: 1, thread: 1, instruction: 0x70, address, major: true });
            for order in predictor.orders(run, 1 << 30) {
                predictor.fetched(&order, pages_of(&order), run);
                fetched += pages_of(&order);
            }
        }
    }
    let counts = predictor.counts();
    assert!(counts.streams > RUNS / 2, "{counts:?}");
    assert!((1..32 * RUNS).contains(&fetched), "{fetched}: {counts:?}");
}

/// A program that skips pages keeps running during a prefetch, so it overtakes most of the first, small prefetches. The
/// prefetch distance must grow nevertheless.
#[test]
fn sweep_that_overtakes_its_first_prefetches_gets_larger_ones() {
    let tuning = Tuning::for_dram(1 << 29, PAGE);
    let mut predictor = Predictor::new(tuning);
    let (mut page, mut edge, mut largest) = (0, 0, 0);
    for poll in 0..60 {
        // Twelve faults wait between two polls; then the program reaches the end of the prefetched range.
        for _ in 0..12 {
            let fault = Fault { process: 1, thread: 1, instruction: 0x10, address: BASE + page * PAGE, major: true };
            predictor.observe(&fault);
            page += READ_AROUND + 1;
        }
        for order in predictor.orders(poll, 1 << 30) {
            let Advice::Fetch(range) = &order.advice else { continue };
            (edge, largest) = ((range.end - BASE) / PAGE, largest.max(range.end - range.start));
            predictor.fetched(&order, pages_of(&order), poll);
        }
        page = page.max(edge.saturating_sub(4));
    }
    assert!(largest >= tuning.ahead_max / 2, "{largest} of {}: {:?}", tuning.ahead_max, predictor.counts());
}

#[test]
fn new_pages_are_not_evicted() {
    let mut predictor = Predictor::new(Tuning::for_dram(1 << 24, PAGE));
    for page in (0..PAGES).step_by(16) {
        predictor.observe(&Fault { process: 1, thread: 1, instruction: 1, address: BASE + page * PAGE, major: false });
        let orders = predictor.orders(page, -1);
        assert!(!orders.iter().any(|order| matches!(order.advice, Advice::PageOut(_))), "{orders:?}");
    }
    // One waiting fault makes the stream eligible for eviction.
    predictor.observe(&Fault { process: 1, thread: 1, instruction: 1, address: BASE + PAGES * PAGE, major: true });
    assert!(predictor.orders(0, -1).iter().any(|order| matches!(order.advice, Advice::PageOut(_))));
}

#[test]
fn processes_are_distinguished_and_forgotten() {
    let mut predictor = Predictor::new(Tuning::for_dram(1 << 26, PAGE));
    let fault = |process, page: u64| Fault {
        process,
        thread: process,
        instruction: 1,
        address: BASE + page * PAGE,
        major: true,
    };
    for page in 0..40 {
        predictor.observe(&fault(1, page));
        predictor.observe(&fault(2, 1000 - page));
    }
    let of = |orders: &[Order], process| orders.iter().filter(|order| order.process == process).count();
    let orders = predictor.orders(0, 1 << 30);
    assert_eq!((of(&orders, 1), of(&orders, 2)), (1, 1), "{orders:?}");
    predictor.forget(1);
    for page in 40..80 {
        predictor.observe(&fault(2, 1000 - page));
    }
    let orders = predictor.orders(0, 1 << 30);
    assert_eq!((of(&orders, 1), of(&orders, 2)), (0, 1), "{orders:?}");
}

#[test]
fn extreme_addresses_give_valid_ranges() {
    let mut predictor = Predictor::new(Tuning::for_dram(1 << 24, PAGE));
    for start in [0, PAGE, u64::MAX - 64 * PAGE, 1 << 63, (1 << 47) - 32 * PAGE] {
        for (at, step) in (0..64).flat_map(|at| [(at, PAGE), (at, PAGE.wrapping_neg()), (at, 1 << 20)]) {
            let address = start + 0_u64.wrapping_add(step.wrapping_mul(at)) % (32 * PAGE);
            predictor.observe(&Fault { process: 1, thread: step as u32, instruction: step, address, major: true });
        }
        for order in predictor.orders(0, -1) {
            match order.advice {
                Advice::Fetch(range) | Advice::PageOut(range) => assert!(range.start < range.end, "{range:?}"),
                Advice::FetchEach(ranges) => assert!(ranges.iter().all(|range| range.start < range.end), "{ranges:?}"),
            }
        }
    }
}

/// Half of a program's peak may be any number of bytes; the kernel rejects advice that is not page-aligned.
#[test]
fn shares_of_an_odd_budget_are_page_aligned() {
    for dram in [(25 << 20) + 1, (317 << 20) / 2 + 1234, (5 << 30) + 77] {
        let tuning = Tuning::for_dram(dram, PAGE);
        for share in [tuning.ahead_max, tuning.behind, tuning.piece] {
            assert_eq!(share % PAGE, 0, "of {dram}: {tuning:?}");
        }
    }
}
