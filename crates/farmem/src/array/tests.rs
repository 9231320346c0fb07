//! Far arrays compared with plain vectors, with each transfer failing in turn, with several arrays at once, and with
//! killed processes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::hint::Hinted;
use model::values::units::Bytes;

use super::{Access, Advice, FarError, FarFile, FarLocation, TileSettings, Tiles, View};

const TILE: usize = 16 << 10;

/// A fault injected into one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The kernel transfers half of the request, or nothing.
    Short,
    /// The request fails with this error and transfers nothing.
    Errno(i32),
}

#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    /// Number of the faulty request, from 0; `None` without a fault.
    pub at: Option<u64>,
    pub fault: Option<Fault>,
    /// Number of requests so far.
    pub seen: u64,
    /// Simulated completions, by the number of the request.
    pub made_up: HashMap<u64, i32>,
}

impl FaultPlan {
    fn of(at: u64, fault: Fault) -> Self {
        Self { at: Some(at), fault: Some(fault), ..Self::default() }
    }

    pub(super) fn next(&mut self) -> Option<Fault> {
        self.seen += 1;
        self.fault.filter(|_| self.at == Some(self.seen - 1))
    }
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// A directory on a disk, removed when dropped.
pub(super) fn scratch_dir() -> Option<(tempfile::TempDir, FarLocation)> {
    let place = match FarLocation::found() {
        Ok(place) => place,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let dir = tempfile::tempdir_in(place.directory()).expect("the directory for far files is writable");
    let place = FarLocation::parse(dir.path().to_str().expect("a UTF-8 path")).expect("the directory exists");
    Some((dir, place))
}

/// An array, or `None` after printing the reason why there is none here.
fn tiles(place: &FarLocation, tiles: u64, slots: usize) -> Option<Tiles> {
    let budget = Bytes((slots * TILE) as u64);
    match Tiles::new(place, TileSettings { tiles, tile: Bytes(TILE as u64), budget, depth: 4 }) {
        Ok(tiles) => Some(tiles),
        Err(error @ FarError::Refused { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Content of a tile after its n-th change: every 512 bytes hold the tile, the offset and the change.
fn stamp(bytes: &mut [u8], tile: u64, change: u64) {
    for (index, sector) in bytes.chunks_exact_mut(512).enumerate() {
        let mut random = Random(tile << 40 ^ change << 16 ^ index as u64);
        sector.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_ne_bytes()));
    }
}

fn stamped(tile: u64, change: u64) -> Vec<u8> {
    let mut bytes = vec![0; TILE];
    if change > 0 {
        stamp(&mut bytes, tile, change);
    }
    bytes
}

/// Runs random operations on an array and on a vector of expected changes. Errors are counted and the operation is
/// skipped; a tile must always hold the content of its last change.
fn operate(tiles: &mut Tiles, changes: &mut [u64], seed: u64, operations: usize) -> u64 {
    let mut random = Random(seed);
    let mut failures = 0;
    for operation in 0..operations {
        let tile = random.below(changes.len()) as u64;
        let result = match random.below(10) {
            0..4 => tiles.read(tile).map(|bytes| {
                let expected = stamped(tile, changes[tile as usize]);
                assert!(
                    bytes == expected,
                    "operation {operation}: tile {tile} does not hold change {}",
                    changes[tile as usize]
                );
            }),
            4..7 => tiles.write(tile).map(|bytes| {
                assert!(
                    bytes == stamped(tile, changes[tile as usize]),
                    "operation {operation}: tile {tile} before its change"
                );
                changes[tile as usize] += 1;
                stamp(bytes, tile, changes[tile as usize]);
            }),
            7..9 => {
                tiles.prefetch(tile);
                Ok(())
            }
            _ => tiles.flush(),
        };
        failures += u64::from(result.is_err());
    }
    failures
}

/// Checks all tiles, reading those that are not in DRAM from the file.
fn verify(tiles: &mut Tiles, changes: &[u64]) {
    for (tile, change) in changes.iter().enumerate() {
        let bytes = tiles.read(tile as u64).unwrap();
        assert!(bytes == stamped(tile as u64, *change), "tile {tile} does not hold change {change}");
    }
}

#[test]
fn tiles_equal_a_vector_after_random_operations() {
    let Some((_dir, place)) = scratch_dir() else { return };
    for (seed, count, slots) in [(1, 40, 3), (2, 40, 8), (3, 7, 7), (4, 2, 3), (5, 200, 16)] {
        let Some(mut tiles) = tiles(&place, count, slots) else { return };
        let mut changes = vec![0; count as usize];
        assert_eq!(operate(&mut tiles, &mut changes, seed, 3000), 0);
        assert!(tiles.slots() <= slots, "the budget is exceeded");
        tiles.flush().unwrap();
        verify(&mut tiles, &changes);
        if count > slots as u64 {
            let traffic = tiles.traffic();
            assert!(traffic.read > 0 && traffic.written > 0, "{traffic:?}");
        }
    }
}

#[test]
fn every_failed_transfer_is_reported_and_loses_nothing() {
    let Some((_dir, place)) = scratch_dir() else { return };
    // Number of transfers without a fault.
    let Some(mut whole) = tiles(&place, 12, 4) else { return };
    let mut changes = vec![0; 12];
    assert_eq!(operate(&mut whole, &mut changes, 9, 150), 0);
    whole.flush().unwrap();
    let transfers = whole.mover().requests();
    assert!(transfers > 100, "{transfers}");
    for fault in [Fault::Errno(libc::EIO), Fault::Errno(libc::ENOSPC), Fault::Short] {
        let mut reported = 0;
        for at in 0..transfers {
            let Some(mut tiles) = tiles(&place, 12, 4) else { return };
            tiles.mover().plan_fault(FaultPlan::of(at, fault));
            let mut changes = vec![0; 12];
            let mut failures = operate(&mut tiles, &mut changes, 9, 150);
            failures += u64::from(tiles.flush().is_err());
            // The retry has no fault.
            tiles.flush().unwrap();
            verify(&mut tiles, &changes);
            assert!(failures <= 1, "{fault:?} at {at}: one fault, one error");
            reported += failures;
        }
        // A failed prefetch of a tile that is never used may be silent: no data are lost.
        assert!(reported * 10 >= transfers * 8, "{fault:?}: {reported} of {transfers} were reported");
    }
}

#[test]
fn transfer_errors_name_operation_and_offset() {
    let Some((_dir, place)) = scratch_dir() else { return };
    let words = |fault| {
        let mut tiles = tiles(&place, 8, 4)?;
        tiles.mover().plan_fault(FaultPlan::of(0, fault));
        Some(tiles.read(3).unwrap_err().to_string())
    };
    let Some(io) = words(Fault::Errno(libc::EIO)) else { return };
    assert_eq!(io, "cannot read 16KiB at byte 49152 of the far file: Input/output error (os error 5)");
    let short = words(Fault::Short).unwrap();
    assert_eq!(short, "cannot read 16KiB at byte 49152 of the far file: only 8KiB were transferred");
}

#[test]
fn interrupted_transfers_are_retried() {
    let Some((_dir, place)) = scratch_dir() else { return };
    let Some(mut tiles) = tiles(&place, 8, 4) else { return };
    tiles.mover().plan_fault(FaultPlan::of(0, Fault::Errno(libc::EAGAIN)));
    assert!(tiles.read(3).unwrap() == stamped(3, 0));
}

#[test]
fn two_arrays_in_one_directory_are_independent() {
    let Some((_dir, place)) = scratch_dir() else { return };
    std::thread::scope(|scope| {
        for seed in [11, 12] {
            let place = &place;
            scope.spawn(move || {
                let Some(mut tiles) = tiles(place, 30, 5) else { return };
                let mut changes = vec![0; 30];
                assert_eq!(operate(&mut tiles, &mut changes, seed, 2000), 0);
                tiles.flush().unwrap();
                verify(&mut tiles, &changes);
            });
        }
    });
}

#[test]
fn budget_below_three_tiles_returns_an_error() {
    let Some((_dir, place)) = scratch_dir() else { return };
    let settings = TileSettings { tiles: 8, tile: Bytes(1 << 20), budget: Bytes(2 << 20), depth: 4 };
    let error = Tiles::new(&place, settings).err().unwrap();
    assert_eq!(error.to_string(), "2MiB of DRAM are too little: the minimum is 3MiB");
    assert_eq!(error.hint().as_deref(), Some("use 3MiB or more"));
}

#[test]
fn full_disk_is_an_error_at_creation() {
    let Some((dir, place)) = scratch_dir() else { return };
    let free = rustix::fs::statvfs(dir.path()).map(|stats| stats.f_blocks * stats.f_frsize).unwrap();
    for access in [Access::Mapped, Access::Direct] {
        let error = FarFile::new(&place, free as usize * 2, access).unwrap_err();
        let FarError::NoSpace { free: Some(_), .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains("exceed the free space"), "{error}");
    }
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn far_file_is_allocated_unnamed_and_private() {
    let Some((dir, place)) = scratch_dir() else { return };
    let file = FarFile::new(&place, 5 << 20, Access::Mapped).unwrap();
    let metadata = file.file().metadata().unwrap();
    assert!(metadata.blocks() * 512 >= 5 << 20, "{} blocks", metadata.blocks());
    assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o600, 0));
    assert_eq!(names(dir.path()), [""; 0]);
    // Fallbacks for file systems without these features.
    let other = super::file::made_and_unlinked(&files::open_dir(dir.path()).unwrap(), 0).unwrap();
    super::file::fill_with_zeros(&other, (3 << 20) + 4096).unwrap();
    let metadata = other.metadata().unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.nlink(), metadata.len()), (0o600, 0, (3 << 20) + 4096));
    assert!(metadata.blocks() * 512 >= 3 << 20 && names(dir.path()).is_empty());
}

fn names(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn view_equals_a_vector_and_is_backed_by_its_file() {
    let Some((_dir, place)) = scratch_dir() else { return };
    let words = (4 << 20) / 8;
    let mut view = View::new(FarFile::new(&place, words * 8, Access::Mapped).unwrap()).unwrap();
    let mut expected = vec![0_u64; words];
    let mut random = Random(21);
    for operation in 0..20_000 {
        let at = random.below(words);
        match random.below(100) {
            0 => view.sync(at * 8..words * 8).unwrap(),
            1 => view.advise(at * 8..words * 8, Advice::DontNeed).unwrap(),
            2 => view.advise(at * 8..words * 8, Advice::WillNeed).unwrap(),
            3 => view.advise(0..at * 8, Advice::Random).unwrap(),
            4 => view.advise(0..at * 8, Advice::Sequential).unwrap(),
            5 => view.advise(0..words * 8, Advice::Normal).unwrap(),
            6..50 => assert_eq!(view.as_slice::<u64>()[at], expected[at], "operation {operation}"),
            _ => {
                let value = random.next();
                view.as_mut_slice::<u64>()[at] = value;
                expected[at] = value;
            }
        }
    }
    assert!(view.as_slice::<u64>() == expected);
    let backing = view.backing().unwrap();
    assert_eq!((backing.bytes, backing.of_file), (Bytes(4 << 20), Bytes(4 << 20)));
    assert!(backing.resident.is_none_or(|bytes| bytes > Bytes(0)), "{backing:?}");
}

/// Directory in which the child of the next test keeps far files until it is killed.
const HOLD_IN: &str = "NEARFAR_TEST_HOLD_IN";

#[test]
fn killed_process_leaves_no_files() {
    if let Some(dir) = std::env::var_os(HOLD_IN) {
        return hold(&PathBuf::from(dir));
    }
    let Some((dir, _)) = scratch_dir() else { return };
    let name = "array::tests::killed_process_leaves_no_files";
    let used = || {
        let stats = rustix::fs::statvfs(dir.path()).unwrap();
        (stats.f_blocks - stats.f_bfree) * stats.f_frsize
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]).env(HOLD_IN, dir.path()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let before = used();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let held = lines.map_while(Result::ok).find(|line| line.contains("holding") || line.contains("skipped"));
    assert!(held.is_some(), "the child printed nothing");
    assert_eq!(names(dir.path()), [""; 0], "a far file has a name");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
    // Other tests and programs use this disk too, but less than this.
    assert!(used() < before + (256 << 20), "{} bytes were not freed", 512 << 20);
}

fn hold(dir: &Path) {
    let place = FarLocation::parse(dir.to_str().unwrap()).unwrap();
    let mut view = View::new(FarFile::new(&place, 512 << 20, Access::Mapped).unwrap()).unwrap();
    view.as_mut_slice::<u8>()[..1 << 20].fill(1);
    let mut tiles = tiles(&place, 8, 4);
    for change in 0_u64.. {
        if change == 10 {
            println!("holding");
        }
        match &mut tiles {
            Some(tiles) => stamp(tiles.write(change % 8).unwrap(), change % 8, change),
            None if change > 10 => std::thread::park(),
            None => {}
        }
    }
}
