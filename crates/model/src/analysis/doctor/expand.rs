//! Requirements of `nearfar expand`: probes, effects of their absence and fixes, shared by `nearfar doctor` and the
//! error messages of `expand`. Must not depend on how the probes are read.

use super::checks::CheckResult;
use super::{Problem, ProblemGroup};

/// Results of the probes; errors are those of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandProbes {
    pub root: bool,
    /// Missing capabilities for swap and cgroups, such as `CAP_SYS_ADMIN`.
    pub lacking: Vec<&'static str>,
    /// Whether a memory cgroup can be created.
    pub group: Result<(), String>,
    /// Whether a loop device is available.
    pub loops: Result<(), String>,
    /// Whether swap can be turned on and off.
    pub swap: Result<(), String>,
    /// Whether page faults can be recorded (`perf_event_open`).
    pub faults: Result<(), String>,
    /// Whether the kernel accepts advice on the memory of another process (`process_madvise`).
    pub advice: Result<(), String>,
    /// Whether the kernel reports which pages are far (`PAGEMAP_SCAN`).
    pub scan: bool,
    /// Whether the kernel supports folios of 64 KiB.
    pub folios: bool,
    /// Whether evicted pages can be kept compressed in DRAM that counts towards the limit.
    pub compressed: Result<(), String>,
    /// Whether all DRAM of a limited program counts towards the limit.
    pub counted: Result<(), String>,
}

/// Effect of a missing requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Impact {
    /// DRAM budgets are unavailable.
    Everything,
    Steering,
    Compression,
    Speed,
}

struct Requirement {
    key: &'static str,
    run: fn(&ExpandProbes) -> CheckResult,
    loss: Impact,
    effect: &'static str,
    fix: &'static str,
    command: Option<&'static str>,
}

const NOTHING_RUNS: &str = "expand, size and placements with a DRAM budget do not run";
const NOT_STEERED: &str = "the steered engine does not run; --engine kernel does";

/// In descending order of priority.
const NEEDS: [Requirement; 10] = [
    Requirement {
        key: "expand-root",
        run: |probes| Some(root(probes)),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "use sudo nearfar expand ..., or add the capabilities CAP_SYS_ADMIN (swap), CAP_DAC_OVERRIDE (cgroups, settings) and \
              CAP_SYS_NICE (advice)",
        command: None,
    },
    Requirement {
        key: "expand-cgroup",
        run: |probes| Some(probes.group.as_ref().err().cloned()),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "use a kernel with the memory controller (not cgroup_disable=memory) and a writable /sys/fs/cgroup; a \
              container inherits both from its host",
        command: None,
    },
    Requirement {
        key: "expand-loop",
        run: |probes| permitted(probes, &probes.loops, "cannot create a loop device for the far-memory file (loop)"),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "load the loop driver; a container inherits it from its host",
        command: Some("sudo modprobe loop"),
    },
    Requirement {
        key: "expand-swap",
        run: |probes| permitted(probes, &probes.swap, "swap cannot be turned on (swapon)"),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "use a kernel with swap; a container must be privileged",
        command: None,
    },
    Requirement {
        key: "expand-zswap",
        run: |probes| Some(probes.counted.as_ref().err().cloned()),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "turn zswap off, or boot with cgroup version 2 (systemd.unified_cgroup_hierarchy=1)",
        command: Some("echo N | sudo tee /sys/module/zswap/parameters/enabled"),
    },
    Requirement {
        key: "expand-page-faults",
        run: |probes| permitted(probes, &probes.faults, "cannot record page faults (perf_event_open)"),
        loss: Impact::Steering,
        effect: NOT_STEERED,
        fix: "allow perf events (a container's security policy may forbid them), or use --engine kernel",
        command: Some("sudo sysctl kernel.perf_event_paranoid=1"),
    },
    Requirement {
        key: "expand-advice",
        run: |probes| permitted(probes, &probes.advice, "cannot advise on another process's memory (process_madvise)"),
        loss: Impact::Steering,
        effect: NOT_STEERED,
        fix: "use Linux 5.10 or newer with CAP_SYS_NICE, or --engine kernel",
        command: None,
    },
    Requirement {
        key: "expand-compressed",
        run: |probes| permitted(probes, &probes.compressed, "evicted pages cannot be kept compressed"),
        loss: Impact::Compression,
        effect: "expand --compressed and placements with compressed do not run",
        fix: "load the zram driver, or use Linux 5.19 or newer with zswap and cgroup version 2 \
              (systemd.unified_cgroup_hierarchy=1)",
        command: Some("sudo modprobe zram"),
    },
    Requirement {
        key: "expand-scan",
        run: |probes| {
            Some((!probes.scan).then(|| "the kernel does not report which pages are far (PAGEMAP_SCAN)".into()))
        },
        loss: Impact::Speed,
        effect: "the paging controller advises on whole ranges, near or far, which uses more CPU time",
        fix: "use Linux 6.7 or newer",
        command: None,
    },
    Requirement {
        key: "expand-folios",
        run: |probes| Some((!probes.folios).then(|| "the kernel does not support folios of 64 KiB".into())),
        loss: Impact::Speed,
        effect: "memory is swapped out in single pages, which takes the kernel more time per byte",
        fix: "use Linux 6.8 or newer with transparent huge pages",
        command: None,
    },
];

