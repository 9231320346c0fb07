//! Tests of workload `bfs`: samples, rejected parameters, and failing disks.

use std::fs::{self, OpenOptions};
use std::path::Path;

use farmem::array::FarLocation;

use super::*;
use crate::kernels::{can_query_pages, check_smoke, job_for_tests, set};

fn sample(run_or_skip: &KernelOutput, series: &str) -> f64 {
    run_or_skip.samples.iter().find(|sample| sample.series == series).unwrap().value
}

#[test]
fn samples_cover_all_searches() {
    for (threads, isa) in [(1, "auto"), (2, "plain"), (3, "auto")] {
        let mut job = TrialContext { threads, ..job_for_tests("bfs") };
        set(&mut job, "isa", isa);
        set(&mut job, "scale", "10");
        let run_or_skip = run(&job).unwrap();
        check_smoke("bfs", &run_or_skip);
        assert_eq!(run_or_skip.pages.values().sum::<u64>() > 0, can_query_pages());
        assert_eq!(run_or_skip.samples.iter().filter(|sample| sample.series == "TEPS").count(), 64);
        // Scale 10 has 144 self-loops in 16384 edges, nearly all in the large component.
        let loops = sample(&run_or_skip, "nedge_with_loops") - sample(&run_or_skip, "nedge");
        assert!((1.0..=144.0).contains(&loops), "{loops}");
        assert!(sample(&run_or_skip, "min_TEPS") <= sample(&run_or_skip, "harmonic_mean_TEPS"));
        assert!(sample(&run_or_skip, "harmonic_mean_TEPS") <= sample(&run_or_skip, "max_TEPS"));
    }
}

#[test]
fn small_graphs_have_fewer_roots() {
    let mut job = job_for_tests("bfs");
    set(&mut job, "scale", "4");
    let run_or_skip = run(&job).unwrap();
    let roots = run_or_skip.samples.iter().filter(|sample| sample.series == "TEPS").count();
    assert!((8..=16).contains(&roots), "{roots}");
}

#[test]
fn graph_that_does_not_fit_is_unavailable() {
    let mut job = job_for_tests("bfs");
    set(&mut job, "scale", "31");
    let failure = run(&job).unwrap_err();
    assert!(matches!(&failure, Failure::Unavailable(reason) if reason.contains("scale 31 needs")), "{failure}");
}

#[test]
fn expanded_search_is_the_same_without_an_edge_list() {
    let in_core = TrialContext { threads: 2, ..job_for_tests("bfs") };
    let mut expanded = in_core.clone();
    set(&mut expanded, "mode", "expanded");
    let keeps = |job: &TrialContext| {
        let options = Options::read(&job.parameters).unwrap();
        let lists = |team: &TrialTeam<'_>| Ok(construct(&options, team, &options.placement(job))?.edges);
        matches!(trial_team::lead(job, lists).unwrap().0, EdgeList::Here(_))
    };
    assert_eq!((keeps(&in_core), keeps(&expanded)), (true, false));
    let (in_core, expanded) = (run(&in_core).unwrap(), run(&expanded).unwrap());
    check_smoke("bfs", &expanded);
    for same in ["levels", "nedge", "nedge_with_loops", "alpha", "columns", "dram_used"] {
        assert!(series(&in_core, same).count() > 0 && series(&in_core, same).eq(series(&expanded, same)), "{same}");
    }
}

#[test]
fn tuning_precedes_and_applies_to_all_searches() {
    for (scale, roots) in [("10", 64), ("4", 15)] {
        let mut job = job_for_tests("bfs");
        set(&mut job, "tune", "true");
        set(&mut job, "scale", scale);
        let run_or_skip = run(&job).unwrap();
        check_smoke("bfs", &run_or_skip);
        assert!(series(&run_or_skip, "TEPS").count() <= roots);
        let tried = |name: &str, value: f64| sample(&run_or_skip, &format!("tune_{name}_{value}_time"));
        let (alpha, beta) = (sample(&run_or_skip, "alpha"), sample(&run_or_skip, "beta"));
        assert!([5.0, 320.0].iter().all(|other| tried("alpha", alpha) <= tried("alpha", *other)), "{alpha}");
        assert!([4.0, 8000.0].iter().all(|other| tried("beta", beta) <= tried("beta", *other)), "{beta}");
    }
}

/// A temporary directory on a disk.
fn directory() -> Option<tempfile::TempDir> {
    match FarLocation::found() {
        Ok(place) => Some(tempfile::tempdir_in(place.directory()).expect("the directory for far files is writable")),
        Err(error) => {
            println!("skipped: bfs: {error}");
            None
        }
    }
}

fn far_job(directory: &Path, pairs: &[(&str, &str)]) -> TrialContext {
    let mut job = TrialContext { threads: 2, ..job_for_tests("bfs") };
    set(&mut job, "mode", "semi-external");
    set(&mut job, "directory", directory.to_str().expect("the path is valid UTF-8"));
    pairs.iter().for_each(|(name, value)| set(&mut job, name, value));
    job
}

