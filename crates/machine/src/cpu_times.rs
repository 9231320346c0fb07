//! CPU time by kind since boot, from /proc/stat: user, kernel, interrupts, I/O wait, idle, steal. Does not attribute it
//! to processes.

use std::collections::BTreeMap;
use std::path::Path;

use model::values::id_set::{CpuId, CpuSet};
use model::values::trial::CpuTime;
use model::values::units::Nanos;

use crate::sysfs;

/// /proc/stat counts in `USER_HZ`, which is 100 on every Linux that user space can see.
const TICK_NS: u64 = 10_000_000;

/// Returns the times of all online CPUs, or the reason why the file cannot be read.
pub fn now() -> Result<BTreeMap<CpuId, CpuTime>, String> {
    read(Path::new("/"))
}

/// Returns the differences between two readings, for CPUs that were online at both.
pub fn between(before: &BTreeMap<CpuId, CpuTime>, after: &BTreeMap<CpuId, CpuTime>) -> BTreeMap<CpuId, CpuTime> {
    after.iter().filter_map(|(cpu, time)| Some((*cpu, time.since(before.get(cpu)?)))).collect()
}

/// Returns the sum over these CPUs, or a reason if the reading has none of them.
pub(crate) fn of(times: &BTreeMap<CpuId, CpuTime>, cpus: &CpuSet) -> Result<CpuTime, String> {
    let selected = times.iter().filter(|(cpu, _)| cpus.contains(**cpu)).map(|(_, time)| *time);
    selected.reduce(|sum, time| sum.plus(&time)).ok_or_else(|| format!("/proc/stat has no lines for CPUs {cpus}"))
}

pub(crate) fn read(root: &Path) -> Result<BTreeMap<CpuId, CpuTime>, String> {
    let text = sysfs::read_text(root, "proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
    let times = parse(&text);
    if times.is_empty() { Err("/proc/stat has no lines for CPUs".into()) } else { Ok(times) }
}

fn parse(text: &str) -> BTreeMap<CpuId, CpuTime> {
    text.lines().filter_map(parse_line).collect()
}

/// Parses `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`; guest time is already part of user
/// and nice. The line for the sum of all CPUs has no number.
fn parse_line(line: &str) -> Option<(CpuId, CpuTime)> {
    let mut words = line.split_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<Nanos> = words.map_while(|word| word.parse::<u64>().ok()).map(of_ticks).collect();
    let [user, nice, system, idle, iowait, irq, softirq, rest @ ..] = &ticks[..] else { return None };
    let time = CpuTime {
        user: Nanos(user.0.saturating_add(nice.0)),
        system: *system,
        irq: *irq,
        softirq: *softirq,
        iowait: *iowait,
        idle: *idle,
        steal: rest.first().copied().unwrap_or_default(),
    };
    Some((CpuId(cpu), time))
}

fn of_ticks(ticks: u64) -> Nanos {
    Nanos(ticks.saturating_mul(TICK_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  99 99 99 99 99 99 99 99 0 0\n\
        cpu0 1 2 4 1000 2000 8 16 32 5 6\n\
        cpu1 100 0 0 0 0 0 0 0 0 0\n\
        cpu10 7 0 0 1 1 0 0\n\
        cpu11 7 0 0 1\n\
        intr 5\n";

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn times_are_read_by_kind_without_counting_guests_twice() {
        let times = parse(TEXT);
        assert_eq!(times.keys().map(|cpu| cpu.0).collect::<Vec<_>>(), [0, 1, 10], "incomplete lines are ignored");
        let expected = CpuTime {
            user: Nanos(3 * TICK_NS),
            system: Nanos(4 * TICK_NS),
            irq: Nanos(8 * TICK_NS),
            softirq: Nanos(16 * TICK_NS),
            iowait: Nanos(2000 * TICK_NS),
            idle: Nanos(1000 * TICK_NS),
            steal: Nanos(32 * TICK_NS),
        };
        assert_eq!(times[&CpuId(0)], expected);
        assert_eq!(times[&CpuId(10)].steal, Nanos(0));
        assert!(parse("").is_empty());
    }

    #[test]
    fn times_are_summed_and_missing_cpus_return_an_error() {
        let times = parse(TEXT);
        let of = |list| super::of(&times, &cpus(list)).map(|sum| (sum.busy().0 / TICK_NS, sum.steal.0 / TICK_NS));
        assert_eq!((of("0"), of("0-1"), of("10")), (Ok((31, 32)), Ok((131, 32)), Ok((7, 0))));
        assert_eq!(of("2"), Err("/proc/stat has no lines for CPUs 2".into()));
    }

    #[test]
    fn differences_cover_cpus_online_at_both_readings() {
        let (before, after) = (parse("cpu0 1 0 0 5 0 0 0 0\ncpu1 1 0 0 5 0 0 0 0"), parse("cpu0 3 0 0 9 0 0 0 0"));
        let seen = between(&before, &after);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[&CpuId(0)].user, seen[&CpuId(0)].idle), (Nanos(2 * TICK_NS), Nanos(4 * TICK_NS)));
        assert!(between(&after, &BTreeMap::new()).is_empty());
    }
}
