//! Ways through memory played through the predictor, in a memory that holds half of what they touch: how many faults wait
//! with it and without.

use super::memory_model::{MemoryModel, PAGE};
use super::*;

/// Far from any other, as mappings are.
const BASE: u64 = 0x7f00_0000_0000;
/// Pages of the whole of it; half of that is near.
const PAGES: u64 = 16384;
/// A touch takes this long, nanoseconds.
const TOUCH: u64 = 2000;

/// One touch: thread, instruction, page.
type Touch = (u32, u64, u64);

/// Faults that waited, and what the predictor did; without it where `steered` is not.
fn play(touches: impl IntoIterator<Item = Touch>, steered: bool) -> (u64, Counts) {
    play_bytes(touches.into_iter().map(|(thread, instruction, page)| (thread, instruction, page * PAGE)), steered)
}

/// The same where it matters which byte of a page is touched.
fn play_bytes(touches: impl IntoIterator<Item = Touch>, steered: bool) -> (u64, Counts) {
    let dram = PAGES / 2 * PAGE;
    let tuning = Tuning { minor_period: 4, ..Tuning::for_dram(dram, PAGE) };
    let (mut world, mut predictor) = (MemoryModel::new(PAGES / 2, BASE), Predictor::new(tuning));
    for page in 0..PAGES {
        world.touch(page);
    }
    (world.waited, world.minor) = (0, 0);
    for (at, (thread, instruction, byte)) in touches.into_iter().enumerate() {
        let Some(major) = world.touch(byte / PAGE) else { continue };
        if !steered || (!major && !world.minor.is_multiple_of(tuning.minor_period)) {
            continue;
        }
        predictor.observe(&Fault { process: 1, thread, instruction, address: BASE + byte, major });
        let now = at as u64 * TOUCH;
        let headroom = dram as i64 - (world.near.len() as u64 * PAGE) as i64;
        for order in predictor.orders(now, headroom) {
            let pages = world.apply(&order);
            predictor.fetched(&order, pages, now);
        }
    }
    (world.waited, predictor.counts())
}

/// How many times fewer faults wait.
fn gain(touches: impl IntoIterator<Item = Touch> + Clone) -> f64 {
    let (plain, _) = play(touches.clone(), false);
    let (steered, counts) = play(touches, true);
    println!("{plain} waits without, {steered} with: {counts:?}");
    plain as f64 / steered.max(1) as f64
}

fn sweep(pages: Range<u64>) -> impl Iterator<Item = Touch> + Clone {
    pages.map(|page| (1, 0x10, page))
}

/// A generator with its own bits: tests depend on no other.
fn scrambled(count: u64) -> impl Iterator<Item = u64> + Clone {
    (0..count).map(|at| {
        let mut x = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 13
    })
}

#[test]
fn cyclic_sweeps_hardly_wait() {
    let cyclic = (0..3).flat_map(|_| sweep(0..PAGES));
    assert!(gain(cyclic) > 10.0);
    let backward = (0..3).flat_map(|_| sweep(0..PAGES).map(|(thread, ip, page)| (thread, ip, PAGES - 1 - page)));
    assert!(gain(backward) > 10.0);
}

/// Half of what a program holds is any number; pieces of it are whole pages all the same.
#[test]
fn budgets_of_no_whole_pages_are_steered_too() {
    for dram in (24..38).map(|bits| (1 << bits) + 1_234_567) {
        for page in [PAGE, 16 << 10, 64 << 10] {
            let Tuning { ahead_max, behind, piece, .. } = Tuning::for_dram(dram, page);
            assert!([ahead_max, behind, piece].iter().all(|bytes| *bytes > 0 && bytes.is_multiple_of(page)), "{dram}");
        }
    }
    let tuning = Tuning::for_dram(540_000 << 10, PAGE);
    let mut predictor = Predictor::new(tuning);
    let mut paged_out = 0;
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
            paged_out += range.end - range.start;
        }
    }
    assert!(paged_out > 50 << 20, "{paged_out} of 64 MiB");
}

#[test]
fn several_streams_of_one_loop_and_of_two_threads_are_told_apart() {
    let third = PAGES / 3;
    let triad =
        (0..3).flat_map(move |_| (0..third).flat_map(move |at| [0, 1, 2].map(|of| (1, 0x10 + of, of * third + at))));
    assert!(gain(triad) > 8.0);
    let threads = (0..3).flat_map(move |_| (0..PAGES / 2).flat_map(|at| [(1, 0x10, at), (2, 0x10, PAGES / 2 + at)]));
    assert!(gain(threads) > 8.0);
}

#[test]
fn columns_of_a_matrix_are_walked_in_steps() {
    let columns = (0..32).flat_map(|column| (column..PAGES).step_by(32).map(|page| (1, 0x10, page)));
    let (_, counts) = play(columns.clone(), true);
    assert!(counts.stepping > 0, "{counts:?}");
    assert!(gain(columns) > 1.5);
}

