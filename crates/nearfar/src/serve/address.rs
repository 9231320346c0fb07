//! Where to listen: this machine alone, unless somebody says otherwise.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::error::{CliError, CliStatus};

/// "NEAR" on the keys of a telephone; nobody has registered it.
pub const PORT: u16 = 6327;
/// So many ports are tried from there, as long as nobody named one.
const TRIES: u16 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    ip: IpAddr,
    /// None where the usual one, or one near it, will do.
    port: Option<u16>,
    /// The name by which it was asked for.
    name: Option<String>,
}

impl Address {
    /// What `--listen` and `--port` ask for.
    pub fn asked(listen: Option<&str>, port: Option<u16>) -> Result<Self, CliError> {
        let Some(text) = listen else {
            return Ok(Self { ip: Ipv4Addr::LOCALHOST.into(), port, name: None });
        };
        let (host, port) = parts(text).ok_or_else(|| wrong(text, "it is no ADDRESS or ADDRESS:PORT"))?;
        if let Ok(ip) = host.parse() {
            return Ok(Self { ip, port, name: None });
        }
        let mut found = (host, 0).to_socket_addrs().map_err(|error| wrong(text, &error.to_string()))?;
        let ip = found.next().ok_or_else(|| wrong(text, "that name has no address"))?.ip();
        Ok(Self { ip, port, name: Some(host.to_ascii_lowercase()) })
    }

    /// The name by which it was asked for, if that was not a number.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn listen(&self) -> Result<TcpListener, CliError> {
        let ports = match self.port {
            Some(port) => port..=port,
            None => PORT..=PORT + TRIES - 1,
        };
        let mut last = None;
        for port in ports {
            match TcpListener::bind(SocketAddr::new(self.ip, port)) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse => last = Some((port, error)),
                Err(error) => return Err(self.refused(port, &error)),
            }
        }
        let (port, error) = last.expect("a range of ports has one");
        Err(self.refused(port, &error))
    }

    fn refused(&self, port: u16, error: &std::io::Error) -> CliError {
        let what = format!("cannot listen on {}: {error}", SocketAddr::new(self.ip, port));
        match error.kind() {
            ErrorKind::AddrInUse => CliError::usage(what).hint("--port 0 takes a port that is free"),
            ErrorKind::PermissionDenied => CliError::with(CliStatus::NotPermitted, what)
                .hint("ports below 1024 are root's; --port 0 takes a free one"),
            ErrorKind::AddrNotAvailable => CliError::usage(what).hint("ip address lists what this machine has"),
            _ => CliError::failure(what),
        }
    }

    /// Host and port as a browser wants them; of a machine that listens on all of its addresses, its name.
    pub fn in_url(&self, bound: SocketAddr) -> String {
        let name = self.name.clone().or_else(|| {
            bound
                .ip()
                .is_unspecified()
                .then(machine::settings::host_name)
                .flatten()
                .map(|name| name.to_ascii_lowercase())
        });
        name.map_or_else(|| bound.to_string(), |name| format!("{name}:{}", bound.port()))
    }
}

fn wrong(text: &str, why: &str) -> CliError {
    CliError::usage(format!("--listen {text}: {why}")).hint("as in --listen 192.168.1.7:6327, or --listen [::1]:6327")
}

/// `ADDRESS`, `ADDRESS:PORT`, `[V6]`, `[V6]:PORT`, and a bare address of IPv6, which has colons itself.
fn parts(text: &str) -> Option<(&str, Option<u16>)> {
    if text.parse::<IpAddr>().is_ok() {
        return Some((text, None));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        return match after {
            "" => Some((inside, None)),
            _ => Some((inside, Some(after.strip_prefix(':')?.parse().ok()?))),
        };
    }
    match text.rsplit_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((text, None)),
    }
    .filter(|(host, _)| !host.is_empty() && !host.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let cases = [
            ("127.0.0.1", Some(("127.0.0.1", None))),
            ("127.0.0.1:80", Some(("127.0.0.1", Some(80)))),
            ("::1", Some(("::1", None))),
            ("[::1]", Some(("::1", None))),
            ("[::1]:6327", Some(("::1", Some(6327)))),
            ("desk:6327", Some(("desk", Some(6327)))),
            ("desk", Some(("desk", None))),
            ("desk:", None),
            (":80", None),
            ("", None),
            ("a:b:c", None),
            ("[::1", None),
            ("desk:70000", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn nobody_else_can_reach_it_unless_asked() {
        assert!(Address::asked(None, Some(0)).unwrap().ip.is_loopback());
        let taken = Address::asked(None, Some(0)).unwrap().listen().unwrap();
        let port = taken.local_addr().unwrap().port();
        let refused = Address::asked(None, Some(port)).unwrap().listen().unwrap_err();
        assert!(refused.parts().0.contains("in use") && refused.parts().1.is_some(), "{refused:?}");
    }
}
