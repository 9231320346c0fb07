//! Addresses of servers that store results, `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`, and their form
//! without the password. Must not depend on the stored content.

use std::path::{Path, PathBuf};

#[cfg(feature = "postgres")]
use crate::StoreError;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Whether `store` is the address of a server rather than the name of a file.
pub fn is_server(store: &Path) -> bool {
    store.to_str().is_some_and(|text| SCHEMES.iter().any(|scheme| text.starts_with(scheme)))
}

/// The name of a results file unchanged, or the address of a server without the password and without the query, which
/// may contain a password too.
pub fn displayed(store: &Path) -> PathBuf {
    let Some((scheme, rest)) = store.to_str().filter(|_| is_server(store)).and_then(|text| text.split_once("://"))
    else {
        return store.into();
    };
    // All text before the last `@` may belong to a password that was not percent-encoded.
    let (credentials, place) = rest.rsplit_once('@').map_or((None, rest), |(left, right)| (Some(left), right));
    let user =
        credentials.and_then(|text| text.split([':', '@', '/', '?', '#']).next()).filter(|user| !user.is_empty());
    let user = user.map_or(String::new(), |user| format!("{user}@"));
    let place = place.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{user}{place}").into()
}

/// The protection of a connection, named as in `sslmode`.
#[cfg(feature = "postgres")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// `disable`.
    Never,
    /// `prefer`, the default: encrypted if the server supports it.
    Preferred,
    /// `require`: encrypted, with any server.
    Encrypted,
    /// `verify-full`: encrypted, and the server's name is verified with these certificates, or with those that the
    /// system trusts.
    Verified(Option<PathBuf>),
}

#[cfg(feature = "postgres")]
pub(crate) struct Address {
    pub(crate) url: String,
    /// From the environment variable `PGPASSWORD`, for addresses without a password.
    pub(crate) password: Option<String>,
    pub(crate) tls: Tls,
    /// The address without its password.
    pub(crate) displayed: PathBuf,
}

#[cfg(feature = "postgres")]
impl Address {
    pub(crate) fn parse(store: &Path) -> Result<Self, StoreError> {
        let displayed = displayed(store);
        let invalid = |cause: &str| StoreError::BadAddress { path: displayed.clone(), cause: cause.into() };
        let text = store.to_str().ok_or_else(|| invalid("it is not UTF-8"))?;
        let (scheme, rest) = text.split_once("://").ok_or_else(|| invalid("the address has no scheme"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if rest.matches('@').count() != authority.matches('@').count().min(1) {
            return Err(invalid("percent-encode @ / ? # % in the user and the password: %40 %2F %3F %23 %25"));
        }
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut mode, mut roots, mut others) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(decoded(value))),
                _ => others.push(pair),
            }
        }
        let tls = match (mode, roots) {
            (Some("verify-full"), roots) => Tls::Verified(roots),
            (_, Some(_)) => return Err(invalid("sslrootcert requires sslmode=verify-full")),
            (None | Some("prefer"), None) => Tls::Preferred,
            (Some("disable"), None) => Tls::Never,
            (Some("require"), None) => Tls::Encrypted,
            (Some(_), None) => return Err(invalid("sslmode must be disable, prefer, require or verify-full")),
        };
        let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let password = std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty());
        Ok(Self { url: format!("{scheme}://{base}{query}"), password, tls, displayed: displayed.clone() })
    }
}

/// Decodes percent-encoded bytes; a `%` without two hexadecimal digits is kept.
#[cfg(feature = "postgres")]
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => bytes.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "postgres")]
    use model::hint::Hinted;

    #[test]
    fn password_of_an_address_is_not_displayed() {
        let check = |text: &str, expected: &str| assert_eq!(displayed(Path::new(text)), Path::new(expected), "{text}");
        check("results.db", "results.db");
        check("postgres/u:secret@h", "postgres/u:secret@h");
        check("postgres://u:secret@h:5432/d?sslmode=require", "postgres://u@h:5432/d");
        check("postgresql://:secret@h/d", "postgresql://h/d");
        check("postgres://h/d?user=u&password=secret", "postgres://h/d");
        check("postgres://u:s@e@c/r?e#t@h/d", "postgres://u@h/d");
        check("postgres://u@h", "postgres://u@h");
        check("postgres:///d?host=/run/x", "postgres:///d");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_address_is_split_into_url_and_tls() {
        let check = |text: &str, url: &str, tls: Tls| {
            let address = Address::parse(Path::new(text)).unwrap();
            assert_eq!((address.url.as_str(), address.tls), (url, tls), "{text}");
        };
        check("postgres://u:p@h/d", "postgres://u:p@h/d", Tls::Preferred);
        check("postgres://h/d?sslmode=disable", "postgres://h/d", Tls::Never);
        check("postgres://h/d?a=1&sslmode=require&b=2", "postgres://h/d?a=1&b=2", Tls::Encrypted);
        let roots = Some(PathBuf::from("/a b/ca.pem"));
        check("postgres://h/d?sslmode=verify-full&sslrootcert=%2Fa%20b/ca.pem", "postgres://h/d", Tls::Verified(roots));
        check("postgres://h/d?sslmode=verify-full", "postgres://h/d", Tls::Verified(None));
        assert_eq!(decoded("100%25 %zz%4"), "100% %zz%4");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn error_of_a_postgres_address_contains_no_password() {
        for text in [
            "postgres://u:sec/ret@h/d",
            "postgres://u:sec?ret@h/d",
            "postgres://u:sec@ret@h/d",
            "postgres://u:secret@h/d?sslmode=maybe",
            "postgres://u:secret@h/d?sslrootcert=x",
        ] {
            let Err(error) = Address::parse(Path::new(text)) else { panic!("{text} is accepted") };
            let error = error.text_with_hint();
            assert!(error.contains("\nhint: ") && !error.contains("sec") && !error.contains("ret"), "{error}");
        }
    }
}
