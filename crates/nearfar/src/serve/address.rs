//! Parses the listening address and binds it; the default is the loopback address.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::error::{CliError, CliStatus};

/// Default port: "NEAR" on a telephone keypad. It is not registered with IANA.
pub const PORT: u16 = 6327;
/// Number of ports to try from [`PORT`] if the user gave none.
const PORTS_TRIED: u16 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    ip: IpAddr,
    /// `None` for [`PORT`] or one of the next ports.
    port: Option<u16>,
    /// The host name given by the user; `None` for an IP address.
    name: Option<String>,
}

impl Address {
    /// Parses the values of `--listen` and `--port`.
    pub fn from_args(listen: Option<&str>, port: Option<u16>) -> Result<Self, CliError> {
        let Some(text) = listen else {
            return Ok(Self { ip: Ipv4Addr::LOCALHOST.into(), port, name: None });
        };
        let (host, port) = parts(text).ok_or_else(|| listen_error(text, "expected ADDRESS or ADDRESS:PORT"))?;
        if let Ok(ip) = host.parse() {
            return Ok(Self { ip, port, name: None });
        }
        let mut addresses = (host, 0).to_socket_addrs().map_err(|error| listen_error(text, &error.to_string()))?;
        let ip = addresses.next().ok_or_else(|| listen_error(text, "the host name has no address"))?.ip();
        Ok(Self { ip, port, name: Some(host.to_ascii_lowercase()) })
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn listen(&self) -> Result<TcpListener, CliError> {
        let ports = match self.port {
            Some(port) => port..=port,
            None => PORT..=PORT + PORTS_TRIED - 1,
        };
        let mut last = None;
        for port in ports {
            match TcpListener::bind(SocketAddr::new(self.ip, port)) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse => last = Some((port, error)),
                Err(error) => return Err(self.bind_error(port, &error)),
            }
        }
        let (port, error) = last.expect("the range of ports is not empty");
        Err(self.bind_error(port, &error))
    }

    fn bind_error(&self, port: u16, error: &std::io::Error) -> CliError {
        let what = format!("cannot listen on {}: {error}", SocketAddr::new(self.ip, port));
        match error.kind() {
            ErrorKind::AddrInUse => CliError::usage(what).hint("--port 0 selects a free port"),
            ErrorKind::PermissionDenied => CliError::with(CliStatus::NotPermitted, what)
                .hint("ports below 1024 require root; --port 0 selects a free port"),
            ErrorKind::AddrNotAvailable => CliError::usage(what).hint("'ip address' lists local addresses"),
            _ => CliError::failure(what),
        }
    }

    /// Returns host and port for a URL. The host is the machine's name if it listens on all addresses.
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

fn listen_error(text: &str, reason: &str) -> CliError {
    CliError::usage(format!("--listen {text}: {reason}")).hint("use a value like 192.168.1.7:6327 or [::1]:6327")
}

/// Splits `ADDRESS`, `ADDRESS:PORT`, `[V6]`, `[V6]:PORT` or a bare IPv6 address, which itself contains colons.
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
    fn addresses_are_split_into_host_and_port() {
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
    fn default_address_is_loopback_and_used_port_is_reported() {
        assert!(Address::from_args(None, Some(0)).unwrap().ip.is_loopback());
        let listener = Address::from_args(None, Some(0)).unwrap().listen().unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = Address::from_args(None, Some(port)).unwrap().listen().unwrap_err();
        assert!(error.parts().0.contains("in use") && error.parts().1.is_some(), "{error:?}");
    }
}
