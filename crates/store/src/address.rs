//! Where results are kept when it is not a file: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`, and how that is
//! shown without its password. Must not know what is stored there.

use std::path::{Path, PathBuf};

#[cfg(feature = "postgres")]
use crate::StoreError;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Whether results are to be on a server, and not in a file of this name.
pub fn is_server(store: &Path) -> bool {
    store.to_str().is_some_and(|text| SCHEMES.iter().any(|scheme| text.starts_with(scheme)))
}

/// The name of a results file as it is; of an address of a server what may be shown: no password, and none of what stands
/// behind `?`, where one may be too.
pub fn shown(store: &Path) -> PathBuf {
    let Some((scheme, rest)) = store.to_str().filter(|_| is_server(store)).and_then(|text| text.split_once("://"))
    else {
        return store.into();
    };
    // Whatever stands before the last @ may belong to a password that was not encoded as it should be.
    let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| (Some(who), place));
    let user = who.and_then(|who| who.split([':', '@', '/', '?', '#']).next()).filter(|user| !user.is_empty());
    let user = user.map_or(String::new(), |user| format!("{user}@"));
    let place = place.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{user}{place}").into()
}

/// How a connection is protected, in the words of `sslmode`.
#[cfg(feature = "postgres")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// `disable`.
    Never,
    /// `prefer`, and what is taken without a word: encrypted where the server can.
    Preferred,
    /// `require`: encrypted, whoever the server is.
    Encrypted,
    /// `verify-full`: encrypted, and its name proven by a certificate of these, or of those that this system trusts.
    Proven(Option<PathBuf>),
}

#[cfg(feature = "postgres")]
pub(crate) struct Address {
    pub(crate) url: String,
    /// From the environment's `PGPASSWORD`, for addresses without one.
    pub(crate) password: Option<String>,
    pub(crate) tls: Tls,
    /// What may be shown of it.
    pub(crate) shown: PathBuf,
}

#[cfg(feature = "postgres")]
impl Address {
    pub(crate) fn parse(store: &Path) -> Result<Self, StoreError> {
        let shown = shown(store);
        let wrong = |what: &str| StoreError::BadAddress { path: shown.clone(), what: what.into() };
        let text = store.to_str().ok_or_else(|| wrong("it is not UTF-8"))?;
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it is no address"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if rest.matches('@').count() != authority.matches('@').count().min(1) {
            return Err(wrong("write @ / ? # % of a user or password as %40 %2F %3F %23 %25"));
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
            (Some("verify-full"), roots) => Tls::Proven(roots),
            (_, Some(_)) => return Err(wrong("sslrootcert is for sslmode=verify-full")),
            (None | Some("prefer"), None) => Tls::Preferred,
            (Some("disable"), None) => Tls::Never,
            (Some("require"), None) => Tls::Encrypted,
            (Some(_), None) => return Err(wrong("sslmode is disable, prefer, require or verify-full")),
        };
        let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let password = std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty());
        Ok(Self { url: format!("{scheme}://{base}{query}"), password, tls, shown: shown.clone() })
    }
}

/// `%2F` is a slash; what is no such code stays.
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

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |text: &str, expected: &str| assert_eq!(shown(Path::new(text)), Path::new(expected), "{text}");
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
    fn an_address_of_postgres_is_taken_apart() {
        let check = |text: &str, url: &str, tls: Tls| {
            let address = Address::parse(Path::new(text)).unwrap();
            assert_eq!((address.url.as_str(), address.tls), (url, tls), "{text}");
        };
        check("postgres://u:p@h/d", "postgres://u:p@h/d", Tls::Preferred);
        check("postgres://h/d?sslmode=disable", "postgres://h/d", Tls::Never);
        check("postgres://h/d?a=1&sslmode=require&b=2", "postgres://h/d?a=1&b=2", Tls::Encrypted);
        let roots = Some(PathBuf::from("/a b/ca.pem"));
        check("postgres://h/d?sslmode=verify-full&sslrootcert=%2Fa%20b/ca.pem", "postgres://h/d", Tls::Proven(roots));
        check("postgres://h/d?sslmode=verify-full", "postgres://h/d", Tls::Proven(None));
        assert_eq!(decoded("100%25 %zz%4"), "100% %zz%4");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_mistake_in_an_address_of_postgres_tells_no_password() {
        for text in [
            "postgres://u:sec/ret@h/d",
            "postgres://u:sec?ret@h/d",
            "postgres://u:sec@ret@h/d",
            "postgres://u:secret@h/d?sslmode=maybe",
            "postgres://u:secret@h/d?sslrootcert=x",
        ] {
            let Err(error) = Address::parse(Path::new(text)) else { panic!("{text} is taken") };
            let error = error.to_string();
            assert!(error.contains("\nhint: ") && !error.contains("sec") && !error.contains("ret"), "{error}");
        }
    }
}
