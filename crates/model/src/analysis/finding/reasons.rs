//! Reasons of suspect and invalid trials over a whole run: those that differ only in a share or a count are one, with its
//! range.

use serde::Serialize;

use super::RunFinding;

/// A reason with the trials that it concerns. Field names are part of the JSON contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReasonGroup {
    /// `other programs used 9 to 135 % of the CPUs of the placement`.
    pub reason: String,
    /// Number of trials with this reason.
    pub trials: u32,
    /// Number of measured trials of the run.
    pub of: u32,
    /// Names of their tests, in the order of the run.
    pub tests: Vec<String>,
    /// Names of their placements, in the order of the run.
    pub placements: Vec<String>,
}

impl RunFinding {
    /// Returns the reasons of suspect and invalid trials, most frequent first.
    pub fn reason_groups(&self) -> Vec<ReasonGroup> {
        let measured = |cell: &super::CellFinding| cell.verdicts.valid + cell.verdicts.suspect + cell.verdicts.invalid;
        let of = self.cells.iter().map(measured).sum();
        let mut groups: Vec<(Reason<'_>, ReasonGroup)> = Vec::new();
        for cell in &self.cells {
            for (text, count) in &cell.reasons {
                let reason = Reason::parse(text);
                let position = groups.iter().position(|(known, _)| known.words == reason.words);
                let position = position.unwrap_or_else(|| {
                    groups.push((reason.clone(), ReasonGroup { of, ..ReasonGroup::default() }));
                    groups.len() - 1
                });
                let (known, group) = &mut groups[position];
                known.widen(&reason);
                group.trials += count;
                add(&mut group.tests, &cell.test);
                add(&mut group.placements, &cell.placement);
            }
        }
        let named = groups.into_iter().map(|(reason, group)| ReasonGroup { reason: reason.text(), ..group });
        let mut groups: Vec<ReasonGroup> = named.collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.trials));
        groups
    }
}

fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.into());
    }
}

/// A reason whose shares and counts are ranges.
#[derive(Clone, Debug)]
struct Reason<'a> {
    /// `None` stands for the next range.
    words: Vec<Option<&'a str>>,
    ranges: Vec<(f64, f64)>,
}

impl<'a> Reason<'a> {
    fn parse(text: &'a str) -> Self {
        let all: Vec<&str> = text.split(' ').collect();
        let mut reason = Self { words: Vec::new(), ranges: Vec::new() };
        for (at, word) in all.iter().enumerate() {
            // Other numbers are those of CPUs, nodes and interrupts, whose range would say nothing.
            let is_amount = all.get(at + 1).is_some_and(|next| *next == "%" || (at == 0 && *next == "of"));
            match word.parse::<f64>().ok().filter(|_| is_amount) {
                Some(number) => {
                    reason.words.push(None);
                    reason.ranges.push((number, number));
                }
                None => reason.words.push(Some(word)),
            }
        }
        reason
    }

    fn widen(&mut self, other: &Self) {
        for ((low, high), (other_low, other_high)) in self.ranges.iter_mut().zip(&other.ranges) {
            (*low, *high) = (low.min(*other_low), high.max(*other_high));
        }
    }

    fn text(&self) -> String {
        let range = |(low, high): &(f64, f64)| if low < high { format!("{low} to {high}") } else { low.to_string() };
        let mut ranges = self.ranges.iter().map(range);
        let words = self.words.iter().map(|word| match word {
            Some(word) => (*word).to_string(),
            None => ranges.next().unwrap_or_default(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::CellFinding;
    use super::*;
    use crate::values::record::VerdictCounts;

    fn cell(test: &str, placement: &str, reasons: &[(&str, u32)]) -> CellFinding {
        CellFinding {
            workload: test.into(),
            test: test.into(),
            placement: placement.into(),
            threads: 1,
            verdicts: VerdictCounts { valid: 4, suspect: 10, invalid: 0 },
            reasons: reasons.iter().map(|(text, count)| ((*text).into(), *count)).collect(),
            ..CellFinding::default()
        }
    }

    #[test]
    fn reasons_that_differ_in_a_share_are_one_with_its_range() {
        let load = |percent: u32| format!("other programs used {percent} % of the CPUs of the placement");
        let (low, middle, high) = (load(9), load(40), load(135));
        let cells = vec![
            cell("stream", "kernel", &[(&low, 3), (&high, 7), ("interrupt 4 arrived on CPU 1", 1)]),
            cell("gemm", "kernel", &[(&middle, 9), ("interrupt 5 arrived on CPU 1", 1), ("12 of its pages", 1)]),
        ];
        let finding = RunFinding { cells, skipped: Vec::new(), passes: false };
        let groups = finding.reason_groups();
        assert_eq!(groups[0].reason, "other programs used 9 to 135 % of the CPUs of the placement");
        assert_eq!((groups[0].trials, groups[0].of), (19, 28));
        assert_eq!(
            (groups[0].tests.join(" "), groups[0].placements.join(" ")),
            ("stream gemm".into(), "kernel".into())
        );
        let others: Vec<&str> = groups[1..].iter().map(|group| group.reason.as_str()).collect();
        let expected = ["interrupt 4 arrived on CPU 1", "interrupt 5 arrived on CPU 1", "12 of its pages"];
        assert_eq!(others, expected, "numbers of CPUs and interrupts have no range");
    }
}
