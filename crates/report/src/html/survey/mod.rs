//! A survey in a report: each class in sentences and as a heat map of machines by tests, its outliers, and changes over
//! time. Decides layout only.

mod facts;
mod heat;
mod timeline;

use model::analysis::survey::{MachineClass, OutlierSide, Survey};

use super::figure::FigurePart;
use super::table::HtmlTable;
use super::unbroken;
use crate::claim_text::ClaimText;
use crate::stamp;
use crate::survey::{
    changes, facts_grid, false_alarm_note, heading, machines_grid, points_grid, standings, tests_grid,
};

/// Maximum number of figures of machines, and of changes; the sentences name all.
const PICTURES_MAX: usize = 12;

pub(crate) struct SurveyPart {
    pub(crate) false_alarm_note: String,
    pub(crate) stamps: Vec<String>,
    pub(crate) classes: Vec<ClassPart>,
}

pub(crate) struct ClassPart {
    pub(crate) heading: String,
    pub(crate) sentences: Vec<ClaimText>,
    pub(crate) changes: Vec<ClaimText>,
    /// Facts that are associated with outliers.
    pub(crate) facts: Vec<HtmlTable>,
    pub(crate) machines: HtmlTable,
    pub(crate) map: Option<FigurePart>,
    /// A figure of each outlier.
    pub(crate) standing: Vec<FigurePart>,
    /// A figure of each change, with associated facts.
    pub(crate) timelines: Vec<(FigurePart, Option<HtmlTable>)>,
}

impl SurveyPart {
    pub(crate) fn new(survey: &Survey, rows_max: usize) -> Self {
        Self {
            false_alarm_note: unbroken(&false_alarm_note(survey)),
            stamps: stamp::of(survey.stamp),
            classes: survey.classes.iter().map(|class| ClassPart::new(class, rows_max)).collect(),
        }
    }
}

impl ClassPart {
    fn new(class: &MachineClass, rows_max: usize) -> Self {
        let facts = [
            ("Facts of machines worse than their class", &class.facts_of_worse),
            ("Facts of machines better than their class", &class.facts_of_better),
        ];
        let facts = facts.into_iter().filter(|(_, facts)| !facts.is_empty());
        let mut standing: Vec<_> = class.machines.iter().filter(|machine| machine.stands_out.is_some()).collect();
        standing.sort_by_key(|machine| machine.stands_out == Some(OutlierSide::Better));
        let timeline = |change| {
            let figure = FigurePart {
                svg: timeline::svg(change)?,
                caption: "Each point is a run relative to the median of all runs; effects shared by its class in a \
                 round of runs are removed. The vertical line is the change of the level, the coloured band its 95 \
                 % interval."
                    .into(),
                table: HtmlTable::new("The same data as a table", points_grid(change), rows_max).folded(),
            };
            let facts = facts_grid(&change.facts, ["of the runs after it", "of the runs before"]);
            let table =
                (!change.facts.is_empty()).then(|| HtmlTable::new("Facts that changed with it", facts, rows_max));
            Some((figure, table))
        };
        let worded = |mut sentences: Vec<ClaimText>| {
            sentences.iter_mut().for_each(|sentence| sentence.text = unbroken(&sentence.text));
            sentences
        };
        Self {
            heading: heading(class),
            sentences: worded(standings(class)),
            changes: worded(changes(class)),
            facts: facts
                .map(|(title, facts)| HtmlTable::new(title, facts_grid(facts, ["of these", "of the others"]), rows_max))
                .collect(),
            machines: HtmlTable::new("Machines against the others of their class", machines_grid(class), rows_max),
            map: heat::svg(class).map(|svg| FigurePart {
                svg,
                caption: "Each machine relative to the others of its class, in percent. Blue is better, orange is \
                 worse, stronger colour is farther off; framed cells are outliers. An empty cell was not measured."
                    .into(),
                table: HtmlTable::new("The same data as a table", tests_grid(class), rows_max).folded(),
            }),
            standing: standing
                .into_iter()
                .take(PICTURES_MAX)
                .filter_map(|machine| facts::figure(class, &machine.name, rows_max))
                .collect(),
            timelines: class.changes.iter().take(PICTURES_MAX).filter_map(timeline).collect(),
        }
    }
}
