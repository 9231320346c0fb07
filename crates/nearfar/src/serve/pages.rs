//! Renders the pages of the results file, and caches each until the state of the file changes. Only one page is
//! rendered at a time, because measurements may run on the same machine.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::analysis::finding::TrialNames;
use model::analysis::live::{LiveId, LiveRecord};
use model::hint::Hinted;
use model::values::record::{RunId, RunSummary};
use report::html::{CompareForm, ReportPage, RunLine, RunsPage, ServedHeader};
use serde_json::json;
use store::{Store, StoreError};

use super::events::Topic;
use super::listing::{
    extent_id, extent_in_words, live_progress_id, live_progress_in_words, progress_id, progress_in_words,
};
use super::metrics::{self, StoreMetrics};
use super::request::RequestHead;
use super::response::HttpResponse;
use super::route::Route;
use super::status::HttpStatus;
use crate::app::compare::{CompareRequest, comparison};
use crate::app::report::{LoadedRun, SuspectTrials, generated_by, latest_html, runs_html};
use crate::app::stored_live::evaluated;
use crate::error::CliError;

/// Maximum number of cached pages, of at most 3 MB each.
const PAGES_MAX: usize = 12;
/// Number of runs per page of the list.
const RUNS_SHOWN: usize = 50;
/// Maximum number of runs with cached results.
const RESULTS_MAX: usize = 1_000;
/// Maximum number of runs in a comparison; more columns would be unreadable.
const COMPARED_MAX: usize = 20;
/// Minimum interval of updates as a multiple of the rendering time: followers use at most a twentieth of a CPU.
const INTERVAL_FACTOR: u32 = 20;
/// Lower bound of the interval of updates.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Interval in seconds at which browsers ask for a results file that does not exist yet.
const WAITING_INTERVAL_S: u32 = 2;

pub enum PageReply {
    Reply(HttpResponse),
    Stream(Topic),
}

pub struct PageCache {
    store: PathBuf,
    /// Locked while a page is rendered.
    cache: Mutex<Cache>,
    interval_ms: AtomicU64,
}

#[derive(Default)]
struct Cache {
    /// Key, state of the file, and page; the newest last.
    pages: VecDeque<(String, String, Arc<str>)>,
    /// State and result of each run.
    results: BTreeMap<RunId, (String, CachedResult)>,
}

/// Values of a run in the list that depend on all of its trials.
#[derive(Clone)]
struct CachedResult {
    expected: Option<usize>,
    answer: Option<String>,
}

enum PageError {
    NotFound(StoreError),
    Usage(CliError),
    Failed(CliError),
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSuchRun { .. } | StoreError::AmbiguousRun { .. } | StoreError::NoSuchTable { .. } => {
                Self::NotFound(error)
            }
            error => Self::Failed(CliError::failure(error)),
        }
    }
}

impl From<CliError> for PageError {
    fn from(failure: CliError) -> Self {
        if failure.is_usage() { Self::Usage(failure) } else { Self::Failed(failure) }
    }
}

impl PageCache {
    pub fn new(store: &Path) -> Self {
        Self { store: store.into(), cache: Mutex::default(), interval_ms: AtomicU64::new(0) }
    }

