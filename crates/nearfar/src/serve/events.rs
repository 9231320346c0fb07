//! Server-sent events: one thread polls the results file while there are subscribers, and connection threads send
//! changes to browsers. An event is a state, not a difference, so a client that reconnects misses nothing.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::analysis::live::LiveId;
use model::values::record::RunId;
use serde_json::json;
use store::{Progress, Store, StoreError};

use super::request::Method;
use super::response::{HttpResponse, send_now, send_stream_head};
use super::{RESPONSE_LIMIT, listing};

/// Interval of polls of the file's version, which takes microseconds: it reads a few bytes of shared memory.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of attempts to read an unreadable file.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum interval between messages, which shows that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Interval of checks whether the client is still connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    File,
    Run(RunId),
    /// An experiment on a running service.
    Live(LiveId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicState {
    /// Equal ids mean equal states.
    pub id: String,
    /// The data of the event: one line of JSON.
    pub data: String,
    /// Whether this state is final.
    pub ended: bool,
}

pub struct EventHub {
    store: PathBuf,
    state: Mutex<HubState>,
    /// Notified on a new subscriber, a changed state, and the end.
    changed: Condvar,
}

#[derive(Default)]
struct HubState {
    ending: bool,
    /// Number of subscribers and state of each subscribed topic; `None` before the first poll.
    topics: BTreeMap<Topic, (usize, Option<Arc<TopicState>>)>,
}

impl HubState {
    fn has_new_topic(&self) -> bool {
        self.topics.values().any(|(_, state)| state.is_none())
    }
}

/// A subscription of a topic, which ends on drop.
struct Subscription<'a> {
    hub: &'a EventHub,
    topic: &'a Topic,
}

impl EventHub {
    pub fn new(store: &Path) -> Self {
        Self { store: store.into(), state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends [`EventHub::watch`] and every stream.
    pub fn end(&self) {
        self.lock().ending = true;
        self.changed.notify_all();
    }

    /// Polls the file while there are subscribers, until [`EventHub::end`].
    pub fn watch(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| !state.ending && state.topics.is_empty());
            if state.unwrap_or_else(PoisonError::into_inner).ending {
                return;
            }
            // An unreadable file may become readable. Pages report the error.
            if self.watch_file().is_err() {
                let state = self.changed.wait_timeout_while(self.lock(), RETRY_INTERVAL, |state| !state.ending);
                if state.unwrap_or_else(PoisonError::into_inner).0.ending {
                    return;
                }
            }
        }
    }

    /// Polls one file until there are no subscribers, or until the path refers to another file.
    fn watch_file(&self) -> Result<(), StoreError> {
        let store = Store::open_to_read(&self.store)?;
        let opened = identity(&self.store);
        let mut version = None;
        loop {
            let now = store.data_version()?;
            let topics: Vec<Topic> = {
                let state = self.lock();
                if state.ending || state.topics.is_empty() {
                    return Ok(());
                }
                let stale = |entry: &(usize, Option<Arc<TopicState>>)| version != Some(now) || entry.1.is_none();
                state.topics.iter().filter(|(_, entry)| stale(entry)).map(|(topic, _)| topic.clone()).collect()
            };
            version = Some(now);
            for topic in topics {
                let current = topic_state(&store, &topic)?;
                if let Some((_, known)) = self.lock().topics.get_mut(&topic) {
                    *known = Some(Arc::new(current));
                }
                self.changed.notify_all();
            }
            let idle = |state: &mut HubState| !state.ending && !state.topics.is_empty() && !state.has_new_topic();
            let _ = self
                .changed
                .wait_timeout_while(self.lock(), POLL_INTERVAL, idle)
                .unwrap_or_else(PoisonError::into_inner);
            if identity(&self.store) != opened {
                return Ok(());
            }
        }
    }

