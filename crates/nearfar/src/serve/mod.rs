//! A server of pages for one reader or a few: HTTP/1.1 on plain threads, one for each connection, as many as there are permits.
//! Only GET and HEAD, no request body, one answer for each connection. Every request names its host and brings the token.
//! What is asked for is looked up in the results file by its id; no part of a request ever becomes a path. The file is only
//! read. Must not know HTML, which is `report`'s.

mod access;
mod address;
mod events;
mod listing;
mod pages;
mod request;
mod response;
mod route;

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use address::Address;

use crate::error::CliError;
use access::{AccessDecision, Guard};
use events::EventHub;
use pages::{PageCache, PageReply};
use request::{HeadError, Method, RequestHead};
use response::{HttpResponse, HttpStatus};

/// Connections at once: a few browsers have tens of them. Each is a thread that mostly waits.
const CONNECTIONS_MAX: usize = 128;
/// How many of them may be streams of events, which last; the others go round.
const STREAMS_MAX: usize = 64;
/// Who finds no permit waits so long before being told to come back.
const PERMIT_WAIT: Duration = Duration::from_secs(2);
/// A request's head has to be there after this.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// And an answer taken after this: 3 MB over a slow line.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// What a client still sends after its request is read for so long, because closing on it would take the answer away again.
const LINGER: Duration = Duration::from_secs(1);
/// Threads that are under way when the server ends have so long to end.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A running server. It ends with [`Server::end`] or with the process.
pub struct HttpServer {
    shared: Arc<ServerState>,
    address: SocketAddr,
    url: String,
}

struct ServerState {
    guard: Guard,
    desk: PageCache,
    feed: EventHub,
    connections: Semaphore,
    streams: Semaphore,
    ending: AtomicBool,
    quiet: bool,
}

