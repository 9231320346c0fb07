//! News: one thread looks whether the results file has changed, as long as somebody wants to know; others pass it on to
//! browsers as server-sent events. What is told is a state and not a history, so a reader who was away misses nothing.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::values::record::RunId;
use serde_json::json;
use store::{Progress, Store, StoreError};

use super::request::Method;
use super::response::{HttpResponse, send_now, send_stream_head};
use super::{ANSWER_LIMIT, listing};

/// How often the file is looked at: a shared memory of a few bytes, that takes microseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A file that cannot be read is tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// A stream without news says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a stream without news looks whether its reader is still there.
const LOOK_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    File,
    Run(RunId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicState {
    /// Equal ids mean that nothing has changed.
    pub id: String,
    /// What readers are told, as one line of JSON.
    pub data: String,
    /// There will be no more news.
    pub ended: bool,
}

pub struct EventHub {
    store: PathBuf,
    state: Mutex<FeedState>,
    /// When somebody comes, when there are news, when it ends.
    changed: Condvar,
}

#[derive(Default)]
struct FeedState {
    ending: bool,
    /// What somebody wants to know of, how many they are, and how it stands; none before it was looked at.
    topics: BTreeMap<Topic, (usize, Option<Arc<TopicState>>)>,
}

impl FeedState {
    fn is_asked_something_new(&self) -> bool {
        self.topics.values().any(|(_, standing)| standing.is_none())
    }
}

/// Somebody's interest in a topic.
struct Subscription<'a> {
    feed: &'a EventHub,
    topic: &'a Topic,
}

impl EventHub {
    pub fn new(store: &Path) -> Self {
        Self { store: store.into(), state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends [`EventHub::watch`] and every stream.
    pub fn end(&self) {
        self.lock().ending = true;
        self.changed.notify_all();
    }

    /// Looks at the file while somebody wants to know, until the end.
    pub fn watch(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| !state.ending && state.topics.is_empty());
            if state.unwrap_or_else(PoisonError::into_inner).ending {
                return;
            }
            // A file that cannot be read now may be readable later; pages say what is wrong with it.
            if self.watch_file().is_err() {
                let state = self.changed.wait_timeout_while(self.lock(), TRY_AGAIN, |state| !state.ending);
                if state.unwrap_or_else(PoisonError::into_inner).0.ending {
                    return;
                }
            }
        }
    }

    /// Until nobody wants to know any more, or another file has its name.
    fn watch_file(&self) -> Result<(), StoreError> {
        let store = Store::open_to_read(&self.store)?;
        let own = identity(&self.store);
        let mut version = None;
        loop {
            let now = store.data_version()?;
            let topics: Vec<Topic> = {
                let state = self.lock();
                if state.ending || state.topics.is_empty() {
                    return Ok(());
                }
                let stale = |of: &(usize, Option<Arc<TopicState>>)| version != Some(now) || of.1.is_none();
                state.topics.iter().filter(|(_, of)| stale(of)).map(|(topic, _)| topic.clone()).collect()
            };
            version = Some(now);
            for topic in topics {
                let standing = standing(&store, &topic)?;
                if let Some((_, known)) = self.lock().topics.get_mut(&topic) {
                    *known = Some(Arc::new(standing));
                }
                self.changed.notify_all();
            }
            let idle =
                |state: &mut FeedState| !state.ending && !state.topics.is_empty() && !state.is_asked_something_new();
            let _ =
                self.changed.wait_timeout_while(self.lock(), LOOK_AGAIN, idle).unwrap_or_else(PoisonError::into_inner);
            if identity(&self.store) != own {
                return Ok(());
            }
        }
    }