fn root(probes: &ExpandProbes) -> Option<String> {
    if probes.lacking.is_empty() {
        return None;
    }
    let lacking = probes.lacking.join(", ");
    Some(if probes.root {
        format!("root lacks {lacking}, as in a container: a DRAM limit needs a cgroup and swap")
    } else {
        format!("a DRAM limit needs root, to create a cgroup and swap (missing: {lacking})")
    })
}

/// Without the capabilities, the kernel's error is about those rather than about the probed feature.
fn permitted(probes: &ExpandProbes, sign: &Result<(), String>, what: &str) -> CheckResult {
    match sign {
        Ok(()) => Some(None),
        Err(_) if !probes.lacking.is_empty() => None,
        Err(why) => Some(Some(format!("{what}: {why}"))),
    }
}

/// Runs all probes. `None` means that the requirement is met.
pub(super) fn run(probes: &ExpandProbes) -> Vec<(&'static str, Option<Problem>)> {
    let seen = NEEDS.iter().filter_map(|need| Some((need, (need.run)(probes)?)));
    seen.map(|(need, found)| (need.key, found.map(|found| problem(need, found)))).collect()
}

fn problem(need: &Requirement, found: String) -> Problem {
    let Requirement { key, effect, fix, command, .. } = need;
    Problem { key, group: ProblemGroup::ExpandRequirement, found, effect, fix, command: *command }
}

/// Returns the first problem that prevents DRAM budgets, with or without the paging controller and compression.
pub fn refusal(probes: &ExpandProbes, steered: bool, compressed: bool) -> Option<Problem> {
    let stops = |loss: Impact| match loss {
        Impact::Everything => true,
        Impact::Steering => steered,
        Impact::Compression => compressed,
        Impact::Speed => false,
    };
    let mut found = NEEDS.iter().filter(|need| stops(need.loss));
    found.find_map(|need| Some(problem(need, (need.run)(probes)??)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn all_there() -> ExpandProbes {
        ExpandProbes {
            root: true,
            lacking: Vec::new(),
            group: Ok(()),
            loops: Ok(()),
            swap: Ok(()),
            faults: Ok(()),
            advice: Ok(()),
            scan: true,
            folios: true,
            compressed: Ok(()),
            counted: Ok(()),
        }
    }

    type ProbeEdit<'a> = &'a dyn Fn(&mut ExpandProbes);

    #[test]
    fn each_missing_requirement_is_one_problem() {
        let why = || Err("Operation not permitted".to_string());
        // Whether it stops plain swap, and whether steering.
        let cases: [(ProbeEdit, &str, &str, bool, bool); 12] = [
            (&|probes| probes.compressed = why(), "expand-compressed", "compressed: Operation", false, false),
            (&|probes| probes.counted = why(), "expand-zswap", "not permitted", true, true),
            (&|probes| probes.lacking = vec!["CAP_SYS_ADMIN"], "expand-root", "root lacks CAP_SYS_ADMIN", true, true),
            (
                &|probes| (probes.root, probes.lacking) = (false, vec!["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"]),
                "expand-root",
                "needs root",
                true,
                true,
            ),
            (&|probes| probes.group = why(), "expand-cgroup", "not permitted", true, true),
            (&|probes| probes.loops = why(), "expand-loop", "(loop): Operation", true, true),
            (&|probes| probes.swap = why(), "expand-swap", "(swapon): Operation", true, true),
            (&|probes| probes.faults = why(), "expand-page-faults", "(perf_event_open): Operation", false, true),
            (&|probes| probes.advice = why(), "expand-advice", "(process_madvise): Operation", false, true),
            (&|probes| probes.scan = false, "expand-scan", "PAGEMAP_SCAN", false, false),
            (&|probes| probes.folios = false, "expand-folios", "64 KiB", false, false),
            // Without capabilities, only those are reported.
            (
                &|probes| (probes.lacking, probes.loops, probes.swap) = (vec!["CAP_SYS_ADMIN"], why(), why()),
                "expand-root",
                "CAP_SYS_ADMIN",
                true,
                true,
            ),
        ];
        for (spoil, key, words, plain, steered) in cases {
            let mut probes = all_there();
            spoil(&mut probes);
            let problems: Vec<Problem> = run(&probes).into_iter().filter_map(|(_, problem)| problem).collect();
            assert_eq!(problems.iter().map(|problem| problem.key).collect::<Vec<_>>(), [key]);
            assert!(problems[0].found.contains(words), "{key}: {}", problems[0].found);
            let refused = [false, true].map(|steered| refusal(&probes, steered, false));
            assert_eq!(refused.each_ref().map(Option::is_some), [plain, steered], "{key}");
            let needs_compression = plain || key == "expand-compressed";
            assert_eq!(refusal(&probes, false, true).is_some(), needs_compression, "{key}");
            assert!(refused.into_iter().flatten().all(|refused| refused == problems[0]), "{key}: the same problem");
        }
    }

    #[test]
    fn complete_machine_is_not_refused() {
        assert_eq!((refusal(&all_there(), true, true), refusal(&all_there(), false, false)), (None, None));
        let seen = run(&all_there());
        assert!(seen.len() == NEEDS.len() && seen.iter().all(|(_, problem)| problem.is_none()));
    }
}
