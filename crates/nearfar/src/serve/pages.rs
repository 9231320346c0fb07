//! Pages of what the results file holds, each made once for a state of the file and given to whoever asks until that has changed.
//! One is made at a time: this server is a guest on a machine where somebody measures.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lab::history::History;
use lab::run::forecast;
use model::values::record::{RunId, RunSummary};
use report::html::{CompareForm, ReportPage, RunLine, RunsPage, ServedHeader};
use serde_json::json;
use store::{Store, StoreError};

use super::events::Topic;
use super::listing::{extent_id, extent_in_words, progress_id, progress_in_words};
use super::request::RequestHead;
use super::response::{HttpResponse, HttpStatus};
use super::route::Route;
use crate::cli;
use crate::commands::compare;
use crate::error::CliError;
use crate::reported::{self, LoadedRun, generated_by};

/// Pages that are kept. One has 3 MB at most.
const PAGES_MAX: usize = 12;
/// Runs on a page of the list.
const RUNS_SHOWN: usize = 50;
/// Runs whose answers are kept.
const NOTES_MAX: usize = 1_000;
/// Runs that can be compared at once: beyond it nobody could read the columns.
const COMPARED_MAX: usize = 20;
/// A page is made anew for who follows a run after so many times what it takes to make it: a twentieth of one cpu, at most.
const PACE: u32 = 20;
/// And not more often than this.
const PACE_MIN: Duration = Duration::from_secs(1);

pub enum PageReply {
    Reply(HttpResponse),
    Stream(Topic),
}

/// Where pages are made.
pub struct PageCache {
    store: PathBuf,
    /// Held while a page is made.
    made: Mutex<CachedPage>,
    pace_ms: AtomicU64,
}

#[derive(Default)]
struct CachedPage {
    /// What was asked, the state of the file that it is of, and the page; the newest last.
    pages: VecDeque<(String, String, Arc<str>)>,
    /// What a run came to, and in which state.
    notes: BTreeMap<RunId, (String, Note)>,
}

/// What the list says of a run that takes all of its trials to know.
#[derive(Clone)]
struct Note {
    expected: Option<usize>,
    answer: Option<String>,
}

/// Why there is no page.
enum PageError {
    NotFound(StoreError),
    Mistake(CliError),
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
        if failure.is_usage() { Self::Mistake(failure) } else { Self::Failed(failure) }
    }
}

impl PageCache {
    pub fn new(store: &Path) -> Self {
        Self { store: store.into(), made: Mutex::default(), pace_ms: AtomicU64::new(0) }
    }

    /// How long a reader waits at least between two looks at the same page.
    pub fn pace(&self) -> Duration {
        Duration::from_millis(self.pace_ms.load(Ordering::Relaxed)).max(PACE_MIN)
    }

    /// What a request gets from who may ask.
    pub fn answer(&self, head: &RequestHead, quiet: bool) -> PageReply {
        let Some(route) = Route::of(&head.path) else {
            return PageReply::Reply(HttpResponse::error_page(HttpStatus::NotFound, "there is no such page", None));
        };
        self.found(&route, head)
            .unwrap_or_else(|trouble| PageReply::Reply(error_page(&trouble, route.is_for_programs(), quiet)))
    }

