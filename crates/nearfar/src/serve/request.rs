//! Reads the head of a request with a time limit and a size limit, and parses it. Must not depend on routes or access.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::status::HttpStatus;

/// Maximum length of a head; those of browsers have one or two KiB.
pub const BYTES_MAX: usize = 16 << 10;
/// Maximum number of header fields; browsers send about twenty.
const FIELDS_MAX: usize = 64;
/// Maximum number of reads after which an incomplete head is parsed; later ones are parsed only at the end of the head.
const EARLY_PARSES_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    /// Like GET, without the body.
    Head,
    /// Any other method; none is supported.
    Other,
}

/// A request without its body, which is never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub method: Method,
    /// The path without the query, not decoded.
    pub path: String,
    /// The query: decoded keys and values in their order.
    pub query: Vec<(String, String)>,
    /// The `Host` field, or the authority of a proxy request.
    pub host: Option<String>,
    /// All cookies, each as `NAME=VALUE`.
    pub cookies: Vec<String>,
    /// The bearer token of the `Authorization` field.
    pub bearer: Option<String>,
    /// The id of the last event that the client received.
    pub last_event_id: Option<String>,
}

/// Error of [`read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The client sent nothing or has gone, so no response is sent.
    Gone,
    With(HttpStatus, &'static str),
}

impl RequestHead {
    /// Returns the first value of a key of the query.
    pub fn query_value(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

pub fn read(stream: &mut TcpStream, limit: Duration) -> Result<RequestHead, HeadError> {
    let until = Instant::now() + limit;
    let (mut bytes, mut reads) = (Vec::with_capacity(2048), 0);
    let mut piece = [0; 2048];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(timeout(&bytes));
        }
        let count = match stream.read(&mut piece) {
            Ok(0) => return Err(truncated(&bytes)),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(timeout(&bytes));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Err(HeadError::Gone),
        };
        let unscanned = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&piece[..count]);
        reads += 1;
        let is_complete = bytes[unscanned..].windows(2).any(|two| two == b"\n\n")
            || bytes[unscanned..].windows(4).any(|four| four == b"\r\n\r\n");
        // Parsing after every byte of a slow client would waste CPU time.
        if (is_complete || reads <= EARLY_PARSES_MAX)
            && let Some(head) = parse(&bytes)?
        {
            return Ok(head);
        }
        if bytes.len() >= BYTES_MAX {
            return Err(HeadError::With(HttpStatus::HeadTooLarge, "the head of the request exceeds 16 KiB"));
        }
    }
}

/// Returns the error of a time-out. A client that sent nothing gets no response: browsers open spare connections.
fn timeout(bytes: &[u8]) -> HeadError {
    if bytes.is_empty() {
        HeadError::Gone
    } else {
        HeadError::With(HttpStatus::Timeout, "the request is incomplete: timed out")
    }
}

fn truncated(bytes: &[u8]) -> HeadError {
    if bytes.is_empty() { HeadError::Gone } else { bad("the request is truncated") }
}

fn bad(message: &'static str) -> HeadError {
    HeadError::With(HttpStatus::BadRequest, message)
}

/// Parses a head; returns `None` if it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<RequestHead>, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Err(HeadError::With(HttpStatus::HeadTooLarge, "the request has more than 64 header fields"));
        }
        Err(_) => return Err(bad("not an HTTP/1.1 request")),
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let (authority, path, query) = target(request.path.unwrap_or_default())?;
    let mut head = RequestHead {
        method,
        path: path.into(),
        query: pairs(query)?,
        host: authority.map(str::to_string),
        cookies: Vec::new(),
        bearer: None,
        last_event_id: None,
    };
    let mut has_host = false;
    for field in request.headers.iter() {
        let text = || std::str::from_utf8(field.value).map(str::trim).map_err(|_| bad("a header field is not UTF-8"));
        match field.name.to_ascii_lowercase().as_str() {
            "host" if has_host => return Err(bad("the request has two Host fields")),
            "host" => {
                has_host = true;
                let name = text()?.to_string();
                head.host.get_or_insert(name);
            }
            "cookie" => head.cookies.extend(text()?.split(';').map(|cookie| cookie.trim().to_string())),
            "authorization" => head.bearer = bearer(text()?),
            "last-event-id" => head.last_event_id = Some(text()?.to_string()),
            _ => {}
        }
    }
    Ok(Some(head))
}

