//! Trials of `bfs`: their samples, what is refused, and disks that fail.

use std::fs::{self, OpenOptions};
use std::path::Path;

use farmem::array::FarLocation;

use super::*;
use crate::kernels::{check_smoke, job_for_tests, pages_can_be_asked, set};

fn sample(measured: &KernelOutput, series: &str) -> f64 {
    measured.samples.iter().find(|sample| sample.series == series).unwrap().value
}

#[test]
fn searches_are_measured_and_counted() {
    for (threads, isa) in [(1, "auto"), (2, "plain"), (3, "auto")] {
        let mut job = TrialContext { threads, ..job_for_tests("bfs") };
        set(&mut job, "isa", isa);
        let measured = run(&job).unwrap();
        check_smoke("bfs", &measured);
        assert_eq!(measured.pages.values().sum::<u64>() > 0, pages_can_be_asked());
        assert_eq!(measured.samples.iter().filter(|sample| sample.series == "TEPS").count(), 64);
        // Scale 10 has 144 self-loops in 16384 edges, all but a few in the large component.
        let loops = sample(&measured, "nedge_with_loops") - sample(&measured, "nedge");
        assert!((1.0..=144.0).contains(&loops), "{loops}");
        assert!(sample(&measured, "min_TEPS") <= sample(&measured, "harmonic_mean_TEPS"));
        assert!(sample(&measured, "harmonic_mean_TEPS") <= sample(&measured, "max_TEPS"));
    }
}

#[test]
fn small_graphs_have_fewer_roots() {
    let mut job = job_for_tests("bfs");
    set(&mut job, "scale", "4");
    let measured = run(&job).unwrap();
    let roots = measured.samples.iter().filter(|sample| sample.series == "TEPS").count();
    assert!((8..=16).contains(&roots), "{roots}");
}

#[test]
fn what_does_not_fit_is_unavailable() {
    let mut job = job_for_tests("bfs");
    set(&mut job, "scale", "31");
    let failure = run(&job).unwrap_err();
    assert!(matches!(&failure, Failure::Unavailable(why) if why.contains("scale 31 needs")), "{failure}");
}