    /// Returns the minimum interval between updates of a page.
    pub fn min_interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.load(Ordering::Relaxed)).max(INTERVAL_MIN)
    }

    /// Returns the response to a request with access.
    pub fn respond(&self, head: &RequestHead, quiet: bool) -> PageReply {
        let Some(route) = Route::of(&head.path) else {
            return PageReply::Reply(HttpResponse::error_page(HttpStatus::NotFound, "no such page", None));
        };
        self.try_respond(&route, head)
            .unwrap_or_else(|error| PageReply::Reply(error_page(&error, route.is_json(), quiet)))
    }

    fn try_respond(&self, route: &Route, head: &RequestHead) -> Result<PageReply, PageError> {
        if is_missing(&self.store) {
            let is_metrics = *route == Route::Metrics;
            // Prometheus treats an error as a failure of the server.
            let metrics = || HttpResponse::metrics(metrics::text(&StoreMetrics::default()).into());
            let reply = if is_metrics { metrics() } else { waiting_page(&self.store, route.is_json()) };
            return Ok(PageReply::Reply(reply));
        }
        let store = Store::open_to_read(&self.store)?;
        Ok(PageReply::Reply(match route {
            Route::Events => return Ok(PageReply::Stream(Topic::File)),
            Route::RunEvents(name) => return Ok(PageReply::Stream(Topic::Run(id(&store, name)?))),
            Route::Runs => {
                let number =
                    head.query_value("page").and_then(|text| text.parse().ok()).unwrap_or(1_usize).clamp(1, 100_000);
                let state = extent_id(store.extent()?);
                let key = format!("runs {number}");
                HttpResponse::page(self.page(&key, &state, |cache| list(&store, cache, number))?)
            }
            Route::RunsJson => {
                HttpResponse::json(HttpStatus::Ok, &report::json::runs(&store.runs()?, &store.live_experiments()?))
            }
            Route::Run(name) => {
                let id = id(&store, name)?;
                if id.0 != *name {
                    return Ok(PageReply::Reply(HttpResponse::redirect(&format!("/runs/{id}"))));
                }
                let state = progress_id(&store.progress(&id)?);
                HttpResponse::page(self.page(&format!("run {id}"), &state, |_| run(&store, &id))?)
            }
            Route::RunJson(name) => {
                let loaded =
                    LoadedRun::new(&store, store.run(&id(&store, name)?.0)?, TrialNames::Kept, SuspectTrials::Kept)?;
                HttpResponse::json(HttpStatus::Ok, &loaded.json())
            }
            Route::LiveEvents(name) => return Ok(PageReply::Stream(Topic::Live(live_id(&store, name)?))),
            Route::Live(name) => {
                let id = live_id(&store, name)?;
                if id.0 != *name {
                    return Ok(PageReply::Reply(HttpResponse::redirect(&format!("/live/{id}"))));
                }
                let state = live_progress_id(store.live_progress(&id)?);
                HttpResponse::page(self.page(&format!("live {id}"), &state, |_| live(&store, &id))?)
            }
            Route::LiveJson(name) => {
                let record = live_record(&store, name)?;
                HttpResponse::json(HttpStatus::Ok, &report::json::live_trial(&evaluated(&store, &record)?))
            }
            Route::Report => {
                let state = extent_id(store.extent()?);
                let served = ServedHeader { events: Some(format!("/events?seen={state}")), ..served(&store)? };
                HttpResponse::page(
                    self.page("report", &state, |_| Ok(latest_html(&store, SuspectTrials::Kept, Some(served))?))?,
                )
            }
            Route::Compare => {
                let (state, key) = (extent_id(store.extent()?), format!("compare {:?}", head.query));
                HttpResponse::page(self.page(&key, &state, |_| comparison_page(&store, head))?)
            }
            Route::Metrics => {
                let state = extent_id(store.extent()?);
                HttpResponse::metrics(
                    self.page("metrics", &state, |_| Ok(metrics::text(&StoreMetrics::read(&store)?)))?,
                )
            }
            Route::CompareJson => HttpResponse::json(
                HttpStatus::Ok,
                &report::json::comparison(&comparison(&compare_request(head)?, &store)?),
            ),
        }))
    }

    /// Returns the page with this key in this state of the file, and renders it if it is not cached.
    fn page(
        &self,
        key: &str,
        state: &str,
        render: impl FnOnce(&mut Cache) -> Result<String, PageError>,
    ) -> Result<Arc<str>, PageError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, page)) = cache.pages.iter().find(|(of, at, _)| of == key && at == state) {
            return Ok(page.clone());
        }
        let began = Instant::now();
        let page: Arc<str> = render(&mut cache)?.into();
        let interval = (began.elapsed() * INTERVAL_FACTOR).as_millis() as u64;
        self.interval_ms.store(interval, Ordering::Relaxed);
        cache.pages.retain(|(known_key, _, _)| known_key != key);
        if cache.pages.len() >= PAGES_MAX {
            cache.pages.pop_front();
        }
        cache.pages.push_back((key.into(), state.into(), page.clone()));
        Ok(page)
    }
}