    fn found(&self, route: &Route, head: &RequestHead) -> Result<PageReply, PageError> {
        let store = Store::open_to_read(&self.store)?;
        Ok(PageReply::Reply(match route {
            Route::Events => return Ok(PageReply::Stream(Topic::File)),
            Route::RunEvents(name) => return Ok(PageReply::Stream(Topic::Run(id(&store, name)?))),
            Route::Runs => {
                let number = head.asked("page").and_then(|text| text.parse().ok()).unwrap_or(1_usize).clamp(1, 100_000);
                let state = extent_id(store.extent()?);
                let key = format!("runs {number}");
                HttpResponse::page(self.page(&key, &state, |made| list(&store, made, number))?)
            }
            Route::RunsJson => HttpResponse::json(HttpStatus::Ok, &report::json::runs(&store.runs()?)),
            Route::Run(name) => {
                let id = id(&store, name)?;
                if id.0 != *name {
                    return Ok(PageReply::Reply(HttpResponse::redirect(&format!("/runs/{id}"))));
                }
                let state = progress_id(&store.progress(&id)?);
                HttpResponse::page(self.page(&format!("run {id}"), &state, |_| run(&store, &id))?)
            }
            Route::RunJson(name) => {
                let loaded = LoadedRun::new(&store, store.run(&id(&store, name)?.0)?)?;
                HttpResponse::json(HttpStatus::Ok, &loaded.json())
            }
            Route::Report => {
                let state = extent_id(store.extent()?);
                let served = ServedHeader { events: Some(format!("/events?seen={state}")), ..served(&store)? };
                HttpResponse::page(self.page("report", &state, |_| Ok(reported::latest(&store, Some(served))?))?)
            }
            Route::Compare => {
                let (state, key) = (extent_id(store.extent()?), format!("compare {:?}", head.query));
                HttpResponse::page(self.page(&key, &state, |_| comparison_page(&store, head))?)
            }
            Route::CompareJson => HttpResponse::json(
                HttpStatus::Ok,
                &report::json::comparison(&compare::comparison(&asked(head)?, &store)?),
            ),
        }))
    }

    /// The page of this name in this state of the file, made when it is not there.
    fn page(
        &self,
        key: &str,
        state: &str,
        make: impl FnOnce(&mut CachedPage) -> Result<String, PageError>,
    ) -> Result<Arc<str>, PageError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, page)) = made.pages.iter().find(|(of, at, _)| of == key && at == state) {
            return Ok(page.clone());
        }
        let began = Instant::now();
        let page: Arc<str> = make(&mut made)?.into();
        let pace = (began.elapsed() * PACE).as_millis() as u64;
        self.pace_ms.store(pace, Ordering::Relaxed);
        made.pages.retain(|(of, _, _)| of != key);
        if made.pages.len() >= PAGES_MAX {
            made.pages.pop_front();
        }
        made.pages.push_back((key.into(), state.into(), page.clone()));
        Ok(page)
    }
}

/// What is said instead of a page.
fn error_page(trouble: &PageError, program: bool, quiet: bool) -> HttpResponse {
    let (status, text) = match trouble {
        PageError::NotFound(error) => (HttpStatus::NotFound, error.to_string()),
        PageError::Mistake(failure) => (HttpStatus::BadRequest, failure.to_string()),
        PageError::Failed(failure) => (HttpStatus::Internal, failure.to_string()),
    };
    if status == HttpStatus::Internal && !quiet {
        eprintln!("nearfar: {text}");
    }
    let (what, hint) = text.split_once("\nhint: ").map_or((text.as_str(), None), |(what, hint)| (what, Some(hint)));
    if program {
        return HttpResponse::json(status, &json!({ "error": what, "hint": hint }));
    }
    HttpResponse::error_page(status, what, hint)
}

/// The run that a name means: its id, the first letters of it, or `latest`.
fn id(store: &Store, name: &str) -> Result<RunId, PageError> {
    Ok(store.run(name)?.id)
}

/// What every page has beyond a report.
fn served(store: &Store) -> Result<ServedHeader, PageError> {
    Ok(ServedHeader { json: None, events: None, standing: extent_in_words(store.extent()?) })
}

fn run(store: &Store, id: &RunId) -> Result<String, PageError> {
    // Before the trials are read: what is stored meanwhile is news to this page.
    let progress = store.progress(id)?;
    let events = format!("/runs/{id}/events?seen={}", progress_id(&progress));
    let served = ServedHeader {
        json: Some(format!("/runs/{id}.json")),
        events: progress.ended.is_none().then_some(events),
        standing: progress_in_words(&progress),
    };
    Ok(reported::of(store, std::slice::from_ref(&id.0), Some(served))?)
}

