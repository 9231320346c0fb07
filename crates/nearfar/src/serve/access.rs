//! Access control: a request must have the token and a `Host` of this server. The host check prevents DNS rebinding, by
//! which pages of other sites would reach this server.

use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};

use super::request::{Method, RequestHead};
use super::response::HttpResponse;
use super::status::HttpStatus;

/// The token and the host names of the server.
pub struct Guard {
    token: String,
    /// Name of the cookie. It contains the port, because servers on different ports of a host share cookies.
    cookie: String,
    bound: IpAddr,
    /// Host names besides `localhost` and IP addresses.
    names: Vec<String>,
}

/// Decision about a request.
pub enum AccessDecision {
    Allow,
    /// Send this error.
    Refuse(HttpResponse),
    /// The URL has the token: send this redirect to the URL without it, which sets the cookie.
    SetCookie(HttpResponse),
}

impl Guard {
    /// Creates the guard of a server at `bound`; `name` is the host name given by the user.
    pub fn new(token: String, bound: SocketAddr, name: Option<&str>) -> Self {
        let mut names: Vec<String> = name.map(str::to_string).into_iter().collect();
        if bound.ip().is_unspecified() {
            names.extend(machine::settings::host_name().map(|name| name.to_ascii_lowercase()));
        }
        Self { token, cookie: format!("nearfar-{}", bound.port()), bound: bound.ip(), names }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// Checks a request. It must be called before the path is interpreted.
    pub fn judge(&self, head: &RequestHead) -> AccessDecision {
        let Some(host) = &head.host else {
            return refuse(HttpStatus::BadRequest, "the request has no Host field", None);
        };
        if !self.is_own_host(host) {
            let hint = "use localhost, or the URL that nearfar serve printed";
            return refuse(HttpStatus::Forbidden, "this server does not have that host name", Some(hint));
        }
        if head.method == Method::Other {
            let mut response =
                HttpResponse::refusal(HttpStatus::MethodNotAllowed, "this server supports only GET and HEAD", None);
            response.header("Allow", "GET, HEAD".into());
            return AccessDecision::Refuse(response);
        }
        if let Some(token) = head.query_value("token") {
            return if self.is_token(token) { AccessDecision::SetCookie(self.redirect(head)) } else { unauthorized() };
        }
        let has_token = |cookie: &String| {
            cookie.split_once('=').is_some_and(|(name, value)| name == self.cookie && self.is_token(value))
        };
        let is_authorized =
            head.bearer.as_deref().is_some_and(|token| self.is_token(token)) || head.cookies.iter().any(has_token);
        if is_authorized { AccessDecision::Allow } else { unauthorized() }
    }

    /// Whether a `Host` value is a name of this server. The port is ignored, because tunnels change it.
    fn is_own_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') && port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host.as_str(),
        };
        if name == "localhost" || self.names.iter().any(|own| own == name) {
            return true;
        }
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        // DNS rebinding is impossible with IP addresses.
        literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == self.bound || self.bound.is_unspecified())
    }

    /// Compares hashes in constant time, so that the duration does not reveal the first difference.
    fn is_token(&self, given: &str) -> bool {
        let (own, given) = (Sha256::digest(&self.token), Sha256::digest(given));
        std::hint::black_box(own.iter().zip(given.iter()).fold(0, |differs, (one, other)| differs | (one ^ other))) == 0
    }

    /// Redirects to the same URL without the token, which keeps it out of the address bar and the browser's history.
    fn redirect(&self, head: &RequestHead) -> HttpResponse {
        let mut to = head.path.clone();
        // Browsers treat a path that begins with `//` or `/\` as a URL of another server.
        while to.starts_with("//") || to.starts_with("/\\") {
            to.remove(1);
        }
        for (key, value) in head.query.iter().filter(|(key, _)| key != "token") {
            let pair = report::html::query(key, value);
            to += &if to.contains('?') { pair.replacen('?', "&", 1) } else { pair };
        }
        let mut response = HttpResponse::redirect(&to);
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token);
        response.header("Set-Cookie", cookie);
        response
    }
}

fn unauthorized() -> AccessDecision {
    let hint = "open the URL with the token that nearfar serve printed";
    let mut response = HttpResponse::refusal(HttpStatus::Unauthorized, "the token is missing or wrong", Some(hint));
    response.header("WWW-Authenticate", "Bearer".into());
    AccessDecision::Refuse(response)
}

fn refuse(status: HttpStatus, message: &str, hint: Option<&str>) -> AccessDecision {
    AccessDecision::Refuse(HttpResponse::refusal(status, message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(bound: &str, name: Option<&str>) -> Guard {
        Guard::new("secret".into(), bound.parse().unwrap(), name)
    }

    #[test]
    fn foreign_host_names_are_rejected() {
        let local = guard("127.0.0.1:6327", None);
        for own in ["localhost", "LocalHost:9", "127.0.0.1:6327", "127.0.0.2", "[::1]:6327", "[::1]"] {
            assert!(local.is_own_host(own), "{own}");
        }
        let others = [
            "",
            "evil.example",
            "evil.example:6327",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.168.1.7",
            "[::2]",
        ];
        for other in others {
            assert!(!local.is_own_host(other), "{other}");
        }
        assert!(guard("192.168.1.7:1", None).is_own_host("192.168.1.7:1"));
        assert!(guard("192.168.1.7:1", Some("desk")).is_own_host("desk:1"));
        let all = guard("0.0.0.0:1", None);
        assert!(all.is_own_host("10.1.2.3:1") && !all.is_own_host("evil.example"));
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let guard = guard("127.0.0.1:1", None);
        assert!(guard.is_token("secret"));
        for wrong in ["", "s", "secre", "secrets", "Secret", "secret\0"] {
            assert!(!guard.is_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn redirect_stays_on_this_server() {
        let head = |path: &str, query: &[(&str, &str)]| RequestHead {
            method: Method::Get,
            path: path.into(),
            query: query.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            host: Some("localhost".into()),
            cookies: Vec::new(),
            bearer: None,
            last_event_id: None,
        };
        let cases = [
            ("/", &[("token", "secret")][..], "/"),
            ("/compare", &[("by", "a b"), ("token", "secret"), ("run", "1")], "/compare?by=a%20b&run=1"),
            ("//evil.example/", &[("token", "secret")], "/evil.example/"),
            ("/\\/evil.example", &[("token", "secret")], "/evil.example"),
        ];
        for (path, query, expected) in cases {
            let AccessDecision::SetCookie(response) = guard("127.0.0.1:1", None).judge(&head(path, query)) else {
                panic!("{path}")
            };
            assert_eq!(response.location(), Some(expected));
        }
    }
}
