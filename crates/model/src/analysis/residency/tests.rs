//! Tests of the assignment of pages to parts and of the sums.

use super::*;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

const MAPS: &str = "\
00400000-00404000 r-xp 00000000 fe:01 11                                 /usr/bin/server
00404000-00406000 rw-p 00004000 fe:01 11                                 /usr/bin/server
01000000-01010000 rw-p 00000000 00:00 0                                  [heap]
10000000-10800000 rw-p 00000000 00:00 0 
20000000-20004000 r--p 00000000 fe:01 12                                 /usr/lib/lib c.so (deleted)
20004000-20008000 r-xp 00004000 fe:01 12                                 /usr/lib/lib c.so (deleted)
30000000-30010000 r--s 00010000 fe:01 13                                 /data/model
40000000-40010000 rw-s 00000000 00:01 14                                 /memfd:ring (deleted)
50000000-50400000 rw-p 00000000 00:0f 15                                 /anon_hugepage (deleted)
60000000-60004000 rw-s 00000000 00:19 16                                 /run/shared
70000000-70004000 r--p 00000000 00:19 17                                 /run/private
7ffd0000-7ffd4000 rw-p 00000000 00:00 0                                  [stack]
7fff0000-7fff1000 r--p 00000000 00:00 0                                  [vvar_vclock]
7fff2000-7fff3000 r-xp 00000000 00:00 0                                  [vdso]
";