#[test]
fn expanded_is_the_same_search_and_keeps_no_list_of_edges() {
    let in_core = TrialContext { threads: 2, ..job_for_tests("bfs") };
    let mut expanded = in_core.clone();
    set(&mut expanded, "mode", "expanded");
    let keeps = |job: &TrialContext| {
        let options = Options::read(&job.parameters).unwrap();
        let lists = |crew: &TrialTeam<'_>| Ok(construct(&options, crew, &options.room(job))?.edges);
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
fn tuning_is_found_before_and_holds_for_all_searches() {
    for (scale, roots) in [("10", 64), ("4", 15)] {
        let mut job = job_for_tests("bfs");
        set(&mut job, "tune", "true");
        set(&mut job, "scale", scale);
        let measured = run(&job).unwrap();
        check_smoke("bfs", &measured);
        assert!(series(&measured, "TEPS").count() <= roots);
        let tried = |name: &str, value: f64| sample(&measured, &format!("tune_{name}_{value}_time"));
        let (alpha, beta) = (sample(&measured, "alpha"), sample(&measured, "beta"));
        assert!([5.0, 320.0].iter().all(|other| tried("alpha", alpha) <= tried("alpha", *other)), "{alpha}");
        assert!([4.0, 8000.0].iter().all(|other| tried("beta", beta) <= tried("beta", *other)), "{beta}");
    }
}

/// A folder on a disk, gone with its value.
fn folder() -> Option<tempfile::TempDir> {
    match FarLocation::found() {
        Ok(place) => Some(tempfile::tempdir_in(place.folder()).expect("a folder for far files can be written to")),
        Err(error) => {
            println!("skipped: bfs: {error}");
            None
        }
    }
}

fn far_job(folder: &Path, given: &[(&str, &str)]) -> TrialContext {
    let mut job = TrialContext { threads: 2, ..job_for_tests("bfs") };
    set(&mut job, "mode", "semi-external");
    set(&mut job, "folder", folder.to_str().expect("its name is text"));
    given.iter().for_each(|(name, value)| set(&mut job, name, value));
    job
}

/// What is measured, or a printed reason why it cannot be here.
fn measured(job: &TrialContext) -> Option<KernelOutput> {
    match run(job) {
        Ok(measured) => Some(measured),
        Err(Failure::Unavailable(why)) if why.contains("io_uring") => {
            println!("skipped: bfs: {why}");
            None
        }
        Err(failure) => panic!("{failure}"),
    }
}

fn series<'m>(measured: &'m KernelOutput, series: &'m str) -> impl Iterator<Item = f64> + 'm {
    measured.samples.iter().filter(move |sample| sample.series == series).map(|sample| sample.value)
}

#[test]
fn searches_beyond_dram_reach_what_those_in_it_do() {
    let Some(folder) = folder() else { return };
    let mut in_core = job_for_tests("bfs");
    set(&mut in_core, "scale", "12");
    let in_core = run(&in_core).unwrap();
    assert!(series(&in_core, "far_reads").all(|reads| reads == 0.0));
    for (dram, isa, k) in [("50%", "auto", "0"), ("25%", "plain", "0"), ("12.5%", "auto", "1"), ("40KiB", "auto", "0")]
    {
        let given = [("scale", "12"), ("dram", dram), ("isa", isa), ("k", k)];
        let Some(far) = measured(&far_job(folder.path(), &given)) else { return };
        check_smoke("bfs", &far);
        for same in ["levels", "nedge", "nedge_with_loops"] {
            assert!(series(&in_core, same).eq(series(&far, same)), "{dram}: {same}");
        }
        let (used, asked) = (sample(&far, "dram_used"), sample(&far, "dram_asked"));
        // Whole pages behind what is read in vectors come on top.
        assert!(used <= asked + 4096.0 && used > 0.5 * asked, "{dram}: {used} of {asked}");
        assert!(used < sample(&in_core, "dram_used") && sample(&far, "far_mean_reads") > 0.0, "{dram}");
        let (bytes, pages) = (sample(&far, "far_mean_bytes"), sample(&far, "far_mean_pages"));
        assert!(
            pages >= sample(&far, "far_mean_reads") && bytes as u64 == (4096.0 * pages) as u64,
            "{dram}: {bytes} in {pages}"
        );
        assert!(series(&far, "far_lists").sum::<f64>() >= series(&far, "far_reads").sum::<f64>());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }
}

#[test]
fn too_little_dram_and_folders_in_memory_are_refused() {
    let Some(folder) = folder() else { return };
    for (given, expected) in [
        (("dram", "1KiB"), "HEAD with k = 1 and the index take"),
        (("dram", "1%"), "hint: give it more"),
        (("folder", "/nowhere"), "No such file"),
    ] {
        let failure = run(&far_job(folder.path(), &[given])).unwrap_err();
        match &failure {
            // It is tried before anything is made.
            Failure::Unavailable(why) if why.contains("io_uring") => return println!("skipped: bfs: {why}"),
            _ => assert!(matches!(&failure, Failure::Unavailable(why) if why.contains(expected)), "{failure}"),
        }
    }
    let refused = |dram: &str| check(&far_job(folder.path(), &[("dram", dram)]).parameters);
    assert_eq!(refused("50%"), Ok(()));
    assert!(refused("half").unwrap_err().contains("such as 12.5%"));
}

/// The far file has no name; it is found among what this process has open.
fn cut_file_in(folder: &Path) {
    let is_in = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(folder));
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let link = open.into_iter().find(|link| is_in(link)).expect("the far file is open");
    OpenOptions::new().write(true).open(link).unwrap().set_len(100).unwrap();
}

#[test]
fn a_file_that_is_cut_between_two_searches_fails_the_trial() {
    let Some(folder) = folder() else { return };
    // The folder's real name, as the kernel shows it.
    let path = folder.path().canonicalize().unwrap();
    let job = far_job(&path, &[("scale", "12"), ("dram", "15%"), ("roots", "4")]);
    let options = Options::read(&job.parameters).unwrap();
    let room = options.room(&job);
    let both = trial_team::lead(&job, |crew| {
        let Graph { layout, far, edges, .. } = construct(&options, crew, &room)?;
        let validator = edges.validator(&options.spec);
        let mut search = Search::new(&layout, options.isa, Nodes::one(crew.threads()), &room)?;
        prepare(crew, &search, far.as_ref(), &room)?;
        let before = searches(&options, &options.tuning, crew, &validator, &mut search)?.len();
        cut_file_in(&path);
        Ok((before, searches(&options, &options.tuning, crew, &validator, &mut search).map(drop)))
    });
    let (before, after) = match both {
        Ok((both, _)) => both,
        Err(Failure::Unavailable(why)) => return println!("skipped: bfs: {why}"),
        Err(failure) => panic!("{failure}"),
    };
    assert_eq!(before, 4);
    let Err(Failure::Failed(why)) = after else { panic!("{after:?}") };
    assert!(why.contains("the search from root") && why.contains("cannot read"), "{why}");
}
