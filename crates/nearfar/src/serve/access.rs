//! Who may ask: whoever names this server by a name that is its own, and brings the token. The first keeps pages of other
//! sites out whose names lead here (DNS rebinding), the second everybody else.

use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};

use super::request::{Method, RequestHead};
use super::response::{HttpResponse, HttpStatus};

/// What decides who may ask.
pub struct Guard {
    token: String,
    /// Cookies know no ports: two servers on one machine must not take each other's away.
    cookie: String,
    bound: IpAddr,
    /// Names beside `localhost` and addresses.
    names: Vec<String>,
}

/// What is done with a request.
pub enum AccessDecision {
    Let,
    /// It is refused with this.
    Refuse(HttpResponse),
    /// It brought the token in its address: the same again, with the token kept as a cookie.
    Remember(HttpResponse),
}

impl Guard {
    /// For a server that listens there; `name` is what its user called the address.
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

    /// Whether a request is answered; what it asks for is not looked at before.
    pub fn judge(&self, head: &RequestHead) -> AccessDecision {
        let Some(host) = &head.host else {
            return refuse(HttpStatus::BadRequest, "the request does not say which host it is for", None);
        };
        if !self.is_own(host) {
            let hint = "use localhost, or the address that nearfar serve printed";
            return refuse(HttpStatus::Forbidden, "this server is not known by that name", Some(hint));
        }
        if head.method == Method::Other {
            let mut reply =
                HttpResponse::refusal(HttpStatus::MethodNotAllowed, "this server only answers GET and HEAD", None);
            reply.header("Allow", "GET, HEAD".into());
            return AccessDecision::Refuse(reply);
        }
        if let Some(token) = head.asked("token") {
            return if self.is_token(token) { AccessDecision::Remember(self.remember(head)) } else { unknown() };
        }
        let of_cookie = |cookie: &String| {
            cookie.split_once('=').is_some_and(|(name, value)| name == self.cookie && self.is_token(value))
        };
        let known =
            head.bearer.as_deref().is_some_and(|token| self.is_token(token)) || head.cookies.iter().any(of_cookie);
        if known { AccessDecision::Let } else { unknown() }
    }

    /// The port may be any: whoever comes through a tunnel sees another one.
    fn is_own(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') && port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host.as_str(),
        };
        if name == "localhost" || self.names.iter().any(|own| own == name) {
            return true;
        }
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        // An address is no name that somebody else could make lead here.
        literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == self.bound || self.bound.is_unspecified())
    }

    /// By their hashes, and all of those: how long it takes says nothing of where they differ.
    fn is_token(&self, given: &str) -> bool {
        let (own, given) = (Sha256::digest(&self.token), Sha256::digest(given));
        std::hint::black_box(own.iter().zip(given.iter()).fold(0, |differs, (one, other)| differs | (one ^ other))) == 0
    }

    /// To the same place without the token, so that it stays neither in the address bar nor in the browser's history.
    fn remember(&self, head: &RequestHead) -> HttpResponse {
        let mut to = head.path.clone();
        // An address that begins with two slashes, or what browsers take for them, would lead to another server.
        while to.starts_with("//") || to.starts_with("/\\") {
            to.remove(1);
        }
        for (key, value) in head.query.iter().filter(|(key, _)| key != "token") {
            let pair = report::html::query(key, value);
            to += &if to.contains('?') { pair.replacen('?', "&", 1) } else { pair };
        }
        let mut reply = HttpResponse::redirect(&to);
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token);
        reply.header("Set-Cookie", cookie);
        reply
    }
}

fn unknown() -> AccessDecision {
    let hint = "open the address with the token that nearfar serve has printed";
    let mut reply =
        HttpResponse::refusal(HttpStatus::Unauthorized, "the token is missing, or it is of another server", Some(hint));
    reply.header("WWW-Authenticate", "Bearer".into());
    AccessDecision::Refuse(reply)
}

fn refuse(status: HttpStatus, why: &str, hint: Option<&str>) -> AccessDecision {
    AccessDecision::Refuse(HttpResponse::refusal(status, why, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(bound: &str, name: Option<&str>) -> Guard {
        Guard::new("secret".into(), bound.parse().unwrap(), name)
    }

    #[test]
    fn only_own_names_are_answered_to() {
        let local = guard("127.0.0.1:6327", None);
        for own in ["localhost", "LocalHost:9", "127.0.0.1:6327", "127.0.0.2", "[::1]:6327", "[::1]"] {
            assert!(local.is_own(own), "{own}");
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
            assert!(!local.is_own(other), "{other}");
        }
        assert!(guard("192.168.1.7:1", None).is_own("192.168.1.7:1"));
        assert!(guard("192.168.1.7:1", Some("desk")).is_own("desk:1"));
        let all = guard("0.0.0.0:1", None);
        assert!(all.is_own("10.1.2.3:1") && !all.is_own("evil.example"));
    }

    #[test]
    fn a_token_is_the_whole_token() {
        let guard = guard("127.0.0.1:1", None);
        assert!(guard.is_token("secret"));
        for wrong in ["", "s", "secre", "secrets", "Secret", "secret\0"] {
            assert!(!guard.is_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_way_back_stays_on_this_server() {
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
            let AccessDecision::Remember(reply) = guard("127.0.0.1:1", None).judge(&head(path, query)) else {
                panic!("{path}")
            };
            assert_eq!(reply.location(), Some(expected));
        }
    }
}