/// Runs a trial. Returns `None` and prints the reason if this machine does not support it.
fn run_or_skip(job: &TrialContext) -> Option<KernelOutput> {
    match run(job) {
        Ok(run_or_skip) => Some(run_or_skip),
        Err(Failure::Unavailable(reason)) if reason.contains("io_uring") => {
            println!("skipped: bfs: {reason}");
            None
        }
        Err(failure) => panic!("{failure}"),
    }
}

fn series<'m>(run_or_skip: &'m KernelOutput, series: &'m str) -> impl Iterator<Item = f64> + 'm {
    run_or_skip.samples.iter().filter(move |sample| sample.series == series).map(|sample| sample.value)
}

#[test]
fn semi_external_searches_match_in_core_searches() {
    let Some(directory) = directory() else { return };
    let mut in_core = job_for_tests("bfs");
    set(&mut in_core, "scale", "12");
    let in_core = run(&in_core).unwrap();
    assert!(series(&in_core, "far_reads").all(|reads| reads == 0.0));
    for (dram, isa, k) in [("50%", "auto", "0"), ("25%", "plain", "0"), ("12.5%", "auto", "1"), ("40KiB", "auto", "0")]
    {
        let pairs = [("scale", "12"), ("dram", dram), ("isa", isa), ("k", k)];
        let Some(far) = run_or_skip(&far_job(directory.path(), &pairs)) else { return };
        check_smoke("bfs", &far);
        for same in ["levels", "nedge", "nedge_with_loops"] {
            assert!(series(&in_core, same).eq(series(&far, same)), "{dram}: {same}");
        }
        let (used, requested) = (sample(&far, "dram_used"), sample(&far, "dram_asked"));
        // Rounding up to whole pages adds to what vector reads need.
        assert!(used <= requested + 4096.0 && used > 0.5 * requested, "{dram}: {used} of {requested}");
        assert!(used < sample(&in_core, "dram_used") && sample(&far, "far_mean_reads") > 0.0, "{dram}");
        let (bytes, pages) = (sample(&far, "far_mean_bytes"), sample(&far, "far_mean_pages"));
        assert!(
            pages >= sample(&far, "far_mean_reads") && bytes as u64 == (4096.0 * pages) as u64,
            "{dram}: {bytes} in {pages}"
        );
        assert!(series(&far, "far_lists").sum::<f64>() >= series(&far, "far_reads").sum::<f64>());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "the far file is unnamed");
    }
}

#[test]
fn too_little_dram_and_memory_directories_are_rejected() {
    let Some(directory) = directory() else { return };
    for (pairs, expected) in [
        (("dram", "1KiB"), "the head columns (k = 1) and the index need"),
        (("dram", "1%"), "hint: raise the limit"),
        (("directory", "/nowhere"), "No such file"),
    ] {
        let failure = run(&far_job(directory.path(), &[pairs])).unwrap_err();
        match &failure {
            // Checked before anything is created.
            Failure::Unavailable(reason) if reason.contains("io_uring") => return println!("skipped: bfs: {reason}"),
            _ => assert!(matches!(&failure, Failure::Unavailable(reason) if reason.contains(expected)), "{failure}"),
        }
    }
    let rejected = |dram: &str| check(&far_job(directory.path(), &[("dram", dram)]).parameters);
    assert_eq!(rejected("50%"), Ok(()));
    assert!(rejected("half").unwrap_err().contains("such as 12.5%"));
}

/// Truncates the far file. It has no name, so it is found among the open files of this process.
fn truncate_file_in(directory: &Path) {
    let is_in = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(directory));
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let link = open.into_iter().find(|link| is_in(link)).expect("the far file is open");
    OpenOptions::new().write(true).open(link).unwrap().set_len(100).unwrap();
}

#[test]
fn truncated_far_file_fails_the_trial() {
    let Some(directory) = directory() else { return };
    // The canonical path of the directory, as the kernel reports it.
    let path = directory.path().canonicalize().unwrap();
    let job = far_job(&path, &[("scale", "12"), ("dram", "15%"), ("roots", "4")]);
    let options = Options::read(&job.parameters).unwrap();
    let placement = options.placement(&job);
    let both = trial_team::lead(&job, |team| {
        let Graph { layout, far, edges, .. } = construct(&options, team, &placement)?;
        let validator = edges.validator(&options.spec);
        let mut search = Search::new(&layout, options.isa, Nodes::one(team.threads()), &placement)?;
        prepare(team, &search, far.as_ref(), &placement)?;
        let before = searches(&options, &options.tuning, team, &validator, &mut search)?.len();
        truncate_file_in(&path);
        Ok((before, searches(&options, &options.tuning, team, &validator, &mut search).map(drop)))
    });
    let (before, after) = match both {
        Ok((both, _)) => both,
        Err(Failure::Unavailable(reason)) => return println!("skipped: bfs: {reason}"),
        Err(failure) => panic!("{failure}"),
    };
    assert_eq!(before, 4);
    let Err(Failure::Failed(reason)) = after else { panic!("{after:?}") };
    assert!(reason.contains("the search from root") && reason.contains("cannot read"), "{reason}");
}
