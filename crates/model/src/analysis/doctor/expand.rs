//! What `nearfar expand` needs of a machine: what was found there, what is lost without it, how to get it. The doctor and the
//! refusal of `expand` say the same words, which stand here. Must not know how it was looked for.

use super::checks::CheckResult;
use super::{Problem, ProblemGroup};

/// What was found; an error is the kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandProbes {
    pub root: bool,
    /// Capabilities that swap and cgroups take and that we do not have, `CAP_SYS_ADMIN`.
    pub lacking: Vec<&'static str>,
    /// Whether a memory cgroup can be made.
    pub group: Result<(), String>,
    /// Whether a loop device can be had.
    pub loops: Result<(), String>,
    /// Whether swap may be turned on and off.
    pub swap: Result<(), String>,
    /// Whether page faults can be watched (`perf_event_open`).
    pub faults: Result<(), String>,
    /// Whether another process's memory can be advised on (`process_madvise`).
    pub advice: Result<(), String>,
    /// Whether the kernel tells which pages are far (`PAGEMAP_SCAN`).
    pub scan: bool,
    /// Whether it has folios of 64 KiB.
    pub folios: bool,
}

/// What does not work without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Impact {
    /// No program gets a budget.
    Everything,
    Steering,
    Speed,
}

/// One thing that is needed.
struct Requirement {
    key: &'static str,
    look: fn(&ExpandProbes) -> CheckResult,
    loss: Impact,
    effect: &'static str,
    fix: &'static str,
    command: Option<&'static str>,
}

const NOTHING_RUNS: &str = "expand, size and placements with a budget of DRAM do not run";
const NOT_STEERED: &str = "the steered engine does not run; --engine plain does";

/// In the order in which one is worth having before the next.
const NEEDS: [Requirement; 8] = [
    Requirement {
        key: "expand-root",
        look: |signs| Some(root(signs)),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "sudo nearfar expand ...; who is not root needs CAP_SYS_ADMIN (swap), CAP_DAC_OVERRIDE (cgroups, settings) and \
              CAP_SYS_NICE (advice)",
        command: None,
    },
    Requirement {
        key: "expand-cgroup",
        look: |signs| Some(signs.group.as_ref().err().cloned()),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "a kernel with the memory controller (not cgroup_disable=memory) and /sys/fs/cgroup mounted for writing; a \
              container has that from its host",
        command: None,
    },
    Requirement {
        key: "expand-loop",
        look: |signs| permitted(signs, &signs.loops, "cannot make a device of the file for far memory (loop)"),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "load the kernel's loop devices; a container has them from its host",
        command: Some("sudo modprobe loop"),
    },
    Requirement {
        key: "expand-swap",
        look: |signs| permitted(signs, &signs.swap, "swap cannot be turned on (swapon)"),
        loss: Impact::Everything,
        effect: NOTHING_RUNS,
        fix: "a kernel with swap; in a container, one that is privileged",
        command: None,
    },
    Requirement {
        key: "expand-page-faults",
        look: |signs| permitted(signs, &signs.faults, "cannot watch page faults (perf_event_open)"),
        loss: Impact::Steering,
        effect: NOT_STEERED,
        fix: "allow them, which a container's security policy may forbid; or --engine plain, which does without",
        command: Some("sudo sysctl kernel.perf_event_paranoid=1"),
    },
    Requirement {
        key: "expand-advice",
        look: |signs| permitted(signs, &signs.advice, "cannot advise on another process's memory (process_madvise)"),
        loss: Impact::Steering,
        effect: NOT_STEERED,
        fix: "Linux 5.10 or newer, and CAP_SYS_NICE; or --engine plain, which does without",
        command: None,
    },
    Requirement {
        key: "expand-scan",
        look: |signs| Some((!signs.scan).then(|| "the kernel does not tell which pages are far (PAGEMAP_SCAN)".into())),
        loss: Impact::Speed,
        effect: "the pilot advises on whole ranges, near or far, which takes more of a cpu",
        fix: "Linux 6.7 or newer",
        command: None,
    },
    Requirement {
        key: "expand-folios",
        look: |signs| Some((!signs.folios).then(|| "the kernel has no folios of 64 KiB".into())),
        loss: Impact::Speed,
        effect: "what goes far goes in single pages, which takes the kernel more time for each byte",
        fix: "Linux 6.8 or newer, with transparent huge pages",
        command: None,
    },
];