/// A page of the list of runs.
fn list(store: &Store, made: &mut CachedPage, number: usize) -> Result<String, PageError> {
    let state = extent_id(store.extent()?);
    let mut runs = store.runs()?;
    runs.reverse();
    let (all, first) = (runs.len(), (number - 1).saturating_mul(RUNS_SHOWN));
    let shown = runs.get(first..all.min(first + RUNS_SHOWN)).unwrap_or_default();
    let line = |summary| -> Result<RunLine<'_>, PageError> {
        let Note { expected, answer } = note(store, made, summary)?;
        Ok(RunLine { summary, expected, answer })
    };
    let lines = shown.iter().map(line).collect::<Result<Vec<_>, _>>()?;
    let tables = store.tables()?.iter().map(|name| store.table(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(report::html::runs(&RunsPage {
        runs: lines,
        tables: tables.iter().collect(),
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

/// What a run came to, worked out once for each state of it.
fn note(store: &Store, made: &mut CachedPage, summary: &RunSummary) -> Result<Note, PageError> {
    let state = format!("{}{:?}", summary.trials, summary.ended);
    if let Some((_, note)) = made.notes.get(&summary.id).filter(|(of, _)| *of == state) {
        return Ok(note.clone());
    }
    let loaded = LoadedRun::new(store, store.run(&summary.id.0)?)?;
    let unfinished = summary.ended.is_none();
    let answer = loaded.in_words().map(|answer| if unfinished { format!("so far: {answer}") } else { answer });
    let expected = unfinished.then(|| forecast(&loaded.record.plan, &History::new(loaded.trials)).expected);
    let note = Note { expected, answer };
    if made.notes.len() >= NOTES_MAX {
        made.notes.clear();
    }
    made.notes.insert(summary.id.clone(), (state, note.clone()));
    Ok(note)
}

/// What `nearfar compare` would be asked.
fn asked(head: &RequestHead) -> Result<cli::CompareArgs, CliError> {
    let values = |key: &str| -> Vec<String> {
        let of_key = head.query.iter().filter(|(name, value)| name == key && !value.is_empty());
        of_key.flat_map(|(_, value)| value.split(',').map(str::to_string)).collect()
    };
    let mut runs = values("run");
    runs.dedup();
    if runs.len() > COMPARED_MAX {
        return Err(CliError::usage(format!("at most {COMPARED_MAX} runs are compared at once")));
    }
    let one = |key: &str| head.asked(key).filter(|value| !value.is_empty()).map(str::to_string);
    // Several runs are mostly compared with each other, not their placements.
    let by = one("by").or_else(|| (runs.len() > 1).then(|| "run".to_string()));
    Ok(cli::CompareArgs {
        by,
        baseline: one("baseline"),
        table: one("table"),
        parquet: None,
        runs,
        index: None,
        all_metrics: head.asked("all-metrics").is_some(),
        format: cli::TableFormat::Text,
    })
}

/// A comparison with the form that asks for one; the form alone where nothing is asked yet.
fn comparison_page(store: &Store, head: &RequestHead) -> Result<String, PageError> {
    let args = asked(head)?;
    let anything = !head.query.is_empty();
    let made = anything.then(|| compare::comparison(&args, store)).transpose();
    let refused = made.as_ref().err().filter(|failure| failure.is_usage()).map(|failure| failure.parts().0.to_string());
    let comparison = match made {
        Ok(comparison) => comparison.map(|made| if args.all_metrics { made } else { made.main_metrics() }),
        Err(_) if refused.is_some() => None,
        Err(failure) => return Err(failure.into()),
    };
    let mut summaries = store.runs()?;
    summaries.reverse();
    let choice = |run: &RunSummary| {
        let chosen = args.runs.iter().any(|name| run.id.0.starts_with(name.as_str()));
        let host = run.simulated.as_ref().map(|of| format!("simulated {of}")).or_else(|| run.host.clone());
        let begun = report::number::date(run.started_unix_ms);
        (run.id.0.clone(), format!("{} {}, {begun}, {}", run.id, run.experiment, host.unwrap_or_default()), chosen)
    };
    let form = CompareForm {
        runs: summaries.iter().take(RUNS_SHOWN).map(choice).collect(),
        by: args.by.clone().unwrap_or_default(),
        baseline: args.baseline.clone().unwrap_or_default(),
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