impl HttpServer {
    /// Listens, and answers from now on.
    pub fn start(address: &Address, store: &Path, quiet: bool) -> Result<Self, CliError> {
        let token = machine::token::token()
            .map_err(|error| CliError::failure(format!("the kernel gives no random bits for a token: {error}")))?;
        let listener = address.listen()?;
        let bound =
            listener.local_addr().map_err(|error| CliError::failure(format!("no address to listen on: {error}")))?;
        let url = format!("http://{}/?token={token}", address.in_url(bound));
        let shared = Arc::new(ServerState {
            guard: Guard::new(token, bound, address.name()),
            desk: PageCache::new(store),
            feed: EventHub::new(store),
            connections: Semaphore::new(CONNECTIONS_MAX),
            streams: Semaphore::new(STREAMS_MAX),
            ending: AtomicBool::new(false),
            quiet,
        });
        let started = |error: io::Error| CliError::failure(format!("cannot start a thread: {error}"));
        let watching = shared.clone();
        thread::Builder::new().name("watch".into()).spawn(move || watching.feed.watch()).map_err(started)?;
        let accepting = shared.clone();
        thread::Builder::new().name("accept".into()).spawn(move || accept(&listener, &accepting)).map_err(started)?;
        Ok(Self { shared, address: bound, url })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser, token included.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn token(&self) -> &str {
        self.shared.guard.token()
    }

    /// Ends it: streams are closed, answers that are under way are given.
    pub fn end(self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.shared.feed.end();
        self.shared.connections.wait_for_all(END_LIMIT);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    for stream in listener.incoming() {
        if shared.ending.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => welcome(stream, shared),
            // Mostly too many open files; connections that end make room. Without a pause this loop would be all that runs.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A thread for the connection, or the answer that there is none.
fn welcome(stream: TcpStream, shared: &Arc<ServerState>) {
    let Some(permit) = shared.connections.take(PERMIT_WAIT) else {
        busy(stream);
        return;
    };
    let serving = shared.clone();
    // Where the thread cannot be made, the connection is closed with what was to be moved into it.
    let _ = thread::Builder::new().name("serve".into()).spawn(move || {
        let _permit = permit;
        serve(stream, &serving);
    });
}

/// Says that there is no room. What the client has sent is read first, if it is there: closing on it unread would take the
/// answer away before it is read.
fn busy(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = stream.read(&mut [0; request::BYTES_MAX]);
    let mut reply = HttpResponse::refusal(HttpStatus::Unavailable, "all connections are in use", None);
    reply.header("Retry-After", "1".into());
    let _ = reply.send(&mut stream, Method::Get, Duration::from_millis(200));
    let _ = stream.shutdown(Shutdown::Write);
}

/// One connection from its first byte to its last. What the network refuses is nobody's concern but the client's, who is gone.
fn serve(mut stream: TcpStream, shared: &ServerState) {
    let _ = stream.set_nodelay(true);
    let head = match request::read(&mut stream, HEAD_LIMIT) {
        Ok(head) => head,
        Err(HeadError::Gone) => return,
        Err(HeadError::With(status, why)) => {
            let _ = HttpResponse::refusal(status, why, None).send(&mut stream, Method::Get, ANSWER_LIMIT);
            linger(stream);
            return;
        }
    };
    let method = head.method;
    match answer(&head, shared) {
        PageReply::Reply(reply) => {
            let _ = reply.send(&mut stream, method, ANSWER_LIMIT);
        }
        PageReply::Stream(topic) => {
            let _ = follow(&mut stream, &head, &topic, shared);
        }
    }
    linger(stream);
}

fn answer(head: &RequestHead, shared: &ServerState) -> PageReply {
    match shared.guard.judge(head) {
        AccessDecision::Let => shared.desk.answer(head, shared.quiet),
        AccessDecision::Refuse(reply) | AccessDecision::Remember(reply) => PageReply::Reply(reply),
    }
}

/// A stream of events, where there is a permit for one.
fn follow(stream: &mut TcpStream, head: &RequestHead, topic: &events::Topic, shared: &ServerState) -> io::Result<()> {
    let Some(_permit) = shared.streams.take(Duration::ZERO) else {
        let mut reply =
            HttpResponse::refusal(HttpStatus::Unavailable, "too many pages follow their runs already", None);
        reply.header("Retry-After", "10".into());
        return reply.send(stream, head.method, ANSWER_LIMIT);
    };
    let seen = head.last_event_id.as_deref().or_else(|| head.asked("seen"));
    shared.feed.serve(stream, head.method, topic, seen, &|| shared.desk.pace())
}

/// Closes without taking away what was just sent: a client that is still sending would be told so by the kernel at once, and
/// forget the answer that it has not read yet.
fn linger(mut stream: TcpStream) {
    let until = Instant::now() + LINGER;
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut scrap = [0; 4096];
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        let _ = stream.set_read_timeout(Some(left));
        if !matches!(stream.read(&mut scrap), Ok(bytes) if bytes > 0) {
            return;
        }
    }
}

/// So many may do something at once.
struct Semaphore {
    inner: Arc<SemaphoreInner>,
}

struct SemaphoreInner {
    max: usize,
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// Leave to be one of them, until it is dropped.
struct Permit(Arc<SemaphoreInner>);

impl Semaphore {
    fn new(max: usize) -> Self {
        Self { inner: Arc::new(SemaphoreInner { max, taken: Mutex::new(0), given_back: Condvar::new() }) }
    }

    /// None when all are still taken after this time.
    fn take(&self, wait: Duration) -> Option<Permit> {
        let taken = self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken >= self.inner.max;
        let waited = self.inner.given_back.wait_timeout_while(taken, wait, full);
        let (mut taken, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() && *taken >= self.inner.max {
            return None;
        }
        *taken += 1;
        Some(Permit(self.inner.clone()))
    }

    /// Until none is taken, or the time is up.
    fn wait_for_all(&self, limit: Duration) {
        let taken = self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.inner.given_back.wait_timeout_while(taken, limit, |taken| *taken > 0);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_given_back_also_by_who_panics() {
        let permits = Semaphore::new(2);
        let (one, _two) = (permits.take(Duration::ZERO).unwrap(), permits.take(Duration::ZERO).unwrap());
        assert!(permits.take(Duration::from_millis(1)).is_none());
        let thread = thread::spawn(move || {
            let _one = one;
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert!(permits.take(Duration::ZERO).is_some());
    }
}