    /// Sends each change of a topic until the client or the server ends. Events are at least `min_interval` apart,
    /// which limits the CPU time that followers take from a run.
    pub fn serve(
        &self,
        stream: &mut TcpStream,
        method: Method,
        topic: &Topic,
        seen: Option<&str>,
        min_interval: &dyn Fn() -> Duration,
    ) -> io::Result<()> {
        let subscription = Subscription::new(self, topic);
        let mut seen = seen.map(str::to_string);
        if let Some(state) = subscription.wait(RESPONSE_LIMIT, None)
            && state.ended
            && seen.as_deref() == Some(state.id.as_str())
        {
            return HttpResponse::no_content().send(stream, method, RESPONSE_LIMIT);
        }
        send_stream_head(stream)?;
        if method == Method::Head {
            return Ok(());
        }
        send_now(stream, "retry: 2000\n\n")?;
        let (mut last_sent, mut not_before) = (Instant::now(), Instant::now());
        loop {
            let change = subscription.wait(CLIENT_CHECK_INTERVAL, seen.as_deref());
            if self.lock().ending || is_gone(stream) {
                return Ok(());
            }
            if let Some(state) = change {
                // A later state may replace this one, but the final state is sent at once.
                let early = not_before.saturating_duration_since(Instant::now());
                if !early.is_zero() && !state.ended {
                    self.sleep(early.min(CLIENT_CHECK_INTERVAL));
                    continue;
                }
                send_now(stream, &format!("id: {}\nevent: change\ndata: {}\n\n", state.id, state.data))?;
                last_sent = Instant::now();
                not_before = last_sent + min_interval();
                seen = Some(state.id.clone());
                if state.ended {
                    return Ok(());
                }
            } else if last_sent.elapsed() >= HEARTBEAT {
                send_now(stream, ": nothing new\n\n")?;
                last_sent = Instant::now();
            }
        }
    }

    fn sleep(&self, time: Duration) {
        let _ = self.changed.wait_timeout_while(self.lock(), time, |state| !state.ending);
    }
}

impl<'a> Subscription<'a> {
    fn new(hub: &'a EventHub, topic: &'a Topic) -> Self {
        hub.lock().topics.entry(topic.clone()).or_default().0 += 1;
        hub.changed.notify_all();
        Self { hub, topic }
    }

    /// Waits for a state other than `seen`; returns `None` after `time` and at the end.
    fn wait(&self, time: Duration, seen: Option<&str>) -> Option<Arc<TopicState>> {
        let change = |state: &HubState| {
            let current = state.topics.get(self.topic)?.1.clone()?;
            (seen != Some(current.id.as_str())).then_some(current)
        };
        let waited = self
            .hub
            .changed
            .wait_timeout_while(self.hub.lock(), time, |state| !state.ending && change(state).is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        change(&state)
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        if let Some((subscribers, _)) = state.topics.get_mut(self.topic) {
            *subscribers -= 1;
            if *subscribers == 0 {
                state.topics.remove(self.topic);
            }
        }
        drop(state);
        self.hub.changed.notify_all();
    }
}

fn topic_state(store: &Store, topic: &Topic) -> Result<TopicState, StoreError> {
    match topic {
        Topic::File => {
            let extent = store.extent()?;
            let text = listing::extent_in_words(extent);
            let data = json!({ "standing": text, "runs": extent.runs, "trials": extent.trials, "ended": false });
            Ok(TopicState { id: listing::extent_id(extent), data: data.to_string(), ended: false })
        }
        Topic::Run(run) => match store.progress(run) {
            Ok(progress) => Ok(run_state(&progress)),
            Err(error) => removed(error),
        },
        Topic::Live(id) => match store.live_progress(id) {
            Ok(progress) => {
                let (standing, ended) = (listing::live_progress_in_words(progress), progress.has_ended);
                let data = json!({ "standing": standing, "periods": progress.periods, "ended": ended });
                Ok(TopicState { id: listing::live_progress_id(progress), data: data.to_string(), ended })
            }
            Err(error) => removed(error),
        },
    }
}

/// Returns the state of a run or an experiment that the file lacks, because another one has replaced it.
fn removed(error: StoreError) -> Result<TopicState, StoreError> {
    let StoreError::NoSuchRun { .. } = error else { return Err(error) };
    let data = json!({ "standing": "this run is no longer in the results file", "ended": true });
    Ok(TopicState { id: "gone".into(), data: data.to_string(), ended: true })
}

fn run_state(progress: &Progress) -> TopicState {
    let ended = progress.ended.is_some();
    let data = json!({
        "standing": listing::progress_in_words(progress),
        "trials": progress.trials,
        "verdicts": progress.verdicts,
        "ended": ended,
    });
    TopicState { id: listing::progress_id(progress), data: data.to_string(), ended }
}

/// Returns device and inode of the file, which change if the file is replaced.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file: Metadata| (file.dev(), file.ino()))
}

/// Whether the client has closed the connection. Clients send nothing more, so a stream is readable only at its end.
fn is_gone(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut [0]);
    let restored = stream.set_nonblocking(false);
    let is_open = match peeked {
        Ok(count) => count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    };
    !is_open || restored.is_err()
}