fn root(signs: &ExpandProbes) -> Option<String> {
    if signs.lacking.is_empty() {
        return None;
    }
    let lacking = signs.lacking.join(", ");
    Some(if signs.root {
        format!("root lacks {lacking} here, as in a container: bounding a program's DRAM makes a cgroup and swap")
    } else {
        format!("bounding a program's DRAM needs root here, which makes a cgroup and swap ({lacking} are lacking)")
    })
}

/// Without the rights the kernel's answer is about those, and not about what is asked.
fn permitted(signs: &ExpandProbes, sign: &Result<(), String>, what: &str) -> CheckResult {
    match sign {
        Ok(()) => Some(None),
        Err(_) if !signs.lacking.is_empty() => None,
        Err(why) => Some(Some(format!("{what}: {why}"))),
    }
}

/// What is well and what is not.
pub(super) fn look(signs: &ExpandProbes) -> Vec<(&'static str, Option<Problem>)> {
    let seen = NEEDS.iter().filter_map(|need| Some((need, (need.look)(signs)?)));
    seen.map(|(need, found)| (need.key, found.map(|found| complaint(need, found)))).collect()
}

fn complaint(need: &Requirement, found: String) -> Problem {
    let Requirement { key, effect, fix, command, .. } = need;
    Problem { key, group: ProblemGroup::ExpandRequirement, found, effect, fix, command: *command }
}

/// Why no program gets a budget here, steered or not; the first reason.
pub fn refusal(signs: &ExpandProbes, steered: bool) -> Option<Problem> {
    let stops = |loss: Impact| loss == Impact::Everything || steered && loss == Impact::Steering;
    let mut found = NEEDS.iter().filter(|need| stops(need.loss));
    found.find_map(|need| Some(complaint(need, (need.look)(signs)??)))
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
        }
    }

    type ProbeEdit<'a> = &'a dyn Fn(&mut ExpandProbes);

    #[test]
    fn each_lack_is_complained_of_alone_and_stops_what_it_stops() {
        let why = || Err("Operation not permitted".to_string());
        // Whether it stops plain swap, and whether steering.
        let cases: [(ProbeEdit, &str, &str, bool, bool); 10] = [
            (&|signs| signs.lacking = vec!["CAP_SYS_ADMIN"], "expand-root", "root lacks CAP_SYS_ADMIN", true, true),
            (
                &|signs| (signs.root, signs.lacking) = (false, vec!["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"]),
                "expand-root",
                "needs root here",
                true,
                true,
            ),
            (&|signs| signs.group = why(), "expand-cgroup", "not permitted", true, true),
            (&|signs| signs.loops = why(), "expand-loop", "(loop): Operation", true, true),
            (&|signs| signs.swap = why(), "expand-swap", "(swapon): Operation", true, true),
            (&|signs| signs.faults = why(), "expand-page-faults", "(perf_event_open): Operation", false, true),
            (&|signs| signs.advice = why(), "expand-advice", "(process_madvise): Operation", false, true),
            (&|signs| signs.scan = false, "expand-scan", "PAGEMAP_SCAN", false, false),
            (&|signs| signs.folios = false, "expand-folios", "64 KiB", false, false),
            // Who has no rights is told that, and not what the kernel said to everything else.
            (
                &|signs| (signs.lacking, signs.loops, signs.swap) = (vec!["CAP_SYS_ADMIN"], why(), why()),
                "expand-root",
                "CAP_SYS_ADMIN",
                true,
                true,
            ),
        ];
        for (spoil, key, words, plain, steered) in cases {
            let mut signs = all_there();
            spoil(&mut signs);
            let complaints: Vec<Problem> = look(&signs).into_iter().filter_map(|(_, complaint)| complaint).collect();
            assert_eq!(complaints.iter().map(|complaint| complaint.key).collect::<Vec<_>>(), [key]);
            assert!(complaints[0].found.contains(words), "{key}: {}", complaints[0].found);
            let refused = [false, true].map(|steered| refusal(&signs, steered));
            assert_eq!(refused.each_ref().map(Option::is_some), [plain, steered], "{key}");
            assert!(refused.into_iter().flatten().all(|refused| refused == complaints[0]), "{key}: the same words");
        }
    }

    #[test]
    fn where_all_is_there_nothing_is_refused() {
        assert_eq!((refusal(&all_there(), true), refusal(&all_there(), false)), (None, None));
        let seen = look(&all_there());
        assert!(seen.len() == NEEDS.len() && seen.iter().all(|(_, complaint)| complaint.is_none()));
    }
}
