//! An answer and how it is sent: status, the header fields that every answer has, and the body. Must not know what it says.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::request::Method;

/// So much is handed to the kernel at once; between two pieces the time is looked at.
const PIECE: usize = 64 << 10;
/// A piece that nobody takes for so long is given up.
const PIECE_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStatus {
    Ok,
    /// There is nothing and will be nothing.
    NoContent,
    SeeOther,
    /// No request of HTTP, or one that makes no sense.
    BadRequest,
    /// Without the token.
    Unauthorized,
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// Only GET and HEAD.
    MethodNotAllowed,
    /// Half a request, and then nothing.
    Timeout,
    HeadTooLarge,
    /// Our failure, or the results file's.
    Internal,
    Unavailable,
}

impl HttpStatus {
    /// Number and words, as they are sent and shown.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::NoContent => "204 No Content",
            Self::SeeOther => "303 See Other",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Internal => "500 Internal Server Error",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    status: HttpStatus,
    kind: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Arc<str>,
}

impl HttpResponse {
    pub fn page(body: Arc<str>) -> Self {
        Self::new(HttpStatus::Ok, "text/html; charset=utf-8", body)
    }

    pub fn json(status: HttpStatus, value: &serde_json::Value) -> Self {
        Self::new(status, "application/json", format!("{value:#}\n").into())
    }

    /// That it is elsewhere on this server.
    pub fn redirect(to: &str) -> Self {
        let mut reply = Self::new(HttpStatus::SeeOther, "text/plain; charset=utf-8", "".into());
        reply.header("Location", to.into());
        reply
    }

    /// That there is nothing and will be nothing: a stream of events is not asked for again.
    pub fn nothing() -> Self {
        Self::new(HttpStatus::NoContent, "", "".into())
    }

    /// A page that says what is wrong, without a way further, for who may not be let in.
    pub fn refusal(status: HttpStatus, what: &str, hint: Option<&str>) -> Self {
        Self { status, ..Self::page(report::html::error_page(status.words(), what, hint, false).into()) }
    }

    /// A page that says what is wrong to who is in.
    pub fn error_page(status: HttpStatus, what: &str, hint: Option<&str>) -> Self {
        Self { status, ..Self::page(report::html::error_page(status.words(), what, hint, true).into()) }
    }

    fn new(status: HttpStatus, kind: &'static str, body: Arc<str>) -> Self {
        Self { status, kind, headers: Vec::new(), body }
    }

    /// Adds a header field; what it says is ours.
    pub fn header(&mut self, name: &'static str, value: String) {
        debug_assert!(!value.contains(['\r', '\n']), "a field is one line");
        self.headers.push((name, value));
    }

    #[cfg(test)]
    pub fn location(&self) -> Option<&str> {
        self.headers.iter().find(|(name, _)| *name == "Location").map(|(_, value)| value.as_str())
    }

    /// Sends it, as long as the client takes it.
    pub fn send(&self, stream: &mut TcpStream, method: Method, limit: Duration) -> io::Result<()> {
        let mut head = start(self.status);
        if !self.kind.is_empty() {
            let _ = write!(head, "Content-Type: {}\r\n", self.kind); // text can always be written to
        }
        if self.status != HttpStatus::NoContent {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head += "\r\n";
        let until = Instant::now() + limit;
        write_until(stream, head.as_bytes(), until)?;
        if method == Method::Head { Ok(()) } else { write_until(stream, self.body.as_bytes(), until) }
    }
}

/// The head of a stream of events, which goes on.
pub fn send_stream_head(stream: &mut TcpStream) -> io::Result<()> {
    let head = start(HttpStatus::Ok) + "Content-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n\r\n";
    send_now(stream, &head)
}

/// A few bytes to a client that should be there.
pub fn send_now(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    write_until(stream, text.as_bytes(), Instant::now() + PIECE_LIMIT)
}

/// Status line and the fields that every answer has: nothing is kept by anybody on the way, nothing is fetched from elsewhere,
/// no script runs but ours, no other site shows the page inside of its own.
fn start(status: HttpStatus) -> String {
    format!(
        "HTTP/1.1 {}\r\nServer: nearfar\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
         Content-Security-Policy: {}\r\n",
        status.words(),
        *POLICY
    )
}

/// Our two scripts are named by their hashes. Styles may stand in the page, where pictures have their own: without a network a
/// style can tell nobody anything.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |script: &str| format!("'sha256-{}'", base64(&Sha256::digest(script)));
    format!(
        "default-src 'none'; script-src {} {}; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(report::html::SCRIPT),
        hash(report::html::LIVE_SCRIPT)
    )
});

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let joined = three.iter().fold(0_u32, |joined, byte| joined << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letter = |at: usize| char::from(LETTERS[(joined >> (18 - 6 * at)) as usize & 63]);
        (0..4).map(|at| if at <= three.len() { letter(at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// The kernel's limit is for each piece, so a client that takes a byte now and then is stopped here.
fn write_until(stream: &mut TcpStream, bytes: &[u8], until: Instant) -> io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        let mut rest = piece;
        while !rest.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left.min(PIECE_LIMIT)))?;
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_written_as_others_write_it() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{fb}\u{ff}", "w7vDvw=="),
        ];
        for (plain, expected) in cases {
            assert_eq!(base64(plain.as_bytes()), expected, "{plain:?}");
        }
    }

    #[test]
    fn scripts_are_named_by_their_hashes_and_nothing_else_may_run() {
        assert_eq!(POLICY.matches("'sha256-").count(), 2);
        assert!(!POLICY.contains("script-src 'unsafe") && !POLICY.contains("http"), "{}", *POLICY);
    }
}
