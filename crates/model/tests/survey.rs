//! Surveys of made fleets: what was planted is named with the fact that was planted with it, and where nothing was planted nothing is
//! named more often than is stated. `cargo bench -p model --bench survey` has the figures.

#[path = "../benches/survey/world.rs"]
mod world;

use model::analysis::survey::{OutlierSide, Survey};
use world::{Fleet, Plant, WEATHERS, Weather, surveyed};

fn fleet(rounds: usize, plant: Option<Plant>) -> Fleet {
    Fleet { weather: Weather::LogNormal, machines: 12, rounds, tests: 3, plant }
}

fn named(survey: &Survey) -> Vec<(String, OutlierSide)> {
    let machines = survey.classes.iter().flat_map(|class| &class.machines);
    machines.filter_map(|machine| Some((machine.name.clone(), machine.stands_out?))).collect()
}

#[test]
fn slow_machines_are_named_with_what_they_share() {
    let plant = Plant { machines: 2, tests: 3, slower: 0.12, from: 0 };
    let survey = surveyed(&fleet(1, Some(plant)), 7);
    let expected: Vec<(String, OutlierSide)> =
        ["node-00", "node-01"].map(|name| (name.into(), OutlierSide::Worse)).into();
    assert_eq!(named(&survey), expected);
    let class = &survey.classes[0];
    let fact = &class.facts_of_worse[0];
    let told = (fact.key.as_str(), fact.value.as_str(), fact.here, fact.here_of, fact.elsewhere, fact.elsewhere_of);
    assert_eq!(told, ("cpu.microcode", "0x1", 2, 2, 0, 10));
    assert!(class.facts_of_better.is_empty() && class.changes.is_empty(), "{class:?}");
    // Twelve percent less of what is a rate, and its reciprocal of what is a time; all together 12 % less.
    for (test, expected) in [(0, -12.0), (1, 13.6), (3, -12.0)] {
        let value = &class.tests[test].values[0];
        let (low, high) = (value.ci_low.unwrap(), value.ci_high.unwrap());
        assert!(low - 2.0 < expected && expected < high + 2.0 && low < value.change_percent, "{test}: {value:?}");
    }
}

/// The second test is of times.
#[test]
fn less_of_a_rate_and_more_of_a_time_are_worse() {
    let survey = surveyed(&fleet(1, Some(Plant { machines: 1, tests: 3, slower: 0.3, from: 0 })), 7);
    let worth = survey.classes[0].tests.iter().map(|test| test.values[0].stands_out);
    assert_eq!(worth.collect::<Vec<_>>(), [Some(OutlierSide::Worse); 4]);
}

#[test]
fn what_changed_is_named_with_its_place_and_what_came_with_it() {
    let plant = Plant { machines: 1, tests: 3, slower: 0.08, from: 7 };
    let survey = surveyed(&fleet(12, Some(plant)), 7);
    let changes = &survey.classes[0].changes;
    assert!(!changes.is_empty());
    for change in changes {
        assert_eq!((change.machine.as_deref(), change.worth), (Some("node-00"), OutlierSide::Worse), "{change:?}");
        // Twelve runs a round; the first of each is of node-00.
        assert_eq!((change.before.run.as_str(), change.after.run.as_str()), ("run-72", "run-84"), "{change:?}");
        assert_eq!(change.points.len(), 12);
        let fact = &change.facts[0];
        assert_eq!((fact.key.as_str(), fact.here, fact.here_of, fact.elsewhere), ("cpu.microcode", 5, 5, 0));
        assert!(change.ci_low.unwrap() < change.change_percent && change.change_percent < change.ci_high.unwrap());
    }
}

#[test]
fn what_comes_to_all_is_a_change_of_the_class_and_of_nobody_alone() {
    let plant = Plant { machines: 12, tests: 3, slower: 0.05, from: 8 };
    let survey = surveyed(&fleet(16, Some(plant)), 7);
    let whose: Vec<Option<&str>> = survey.classes[0].changes.iter().map(|change| change.machine.as_deref()).collect();
    assert!(!whose.is_empty() && whose.iter().all(Option::is_none), "{whose:?}");
    assert!(named(&survey).is_empty());
}

/// At the stated rate two of forty are expected, and ten of all two hundred; more than eight or eighteen are so in one of a hundred times at most.
#[test]
fn false_alarm_rate_stays_below_the_bound() {
    let alarms = WEATHERS.map(|weather| {
        let alarm = |seed: u64| {
            let survey = surveyed(&Fleet { weather, machines: 10, rounds: 6, tests: 2, plant: None }, seed);
            !named(&survey).is_empty() || !survey.classes[0].changes.is_empty()
        };
        (100..140).filter(|seed| alarm(*seed)).count()
    });
    assert!(alarms.iter().all(|alarms| *alarms <= 8) && alarms.iter().sum::<usize>() <= 18, "{alarms:?} of 40 each");
}

#[test]
fn a_few_machines_are_not_judged_and_it_is_said_why() {
    let plant = Plant { machines: 1, tests: 3, slower: 0.5, from: 0 };
    let survey = surveyed(&Fleet { machines: 6, ..fleet(1, Some(plant)) }, 7);
    assert!(named(&survey).is_empty());
    let class = &survey.classes[0];
    assert!(class.not_judged.as_ref().is_some_and(|why| why.contains("6 machines") && why.contains('7')), "{class:?}");
    // What was measured is there all the same.
    assert!(class.tests[0].values[0].change_percent < -40.0 && !class.tests[0].judged);
    let enough = surveyed(&Fleet { machines: 7, ..fleet(1, Some(plant)) }, 7);
    assert_eq!(named(&enough), [("node-00".to_string(), OutlierSide::Worse)]);
}

#[test]
fn equal_runs_give_equal_surveys() {
    let plant = Plant { machines: 1, tests: 3, slower: 0.04, from: 5 };
    assert_eq!(surveyed(&fleet(10, Some(plant)), 3), surveyed(&fleet(10, Some(plant)), 3));
}