    /// Tells a reader how things stand whenever that has changed, until one of both ends. Not faster than `pace` says, so that
    /// following a run does not take the processor from it.
    pub fn serve(
        &self,
        stream: &mut TcpStream,
        method: Method,
        topic: &Topic,
        seen: Option<&str>,
        pace: &dyn Fn() -> Duration,
    ) -> io::Result<()> {
        let interest = Subscription::new(self, topic);
        let mut seen = seen.map(str::to_string);
        if let Some(standing) = interest.wait(ANSWER_LIMIT, None)
            && standing.ended
            && seen.as_deref() == Some(standing.id.as_str())
        {
            return HttpResponse::nothing().send(stream, method, ANSWER_LIMIT);
        }
        send_stream_head(stream)?;
        if method == Method::Head {
            return Ok(());
        }
        send_now(stream, "retry: 2000\n\n")?;
        let (mut said, mut not_before) = (Instant::now(), Instant::now());
        loop {
            let news = interest.wait(LOOK_AFTER, seen.as_deref());
            if self.lock().ending || is_gone(stream) {
                return Ok(());
            }
            if let Some(standing) = news {
                // Later news replace these, but the last are told at once.
                let early = not_before.saturating_duration_since(Instant::now());
                if !early.is_zero() && !standing.ended {
                    self.rest(early.min(LOOK_AFTER));
                    continue;
                }
                send_now(stream, &format!("id: {}\nevent: change\ndata: {}\n\n", standing.id, standing.data))?;
                said = Instant::now();
                not_before = said + pace();
                seen = Some(standing.id.clone());
                if standing.ended {
                    return Ok(());
                }
            } else if said.elapsed() >= HEARTBEAT {
                send_now(stream, ": nothing new\n\n")?;
                said = Instant::now();
            }
        }
    }

    /// Waits, but not beyond the end.
    fn rest(&self, time: Duration) {
        let _ = self.changed.wait_timeout_while(self.lock(), time, |state| !state.ending);
    }
}

impl<'a> Subscription<'a> {
    fn new(feed: &'a EventHub, topic: &'a Topic) -> Self {
        feed.lock().topics.entry(topic.clone()).or_default().0 += 1;
        feed.changed.notify_all();
        Self { feed, topic }
    }

    /// How it stands, as soon as that is known and another than the one seen; none at the end and when the time is up.
    fn wait(&self, time: Duration, seen: Option<&str>) -> Option<Arc<TopicState>> {
        let news = |state: &FeedState| {
            let standing = state.topics.get(self.topic)?.1.clone()?;
            (seen != Some(standing.id.as_str())).then_some(standing)
        };
        let waited = self
            .feed
            .changed
            .wait_timeout_while(self.feed.lock(), time, |state| !state.ending && news(state).is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        news(&state)
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut state = self.feed.lock();
        if let Some((readers, _)) = state.topics.get_mut(self.topic) {
            *readers -= 1;
            if *readers == 0 {
                state.topics.remove(self.topic);
            }
        }
        drop(state);
        self.feed.changed.notify_all();
    }
}

fn standing(store: &Store, topic: &Topic) -> Result<TopicState, StoreError> {
    match topic {
        Topic::File => {
            let extent = store.extent()?;
            let standing = listing::extent_in_words(extent);
            let data = json!({ "standing": standing, "runs": extent.runs, "trials": extent.trials, "ended": false });
            Ok(TopicState { id: listing::extent_id(extent), data: data.to_string(), ended: false })
        }
        Topic::Run(run) => match store.progress(run) {
            Ok(progress) => Ok(of_run(&progress)),
            // Another file has the name of the one that had it.
            Err(StoreError::NoSuchRun { .. }) => {
                let data = json!({ "standing": "this run is no longer in the results file", "ended": true });
                Ok(TopicState { id: "gone".into(), data: data.to_string(), ended: true })
            }
            Err(error) => Err(error),
        },
    }
}

fn of_run(progress: &Progress) -> TopicState {
    let ended = progress.ended.is_some();
    let data = json!({
        "standing": listing::progress_in_words(progress),
        "trials": progress.trials,
        "verdicts": progress.verdicts,
        "ended": ended,
    });
    TopicState { id: listing::progress_id(progress), data: data.to_string(), ended }
}

/// Which file has this name: one that was put in its place is another.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file: Metadata| (file.dev(), file.ino()))
}

/// Whether the reader has hung up. It has nothing more to say, so what can be read is its end.
fn is_gone(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let looked = stream.peek(&mut [0]);
    let back = stream.set_nonblocking(false);
    let there = match looked {
        Ok(count) => count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    };
    !there || back.is_err()
}