/// Whether the results file does not exist yet.
pub fn is_missing(store: &Path) -> bool {
    !store::is_server(store) && std::fs::metadata(store).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// A page that browsers load again until there is a results file.
fn waiting_page(store: &Path, as_json: bool) -> HttpResponse {
    let what = format!("{} does not exist yet", store::displayed(store).display());
    let hint = "nearfar run quick measures this machine; this page shows the results";
    let mut response = if as_json {
        HttpResponse::json(HttpStatus::Unavailable, &json!({ "error": what, "hint": hint }))
    } else {
        HttpResponse::error_page(HttpStatus::Unavailable, &what, Some(hint))
    };
    for name in ["Refresh", "Retry-After"] {
        response.header(name, WAITING_INTERVAL_S.to_string());
    }
    response
}

/// Returns an error as a page or as JSON, and prints internal errors on stderr unless `quiet`.
fn error_page(error: &PageError, as_json: bool, quiet: bool) -> HttpResponse {
    let (status, text) = match error {
        PageError::NotFound(error) => (HttpStatus::NotFound, error.text_with_hint()),
        PageError::Usage(failure) => (HttpStatus::BadRequest, failure.to_string()),
        PageError::Failed(failure) => (HttpStatus::Internal, failure.to_string()),
    };
    if status == HttpStatus::Internal && !quiet {
        message!("nearfar: {text}");
    }
    let (what, hint) = text.split_once("\nhint: ").map_or((text.as_str(), None), |(what, hint)| (what, Some(hint)));
    if as_json {
        return HttpResponse::json(status, &json!({ "error": what, "hint": hint }));
    }
    HttpResponse::error_page(status, what, hint)
}

/// Returns the id of a run given by its id, by a unique prefix or as `latest`.
fn id(store: &Store, name: &str) -> Result<RunId, PageError> {
    Ok(store.run(name)?.id)
}

/// Returns an experiment on a running service, given by its id or a unique prefix.
fn live_record(store: &Store, name: &str) -> Result<LiveRecord, PageError> {
    store.live(name)?.ok_or_else(|| {
        StoreError::NoSuchRun { path: store.path().into(), name: name.into(), tables: Vec::new() }.into()
    })
}

fn live_id(store: &Store, name: &str) -> Result<LiveId, PageError> {
    Ok(live_record(store, name)?.id)
}

/// Returns the header that the pages have in addition to a report.
fn served(store: &Store) -> Result<ServedHeader, PageError> {
    Ok(ServedHeader { json: None, events: None, standing: extent_in_words(store.extent()?) })
}

fn run(store: &Store, id: &RunId) -> Result<String, PageError> {
    // Read before the trials, so that trials stored meanwhile cause an event.
    let progress = store.progress(id)?;
    let events = format!("/runs/{id}/events?seen={}", progress_id(&progress));
    let served = ServedHeader {
        json: Some(format!("/runs/{id}.json")),
        events: progress.ended.is_none().then_some(events),
        standing: progress_in_words(&progress),
    };
    Ok(runs_html(store, std::slice::from_ref(&id.0), SuspectTrials::Kept, Some(served))?)
}

fn live(store: &Store, id: &LiveId) -> Result<String, PageError> {
    // As for a run: before the periods.
    let progress = store.live_progress(id)?;
    let events = format!("/live/{id}/events?seen={}", live_progress_id(progress));
    let served = ServedHeader {
        json: Some(format!("/live/{id}.json")),
        events: (!progress.has_ended).then_some(events),
        standing: live_progress_in_words(progress),
    };
    Ok(runs_html(store, std::slice::from_ref(&id.0), SuspectTrials::Kept, Some(served))?)
}

/// Renders a page of the list of runs.
fn list(store: &Store, cache: &mut Cache, number: usize) -> Result<String, PageError> {
    let state = extent_id(store.extent()?);
    let mut runs = store.runs()?;
    runs.reverse();
    let (all, first) = (runs.len(), (number - 1).saturating_mul(RUNS_SHOWN));
    let shown = runs.get(first..all.min(first + RUNS_SHOWN)).unwrap_or_default();
    let line = |summary| -> Result<RunLine<'_>, PageError> {
        let CachedResult { expected, answer } = result(store, cache, summary)?;
        Ok(RunLine { summary, expected, answer })
    };
    let lines = shown.iter().map(line).collect::<Result<Vec<_>, _>>()?;
    let live = store.live_experiments()?;
    let tables = store.tables()?.iter().map(|name| store.table(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(report::html::runs(&RunsPage {
        runs: lines,
        tables: tables.iter().collect(),
        live: live.iter().rev().take(RUNS_SHOWN).collect(),
        runs_all: all,
        newer: (number > 1).then(|| number - 1),
        older: (first + RUNS_SHOWN < all).then_some(number + 1),
        served: ServedHeader {
            json: Some("/runs.json".into()),
            events: Some(format!("/events?seen={state}")),
            ..served(store)?
        },
        generated_by: generated_by(),
    }))
}

/// Returns the result of a run, which is computed once for each state of the run.
fn result(store: &Store, cache: &mut Cache, summary: &RunSummary) -> Result<CachedResult, PageError> {
    let state = format!("{}{:?}", summary.trials, summary.ended);
    if let Some((_, result)) = cache.results.get(&summary.id).filter(|(known, _)| *known == state) {
        return Ok(result.clone());
    }
    let loaded = LoadedRun::new(store, store.run(&summary.id.0)?, TrialNames::LeftOut, SuspectTrials::Kept)?;
    let unfinished = summary.ended.is_none();
    let answer = loaded.in_words().map(|answer| if unfinished { format!("so far: {answer}") } else { answer });
    let expected = unfinished.then(|| metrics::planned_trials(store, &loaded.record)).transpose()?;
    let result = CachedResult { expected, answer };
    if cache.results.len() >= RESULTS_MAX {
        cache.results.clear();
    }
    cache.results.insert(summary.id.clone(), (state, result.clone()));
    Ok(result)
}

/// Returns the comparison that a query requests.
fn compare_request(head: &RequestHead) -> Result<CompareRequest, CliError> {
    let values = |key: &str| -> Vec<String> {
        let of_key = head.query.iter().filter(|(name, value)| name == key && !value.is_empty());
        of_key.flat_map(|(_, value)| value.split(',').map(str::to_string)).collect()
    };
    let mut runs = values("run");
    runs.dedup();
    if runs.len() > COMPARED_MAX {
        return Err(CliError::usage(format!("at most {COMPARED_MAX} runs can be compared")));
    }
    let one = |key: &str| head.query_value(key).filter(|value| !value.is_empty()).map(str::to_string);
    // Several runs are compared with each other by default, not their placements.
    let by = one("by").or_else(|| (runs.len() > 1).then(|| "run".to_string()));
    let (baseline, table, metric) = (one("baseline"), one("table"), one("metric"));
    Ok(CompareRequest {
        by,
        baseline,
        table,
        metric,
        added_tables: Vec::new(),
        tests: values("test"),
        strict: false,
        runs,
    })
}

/// Renders the form and, if there is a query, the comparison.
fn comparison_page(store: &Store, head: &RequestHead) -> Result<String, PageError> {
    let request = compare_request(head)?;
    let all_metrics = head.query_value("all-metrics").is_some();
    let has_query = !head.query.is_empty();
    let result = has_query.then(|| comparison(&request, store)).transpose();
    let refused =
        result.as_ref().err().filter(|failure| failure.is_usage()).map(|failure| failure.parts().0.to_string());
    let comparison = match result {
        Ok(comparison) => comparison.map(|all| if all_metrics { all } else { all.main_metrics() }),
        Err(_) if refused.is_some() => None,
        Err(failure) => return Err(failure.into()),
    };
    let mut summaries = store.runs()?;
    summaries.reverse();
    let choice = |run: &RunSummary| {
        let chosen = request.runs.iter().any(|name| run.id.0.starts_with(name.as_str()));
        let (begun, machine) = (report::number::date(run.started_unix_ms), report::machine(run));
        (run.id.0.clone(), format!("{} {}, {begun}, {machine}", run.id, run.experiment), chosen)
    };
    let form = CompareForm {
        runs: summaries.iter().take(RUNS_SHOWN).map(choice).collect(),
        by: request.by.clone().unwrap_or_default(),
        baseline: request.baseline.clone().unwrap_or_default(),
        refused,
    };
    let query: Vec<String> =
        head.query.iter().map(|(key, value)| report::html::query(key, value).split_off(1)).collect();
    let json = comparison.is_some().then(|| format!("/compare.json?{}", query.join("&")));
    Ok(report::html::render(&ReportPage {
        comparisons: comparison.iter().collect(),
        generated_by: generated_by(),
        served: Some(ServedHeader { json, ..ServedHeader::default() }),
        form: Some(form),
        ..ReportPage::default()
    }))
}
