//! HTTP/1.1 server for a few readers, with a bounded number of connections and one thread for each. It accepts GET and
//! HEAD without a body, and sends one response per connection. Every request must have a `Host` field and the token.
//! Objects are looked up in the results file by id; no part of a request becomes a path, and the file is opened
//! read-only. Must not depend on HTML, which `report` renders.

mod access;
mod address;
mod events;
mod listing;
mod metrics;
mod pages;
mod request;
mod response;
mod route;
mod status;

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use address::Address;
pub use pages::is_missing;

use crate::error::CliError;
use access::{AccessDecision, Guard};
use events::EventHub;
use pages::{PageCache, PageReply};
use request::{HeadError, Method, RequestHead};
use response::HttpResponse;
use status::HttpStatus;

/// Maximum number of connections: a few browsers open tens of them. Each has a thread, which mostly waits.
const CONNECTIONS_MAX: usize = 128;
/// Maximum number of event streams, which are long-lived; the other connections remain for pages.
const STREAMS_MAX: usize = 64;
/// Time limit to wait for a connection permit; then the client gets `Retry-After`.
const PERMIT_WAIT: Duration = Duration::from_millis(500);
/// Time limit to receive the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// The same while more than half of the connections are in use, so that slow clients do not keep pages waiting.
const BUSY_HEAD_LIMIT: Duration = Duration::from_secs(1);
/// Time limit to send a response: enough for 3 MB over a slow connection.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);
/// Time limit to read what a client still sends; closing earlier would reset the connection and lose the response.
const LINGER: Duration = Duration::from_secs(1);
/// Time limit for connection threads when the server ends.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A running server. It ends with [`HttpServer::end`] or with the process.
pub struct HttpServer {
    shared: Arc<ServerState>,
    address: SocketAddr,
    url: String,
}

struct ServerState {
    guard: Guard,
    pages: PageCache,
    events: EventHub,
    connections: Semaphore,
    streams: Semaphore,
    ending: AtomicBool,
    quiet: bool,
}

