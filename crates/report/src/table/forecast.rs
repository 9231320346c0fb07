//! Forecasts of a budget: sentences at the start of a search, and a table for several durations of a trial.

use model::analysis::place::BudgetForecast;
use model::values::plan::Plan;
use model::values::units::Nanos;

use crate::grid::{Grid, GridCell};
use crate::style::{TextStyle, clean};

/// The forecast of a budget, in sentences.
pub fn forecast(forecast: &BudgetForecast) -> Vec<String> {
    let (trial, budget) = (time(forecast.trial_seconds), time(forecast.budget_seconds));
    let trials = forecast.trials;
    let fits = if forecast.by_max_trials {
        format!("a trial takes about {trial}: --max-trials allows {trials} trials")
    } else {
        format!("a trial takes about {trial}: about {trials} trials fit into {budget}")
    };
    let firm = format!("a firm answer takes about {} trials, {}", forecast.firm_trials, time(forecast.firm_seconds));
    let expected = match forecast.within_percent {
        _ if forecast.is_firm() => return vec![format!("{fits}, enough for a firm answer")],
        Some(within) => {
            format!("usually within {within:.0} % of the best of {} candidates", forecast.candidates)
        }
        None if forecast.pairs > 0 => "too few for an expectation".into(),
        None => "too few for fresh pairs, so the answer is provisional".into(),
    };
    vec![format!("{fits}: {expected}"), firm]
}

/// The plan of a search, and the forecast of its budget for several durations of a trial.
pub fn dry_run(plan: &Plan, forecasts: &[BudgetForecast], style: &TextStyle) -> String {
    let raw = plan.race.as_ref().map_or("", |race| race.raw_placements.as_str());
    let (count, kernel) = (plan.cells.len(), plan.cells.first().map_or("", |cell| cell.placement.name.as_str()));
    let has_search = count > 2 && plan.race.as_ref().is_some_and(|race| race.search.is_some());
    let blocks = if has_search {
        "small blocks of candidates that a model chooses"
    } else {
        "blocks of all candidates that are still in the race"
    };
    let mut grid = Grid::new(&["trial", "trials", "of them pairs", "usually within", "firm answer"]).numbers(&[
        "trial",
        "trials",
        "of them pairs",
        "usually within",
        "firm answer",
    ]);
    for one in forecasts {
        let within = one.within_percent.map_or("–".into(), |within| format!("{within:.0} %"));
        let cells =
            [time(one.trial_seconds), one.trials.to_string(), one.pairs.to_string(), within, time(one.firm_seconds)];
        grid.rows.push(cells.iter().map(|text| GridCell::plain(text)).collect());
    }
    let most = plan.race.as_ref().and_then(|race| race.rules.max_trials);
    let most = most.map_or(String::new(), |most| format!(" and at most {most} trials"));
    let budget = time(plan.repeat.budget.seconds());
    format!(
        "{count} candidates stand for {} placements.\nOne discarded trial of {}, then {blocks}, then fresh pairs of the winner and kernel.\nNothing was run. With a budget of {budget}{most}:\n\n{}",
        clean(raw),
        clean(kernel),
        grid.terminal(style)
    )
}

fn time(seconds: f64) -> String {
    Nanos((seconds * 1e9) as u64).to_string()
}