fn bearer(text: &str) -> Option<String> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_string())
}

/// Splits a request target into authority, path and query. Only requests to proxies have an authority.
fn target(text: &str) -> Result<(Option<&str>, &str, &str), HeadError> {
    let text = text.split('#').next().unwrap_or_default();
    let (authority, rest) = match text.strip_prefix("http://") {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), if end == rest.len() { "/" } else { &rest[end..] })
        }
        None => (None, text),
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if path.starts_with('/') { Ok((authority, path, query)) } else { Err(bad("the request target is not a path")) }
}

/// Parses and decodes a query such as `a=1&b=two+words`.
fn pairs(query: &str) -> Result<Vec<(String, String)>, HeadError> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(key)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Result<String, HeadError> {
    percent_decoded(&text.replace('+', " ")).ok_or_else(|| bad("the query is malformed"))
}

/// Decodes `%XX`; returns `None` if an escape is malformed, or if the result is not UTF-8 or contains NUL.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return None };
        let digit = |digit: u8| char::from(digit).to_digit(16);
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &[u8]) -> Option<HttpStatus> {
        match parse(text) {
            Err(HeadError::With(status, _)) => Some(status),
            _ => None,
        }
    }

    #[test]
    fn request_head_is_parsed() {
        let text =
            b"GET /runs/ab?seen=1%2B1&by=two+words&flag HTTP/1.1\r\nHost: localhost:6327\r\nCookie: a=b; c=d\r\n\
                     Cookie: e=f\r\nAuthorization: bearer  xyz\r\nLAST-EVENT-ID: 7\r\n\r\n";
        let head = parse(text).unwrap().unwrap();
        assert_eq!((head.method, head.path.as_str()), (Method::Get, "/runs/ab"));
        assert_eq!(
            (head.query_value("seen"), head.query_value("by"), head.query_value("flag")),
            (Some("1+1"), Some("two words"), Some(""))
        );
        assert_eq!(head.host.as_deref(), Some("localhost:6327"));
        assert_eq!(head.cookies, ["a=b", "c=d", "e=f"]);
        assert_eq!((head.bearer.as_deref(), head.last_event_id.as_deref()), (Some("xyz"), Some("7")));
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), Ok(None), "cut after {cut}");
        }
    }

    #[test]
    fn proxy_request_target_names_the_host() {
        let head = parse(b"HEAD http://evil.example/x?y=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.method, head.path.as_str()), (Method::Head, "/x"));
        assert_eq!(head.host.as_deref(), Some("evil.example"), "RFC 9112, section 3.2.2");
    }

    #[test]
    fn malformed_requests_are_rejected() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        let cases: [(&[u8], HttpStatus); 9] = [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", HttpStatus::BadRequest),
            (b"hello\r\n\r\n", HttpStatus::BadRequest),
            (b"GET / HTTP/7.0\r\n\r\n", HttpStatus::BadRequest),
            (b"GET * HTTP/1.1\r\n\r\n", HttpStatus::BadRequest),
            (b"GET /?a=%zz HTTP/1.1\r\n\r\n", HttpStatus::BadRequest),
            (b"GET /?a=%00 HTTP/1.1\r\n\r\n", HttpStatus::BadRequest),
            (b"GET /?a=%ff HTTP/1.1\r\n\r\n", HttpStatus::BadRequest),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HttpStatus::BadRequest),
            (many.as_bytes(), HttpStatus::HeadTooLarge),
        ];
        for (text, expected) in cases {
            assert_eq!(status(text), Some(expected), "{}", String::from_utf8_lossy(text));
        }
    }
}