fn mappings() -> Vec<Mapping> {
    MAPS.lines().map(|line| parse_mapping(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

fn system(mapping: &Mapping) -> FileSystem {
    if mapping.path.starts_with("/run") { FileSystem::Memory } else { FileSystem::Disk }
}

fn pages_of(mappings: &[Mapping]) -> ProcessPages {
    ProcessPages::new("/usr/bin/server", mappings, SamplingInterval::EVERY_PAGE, PAGE, HUGE)
}

fn run(range: std::ops::Range<u64>, is_file: bool, is_huge: bool) -> PageRun {
    PageRun { range, is_file, is_huge }
}

/// Answers all planned queries with the node that `node` returns for the address.
fn answer(pages: &mut ProcessPages, node: impl Fn(u64) -> u32) {
    let answers: Vec<PageStatus> =
        pages.addresses().into_iter().map(|address| PageStatus::On(NodeId(node(address)))).collect();
    pages.record(&answers);
}

fn process(pid: u32, pages: ProcessPages, threads: &[(u32, u32, Option<u32>)]) -> InspectedProcess {
    let place =
        |&(tid, cpu, node): &(u32, u32, Option<u32>)| ThreadPlace { tid, cpu: CpuId(cpu), node: node.map(NodeId) };
    let threads = threads.iter().map(place).collect();
    InspectedProcess { pid, name: "server".into(), pages, threads, swapped: Bytes(0) }
}

fn residency(processes: &[InspectedProcess]) -> Residency {
    Residency::of(processes, SamplingInterval::EVERY_PAGE, Bytes(PAGE), Vec::new())
}

#[test]
fn lines_of_maps_are_parsed() {
    let mappings = mappings();
    let expected = Mapping {
        start: 0x2000_4000,
        end: 0x2000_8000,
        is_executable: true,
        is_shared: false,
        offset: 0x4000,
        device: "fe:01".into(),
        inode: 12,
        path: "/usr/lib/lib c.so (deleted)".into(),
    };
    assert_eq!(mappings[5], expected);
    assert_eq!((mappings[3].path.as_str(), mappings[3].inode), ("", 0));
    assert!(mappings[6].is_shared && !mappings[6].is_executable);
    assert_eq!(parse_mapping("7f00-7f01 rw-p 00000000 00:00 0").unwrap().path, "", "without a space at its end");
    for line in ["", "x", "7f00-7f01 rw-p", "7f00-7f01 rw-p 0 00:00 x", "7f00 rw-p 0 00:00 0", "7f-7g rw-p 0 00:00 0"] {
        assert_eq!(parse_mapping(line), None, "{line}");
    }
}

#[test]
fn kind_depends_on_the_mapping_and_on_the_page() {
    use MemoryKind::{Anonymous, Heap, HugePages, Library, MappedFile, Program, SharedMemory, Stack};
    let mappings = mappings();
    let expected = [
        (Program, "/usr/bin/server", Anonymous),
        (Program, "/usr/bin/server", Anonymous),
        (Heap, "", Heap),
        (Anonymous, "", Anonymous),
        (Library, "/usr/lib/lib c.so (deleted)", Anonymous),
        (Library, "/usr/lib/lib c.so (deleted)", Anonymous),
        (MappedFile, "/data/model", Anonymous),
        (SharedMemory, "/memfd:ring (deleted)", SharedMemory),
        (HugePages, "hugetlb", HugePages),
        (SharedMemory, "/run/shared", SharedMemory),
        (MappedFile, "/run/private", Anonymous),
        (Stack, "", Stack),
    ];
    let memory: Vec<&Mapping> = mappings.iter().filter(|mapping| mapping.is_memory()).collect();
    assert_eq!(memory.len(), expected.len(), "code of the kernel does not count");
    let libraries = maps::libraries(&mappings);
    for (mapping, (kind, name, kind_of_copies)) in memory.into_iter().zip(expected) {
        let part = |is_file| mapping.part("/usr/bin/server", &libraries, system(mapping), is_file);
        assert_eq!(part(true), PartKey { kind, name: name.into() }, "{mapping:?}");
        assert_eq!(part(false).kind, kind_of_copies, "{mapping:?}");
    }
}

#[test]
fn pages_are_summed_by_part_and_node() {
    let mappings = mappings();
    let (mut pages, mut shared) = (pages_of(&mappings), SharedFiles::default());
    let mut add = |at: usize, run: PageRun| pages.add(&mappings[at], system(&mappings[at]), &run, &mut shared);
    add(0, run(0x0040_0000..0x0040_3000, true, false));
    add(1, run(0x0040_4000..0x0040_5000, true, false));
    add(1, run(0x0040_5000..0x0040_6000, false, false));
    add(3, run(0x1000_0000..0x1000_2000, false, false));
    add(3, run(0x1020_0000..0x1060_0000, false, true));
    add(8, run(0x5000_0000..0x5040_0000, true, true));
    assert_eq!(pages.planned(), 3 + 1 + 1 + 2 + 2 + 2, "one query per page and per huge page");
    answer(&mut pages, |address| u32::from(address >= 0x1040_0000));
    let found = residency(&[process(1, pages, &[])]);
    let part = |kind, name: &str| {
        let part = found.parts.iter().find(|part| part.kind == kind && part.name == name).expect("the part exists");
        let on = |node| part.memory.by_node.get(&NodeId(node)).map_or(0, |bytes| bytes.0);
        (on(0), on(1))
    };
    assert_eq!(part(MemoryKind::Program, "/usr/bin/server"), (4 * PAGE, 0));
    assert_eq!(part(MemoryKind::Anonymous, ""), (3 * PAGE, 0));
    assert_eq!(part(MemoryKind::HugePages, "anonymous"), (HUGE, HUGE));
    assert_eq!(part(MemoryKind::HugePages, "hugetlb"), (0, 2 * HUGE));
    assert_eq!(found.total.bytes.0, 7 * PAGE + 4 * HUGE);
    assert_eq!(found.processes[0].memory, found.total);
}

/// A library of two processes, and a file that one process maps twice.
#[test]
fn pages_of_a_file_are_counted_once() {
    let mappings = mappings();
    let mut shared = SharedFiles::default();
    let processes: Vec<InspectedProcess> = [0, 1]
        .into_iter()
        .map(|node| {
            let mut pages = pages_of(&mappings);
            let mut add = |at: usize, run: PageRun| pages.add(&mappings[at], system(&mappings[at]), &run, &mut shared);
            add(4, run(0x2000_0000..0x2000_2000, true, false));
            add(2, run(0x0100_0000..0x0100_1000, false, false));
            let again = Mapping { start: 0x3100_0000, end: 0x3101_0000, ..mappings[6].clone() };
            add(6, run(0x3000_0000..0x3000_4000, true, false));
            pages.add(&again, FileSystem::Disk, &run(0x3100_2000..0x3100_6000, true, false), &mut shared);
            answer(&mut pages, |_| node);
            process(node, pages, &[])
        })
        .collect();
    let found = residency(&processes);
    let bytes: Vec<(MemoryKind, u64)> =
        found.parts.iter().map(|part| (part.kind, part.memory.bytes.0 / PAGE)).collect();
    assert_eq!(bytes, [(MemoryKind::Heap, 2), (MemoryKind::Library, 2), (MemoryKind::MappedFile, 6)]);
    assert_eq!(found.total.bytes.0, 10 * PAGE);
    assert_eq!(found.processes[1].memory.bytes.0, (2 + 1 + 8) * PAGE, "a process has all memory that it maps");
}

#[test]
fn remote_share_is_the_mean_over_threads() {
    let mappings = mappings();
    let mut pages = pages_of(&mappings);
    let mut shared = SharedFiles::default();
    pages.add(&mappings[3], FileSystem::Disk, &run(0x1000_0000..0x1000_a000, false, false), &mut shared);
    answer(&mut pages, |address| u32::from(address < 0x1000_2000));
    // Thread 7 moves to another node between the observations.
    let threads = [(5, 0, Some(0)), (6, 4, Some(1)), (7, 0, Some(0)), (8, 9, None), (7, 5, Some(1))];
    let found = residency(&[process(5, pages, &threads)]);
    let groups: Vec<_> = found
        .threads
        .iter()
        .map(|group| (group.node, group.threads, group.cpus.to_string(), group.remote_percent))
        .collect();
    let expected = [
        (None, 1, "9".into(), None),
        (Some(NodeId(0)), 1, "0".into(), Some(20.0)),
        (Some(NodeId(1)), 2, "0,4-5".into(), Some(80.0)),
    ];
    assert_eq!(groups, expected);
    assert_eq!(found.remote_percent, Some(60.0));
    assert_eq!(NodeBytes::default().remote_percent(NodeId(0)), None, "without memory");
}

#[test]
fn moved_memory_is_the_share_on_other_nodes() {
    let on = |bytes: [u64; 2]| NodeBytes {
        by_node: (0..).map(NodeId).zip(bytes.map(Bytes)).collect(),
        ..NodeBytes::default()
    };
    assert_eq!(on([50, 50]).moved_percent(&on([100, 0])), Some(50.0));
    assert_eq!(on([300, 100]).moved_percent(&on([75, 25])), Some(0.0), "it has only grown");
    assert_eq!(on([0, 10]).moved_percent(&on([10, 0])), Some(100.0));
    assert_eq!(on([0, 0]).moved_percent(&on([10, 0])), None);
}