impl HttpServer {
    /// Binds the address and starts the threads that accept connections and watch the results file.
    pub fn start(address: &Address, store: &Path, quiet: bool) -> Result<Self, CliError> {
        let token = machine::token::token()
            .map_err(|error| CliError::failure(format!("cannot get random bytes for the token: {error}")))?;
        let listener = address.listen()?;
        let bound = listener.local_addr().map_err(|error| CliError::failure(format!("no local address: {error}")))?;
        let url = format!("http://{}/?token={token}", address.in_url(bound));
        let shared = Arc::new(ServerState {
            guard: Guard::new(token, bound, address.name()),
            pages: PageCache::new(store),
            events: EventHub::new(store),
            connections: Semaphore::new(CONNECTIONS_MAX),
            streams: Semaphore::new(STREAMS_MAX),
            ending: AtomicBool::new(false),
            quiet,
        });
        let failed = |error: io::Error| CliError::failure(format!("cannot start a thread: {error}"));
        let watching = shared.clone();
        thread::Builder::new().name("watch".into()).spawn(move || watching.events.watch()).map_err(failed)?;
        let accepting = shared.clone();
        thread::Builder::new().name("accept".into()).spawn(move || accept(&listener, &accepting)).map_err(failed)?;
        Ok(Self { shared, address: bound, url })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the start page with the token.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn token(&self) -> &str {
        self.shared.guard.token()
    }

    /// Closes event streams and waits for pending responses, at most [`END_LIMIT`].
    pub fn end(self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.shared.events.end();
        self.shared.connections.wait_for_all(END_LIMIT);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    for stream in listener.incoming() {
        if shared.ending.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => handle(stream, shared),
            // Usually too many open files, until connections end. The pause prevents a busy loop.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Serves the connection in a new thread, or refuses it if there is no permit.
fn handle(stream: TcpStream, shared: &Arc<ServerState>) {
    let Some(permit) = shared.connections.acquire(PERMIT_WAIT) else {
        refuse(stream);
        return;
    };
    let serving = shared.clone();
    // If the thread cannot be created, dropping the closure closes the connection.
    let _ = thread::Builder::new().name("serve".into()).spawn(move || {
        let _permit = permit;
        serve(stream, &serving);
    });
}

/// Refuses a connection. Any received data is read first, because closing with unread data would reset the connection
/// before the client reads the response.
fn refuse(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = stream.read(&mut [0; request::BYTES_MAX]);
    let mut response = HttpResponse::refusal(HttpStatus::Unavailable, "all connections are in use", None);
    response.header("Retry-After", "1".into());
    let _ = response.send(&mut stream, Method::Get, Duration::from_millis(200));
    let _ = stream.shutdown(Shutdown::Write);
}

/// Serves one connection. Network errors are ignored, because the client has gone.
fn serve(mut stream: TcpStream, shared: &ServerState) {
    let _ = stream.set_nodelay(true);
    let is_busy = shared.connections.in_use() > CONNECTIONS_MAX / 2;
    let head = match request::read(&mut stream, if is_busy { BUSY_HEAD_LIMIT } else { HEAD_LIMIT }) {
        Ok(head) => head,
        Err(HeadError::Gone) => return,
        Err(HeadError::With(status, message)) => {
            let _ = HttpResponse::refusal(status, message, None).send(&mut stream, Method::Get, RESPONSE_LIMIT);
            linger(stream);
            return;
        }
    };
    let method = head.method;
    match respond(&head, shared) {
        PageReply::Reply(response) => {
            let _ = response.send(&mut stream, method, RESPONSE_LIMIT);
        }
        PageReply::Stream(topic) => {
            let _ = follow(&mut stream, &head, &topic, shared);
        }
    }
    linger(stream);
}

fn respond(head: &RequestHead, shared: &ServerState) -> PageReply {
    match shared.guard.judge(head) {
        AccessDecision::Allow => shared.pages.respond(head, shared.quiet),
        AccessDecision::Refuse(response) | AccessDecision::SetCookie(response) => PageReply::Reply(response),
    }
}

/// Serves an event stream, or refuses it if there is no permit.
fn follow(stream: &mut TcpStream, head: &RequestHead, topic: &events::Topic, shared: &ServerState) -> io::Result<()> {
    let Some(_permit) = shared.streams.acquire(Duration::ZERO) else {
        let mut response = HttpResponse::refusal(HttpStatus::Unavailable, "too many pages follow their runs", None);
        response.header("Retry-After", "10".into());
        return response.send(stream, head.method, RESPONSE_LIMIT);
    };
    let seen = head.last_event_id.as_deref().or_else(|| head.query_value("seen"));
    shared.events.serve(stream, head.method, topic, seen, &|| shared.pages.min_interval())
}

/// Closes the connection when the client stops sending, at the latest after [`LINGER`]. Otherwise the kernel would
/// reset the connection, and the client would lose a response that it has not read yet.
fn linger(mut stream: TcpStream) {
    let until = Instant::now() + LINGER;
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut buffer = [0; 4096];
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        let _ = stream.set_read_timeout(Some(left));
        if !matches!(stream.read(&mut buffer), Ok(bytes) if bytes > 0) {
            return;
        }
    }
}

/// A counting semaphore with time limits.
struct Semaphore {
    inner: Arc<SemaphoreInner>,
}

struct SemaphoreInner {
    max: usize,
    in_use: Mutex<usize>,
    released: Condvar,
}

/// A permit of a [`Semaphore`], released on drop.
struct Permit(Arc<SemaphoreInner>);

impl Semaphore {
    fn new(max: usize) -> Self {
        Self { inner: Arc::new(SemaphoreInner { max, in_use: Mutex::new(0), released: Condvar::new() }) }
    }

    /// Returns a permit, or `None` if all are still in use after this time.
    fn acquire(&self, wait: Duration) -> Option<Permit> {
        let in_use = self.inner.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |in_use: &mut usize| *in_use >= self.inner.max;
        let waited = self.inner.released.wait_timeout_while(in_use, wait, full);
        let (mut in_use, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() && *in_use >= self.inner.max {
            return None;
        }
        *in_use += 1;
        Some(Permit(self.inner.clone()))
    }

    fn in_use(&self) -> usize {
        *self.inner.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all permits are released, at most for `limit`.
    fn wait_for_all(&self, limit: Duration) {
        let in_use = self.inner.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.inner.released.wait_timeout_while(in_use, limit, |in_use| *in_use > 0);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.in_use.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_released_on_panic() {
        let permits = Semaphore::new(2);
        let (one, _two) = (permits.acquire(Duration::ZERO).unwrap(), permits.acquire(Duration::ZERO).unwrap());
        assert!(permits.acquire(Duration::from_millis(1)).is_none());
        let thread = thread::spawn(move || {
            let _one = one;
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert!(permits.acquire(Duration::ZERO).is_some());
    }
}
