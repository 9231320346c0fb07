//! Builds and sends responses: status, common header fields and the body. Must not depend on the contents.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::request::Method;
use super::status::HttpStatus;

/// Maximum length of a write; the deadline is checked between writes.
const PIECE: usize = 64 << 10;
/// Time limit of a write.
const PIECE_LIMIT: Duration = Duration::from_secs(10);

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

    /// Metrics in version 0.0.4 of Prometheus' text format.
    pub fn metrics(body: Arc<str>) -> Self {
        Self::new(HttpStatus::Ok, "text/plain; version=0.0.4; charset=utf-8", body)
    }

    /// A redirect to another path of this server.
    pub fn redirect(to: &str) -> Self {
        let mut response = Self::new(HttpStatus::SeeOther, "text/plain; charset=utf-8", "".into());
        response.header("Location", to.into());
        response
    }

    /// An empty response to a request for events, after which browsers do not reconnect.
    pub fn no_content() -> Self {
        Self::new(HttpStatus::NoContent, "", "".into())
    }

    /// An error page without links, for clients without access.
    pub fn refusal(status: HttpStatus, what: &str, hint: Option<&str>) -> Self {
        Self { status, ..Self::page(report::html::error_page(status.text(), what, hint, false).into()) }
    }

    /// An error page with links, for clients with access.
    pub fn error_page(status: HttpStatus, what: &str, hint: Option<&str>) -> Self {
        Self { status, ..Self::page(report::html::error_page(status.text(), what, hint, true).into()) }
    }

    fn new(status: HttpStatus, kind: &'static str, body: Arc<str>) -> Self {
        Self { status, kind, headers: Vec::new(), body }
    }

    /// Adds a header field. The value must be a single line.
    pub fn header(&mut self, name: &'static str, value: String) {
        debug_assert!(!value.contains(['\r', '\n']), "header fields are single lines");
        self.headers.push((name, value));
    }

    #[cfg(test)]
    pub fn location(&self) -> Option<&str> {
        self.headers.iter().find(|(name, _)| *name == "Location").map(|(_, value)| value.as_str())
    }

    /// Sends the response, at most for `limit`.
    pub fn send(&self, stream: &mut TcpStream, method: Method, limit: Duration) -> io::Result<()> {
        let mut head = common_head(self.status);
        if !self.kind.is_empty() {
            let _ = write!(head, "Content-Type: {}\r\n", self.kind); // cannot fail
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

/// Sends the head of an event stream.
pub fn send_stream_head(stream: &mut TcpStream) -> io::Result<()> {
    let head = common_head(HttpStatus::Ok) + "Content-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n\r\n";
    send_now(stream, &head)
}

/// Sends a few bytes, at most for [`PIECE_LIMIT`].
pub fn send_now(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    write_until(stream, text.as_bytes(), Instant::now() + PIECE_LIMIT)
}

/// Returns the status line and the common fields: responses are not cached, pages load nothing from other servers and
/// run only the two known scripts, and other sites cannot embed the pages.
fn common_head(status: HttpStatus) -> String {
    format!(
        "HTTP/1.1 {}\r\nServer: nearfar\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
         Content-Security-Policy: {}\r\n",
        status.text(),
        *POLICY
    )
}

/// The policy of a static report, with requests and forms for this server only.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let scripts = report::html::security_policy(&[report::html::SCRIPT, report::html::LIVE_SCRIPT]);
    format!("{scripts}; connect-src 'self'; form-action 'self'; frame-ancestors 'none'")
});

/// Writes all bytes before `until`. The time limit of the socket is per write, so it does not stop slow readers.
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
    fn policy_allows_scripts_only_by_hash() {
        assert_eq!(POLICY.matches("'sha256-").count(), 2);
        assert!(!POLICY.contains("script-src 'unsafe") && !POLICY.contains("http"), "{}", *POLICY);
    }
}