/// Columns of six pages and a half each, in blocks of rows, as a BLAS goes through a matrix that it adds to. Fetching all that
/// lies between them would displace what was fetched before.
#[test]
fn columns_of_no_whole_pages_are_walked_over() {
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
fn random_access_is_left_alone() {
    let random = scrambled(40_000).map(|page| (1, 0x10, page % PAGES));
    let (plain, _) = play(random.clone(), false);
    let (steered, counts) = play(random, true);
    assert!(steered as f64 <= 1.02 * plain as f64, "{plain} and {steered}");
    assert!(counts.fetched < 400, "{counts:?}");
}

/// C += A B in panels, as a BLAS does it: a panel of B stays while A and C are swept.
#[test]
fn a_blocked_matrix_product_waits_less() {
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

/// Two halves are read and a third place is written, in runs twice as long each time.
#[test]
fn a_merge_sort_waits_less() {
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

/// A frontier that is read in order and neighbours that lie anywhere: the order is worth fetching, the neighbours are not.
#[test]
fn a_breadth_first_search_is_not_made_worse() {
    let neighbours = scrambled(30_000).collect::<Vec<_>>();
    let search = (0..10_000_u64).flat_map(move |at| {
        let order = (1, 0x50, at * PAGES / 20_000);
        let pages = (0..3).map(|n| neighbours[(at * 3 + n) as usize] % (PAGES / 2) + PAGES / 2).collect::<Vec<_>>();
        std::iter::once(order).chain(pages.into_iter().map(|page| (1, 0x51, page)))
    });
    assert!(gain(search) > 0.97);
}

#[test]
fn what_is_not_used_is_not_fetched_for_long() {
    // Sixteen pages forward, then somewhere else: every run looks like the beginning of a sweep.
    let runs = scrambled(2000).flat_map(|start| (0..16).map(move |at| (1, 0x60, start % (PAGES - 16) + at)));
    let (_, counts) = play(runs, true);
    assert!(counts.used * 10 >= counts.fetched || counts.rests > 0, "{counts:?}");
}

/// Pages that an order has fetched in one piece.
fn pages_of(order: &Order) -> u64 {
    match &order.advice {
        Advice::Fetch(range) => (range.end - range.start) / PAGE,
        _ => 0,
    }
}

/// A BLAS packs a few columns of thirteen pages backwards, then others elsewhere: as dense as a sweep, over before it can be judged.
#[test]
fn of_many_short_sweeps_each_fetches_little() {
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

/// A program that leaves pages out goes on while a piece is ordered: of the first small ones it waits for the most itself. That is no
/// reason to stay small.
#[test]
fn a_sweep_that_outruns_its_first_pieces_is_fetched_far_ahead() {
    let tuning = Tuning::for_dram(1 << 29, PAGE);
    let mut predictor = Predictor::new(tuning);
    let (mut page, mut edge, mut largest) = (0, 0, 0);
    for look in 0..60 {
        // It waits twelve times while it is looked at, and then comes to the end of what was fetched.
        for _ in 0..12 {
            let fault = Fault { process: 1, thread: 1, instruction: 0x10, address: BASE + page * PAGE, major: true };
            predictor.observe(&fault);
            page += READ_AROUND + 1;
        }
        for order in predictor.orders(look, 1 << 30) {
            let Advice::Fetch(range) = &order.advice else { continue };
            (edge, largest) = ((range.end - BASE) / PAGE, largest.max(range.end - range.start));
            predictor.fetched(&order, pages_of(&order), look);
        }
        page = page.max(edge.saturating_sub(4));
    }
    assert!(largest >= tuning.ahead_max / 2, "{largest} of {}: {:?}", tuning.ahead_max, predictor.counts());
}

#[test]
fn first_touches_are_not_paged_out_behind() {
    let mut predictor = Predictor::new(Tuning::for_dram(1 << 24, PAGE));
    for page in (0..PAGES).step_by(16) {
        predictor.observe(&Fault { process: 1, thread: 1, instruction: 1, address: BASE + page * PAGE, major: false });
        let orders = predictor.orders(page, -1);
        assert!(!orders.iter().any(|order| matches!(order.advice, Advice::PageOut(_))), "{orders:?}");
    }
    // With one wait it has met far memory.
    predictor.observe(&Fault { process: 1, thread: 1, instruction: 1, address: BASE + PAGES * PAGE, major: true });
    assert!(predictor.orders(0, -1).iter().any(|order| matches!(order.advice, Advice::PageOut(_))));
}

#[test]
fn processes_are_told_apart_and_forgotten() {
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
fn odd_addresses_do_no_harm() {
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

/// Half of what a program holds is any number of bytes; the kernel refuses advice on parts of pages.
#[test]
fn shares_of_an_odd_budget_are_whole_pages() {
    for dram in [(25 << 20) + 1, (317 << 20) / 2 + 1234, (5 << 30) + 77] {
        let tuning = Tuning::for_dram(dram, PAGE);
        for share in [tuning.ahead_max, tuning.behind, tuning.piece] {
            assert_eq!(share % PAGE, 0, "of {dram}: {tuning:?}");
        }
    }
}
