//! What an object store's refusal means, in words, and the next step. Must not know how it is asked.

use std::error::Error;

use object_store::client::{HttpError, HttpErrorKind};

use super::BucketError;

/// What was said, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct S3Error {
    said: String,
    hint: String,
}

const ENDPOINT: &str = "AWS_ENDPOINT_URL says where the store is (https://HOST, or http:// and a port); without it it is Amazon's, in AWS_REGION";
const REGION: &str = "the bucket is in another region than AWS_REGION says";
const KEYS: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN where keys are lent, must be of this store and still valid";
const SET_KEYS: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; those of a profile: eval \"$(aws configure export-credentials --format env)\"";

impl S3Error {
    /// What somebody said, where nobody knows a better next step than to read it.
    pub(super) fn plain(error: &(dyn Error + 'static)) -> Self {
        Self { said: error.to_string(), hint: "write to a folder, and copy that with the store's own program".into() }
    }

    /// Of an address that nobody can be asked at.
    pub(super) fn of_address(given: &str) -> Self {
        refusal(&format!("'{given}' is no URL of a store"), ENDPOINT)
    }

    /// The error, with what we were about to do.
    pub(super) fn about(self, doing: &str) -> BucketError {
        BucketError::Refused { what: format!("{doing}: {}", self.said), hint: self.hint }
    }
}

/// Of a request for credentials: keys that are in the environment are not asked for, so there are none.
pub(super) fn of_credentials(error: &(dyn Error + 'static)) -> S3Error {
    let said = format!("AWS_ACCESS_KEY_ID is not set, and asking for the machine's role: {}", deepest(error));
    S3Error { said, hint: SET_KEYS.into() }
}

/// Of a request to the store.
pub(super) fn of_request(error: &(dyn Error + 'static)) -> S3Error {
    if let Some(http) = chain(error).find_map(|error| error.downcast_ref::<HttpError>()) {
        return match http.kind() {
            HttpErrorKind::Timeout => refusal("it gave no answer in time", ENDPOINT),
            _ => refusal(&deepest(error), ENDPOINT),
        };
    }
    // The library keeps answers as texts; the code in them is what S3 promises.
    let text = error.to_string();
    let message = tagged(&text, "Message").unwrap_or_default();
    let quoted = |code: &str| if message.is_empty() { code.to_string() } else { format!("{code}: {message}") };
    match tagged(&text, "Code") {
        Some("NoSuchBucket") => refusal(
            "there is no such bucket",
            "make it first ('aws s3 mb s3://BUCKET'); if it is there, AWS_ENDPOINT_URL or AWS_REGION lead elsewhere",
        ),
        Some(code @ "AccessDenied") => refusal(
            &quoted(code),
            "the key may not write there: it needs s3:PutObject on these names, and s3:AbortMultipartUpload",
        ),
        Some(code @ ("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException")) => {
            refusal(&quoted(code), REGION)
        }
        Some(code @ "RequestTimeTooSkewed") => refusal(&quoted(code), "this machine's clock is wrong"),
        Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken")) => {
            refusal(&quoted(code), KEYS)
        }
        Some(code) => {
            refusal(&quoted(code), "what was written before is whole; repeat the command when the store is well")
        }
        None if text.contains("403 Forbidden") || text.contains("401 Unauthorized") => {
            refusal("the store refused", KEYS)
        }
        None if text.contains("redirect") => refusal("the store sent us elsewhere", REGION),
        None if text.contains("Missing AccessKeyId") => {
            refusal("AWS_SECRET_ACCESS_KEY is set, AWS_ACCESS_KEY_ID is not", SET_KEYS)
        }
        None if text.contains("Missing SecretAccessKey") => {
            refusal("AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not", SET_KEYS)
        }
        None => refusal(&deepest(error), ENDPOINT),
    }
}

fn refusal(said: &str, hint: &str) -> S3Error {
    S3Error { said: said.into(), hint: hint.into() }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| inner(*error))
}

/// An `io::Error` gives the cause of what it wraps, and not what it wraps.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// The first cause: "Connection refused", and not who passed it on. On one line.
fn deepest(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands in `<TAG>…</TAG>`.
fn tagged<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn answered(status: &str, body: &str) -> S3Error {
        let text = format!("Server returned non-2xx status code: {status}: {body}");
        of_request(&io::Error::other(text))
    }

    /// The bodies are of the documented shape of S3's errors.
    #[test]
    fn every_refusal_has_its_next_step() {
        let body =
            |code: &str| format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>Why.</Message></Error>");
        let cases = [
            ("404 Not Found", "NoSuchBucket", "there is no such bucket", "make it first"),
            ("403 Forbidden", "AccessDenied", "AccessDenied: Why.", "s3:PutObject"),
            ("403 Forbidden", "InvalidAccessKeyId", "InvalidAccessKeyId: Why.", "must be of this store"),
            ("403 Forbidden", "SignatureDoesNotMatch", "SignatureDoesNotMatch: Why.", "must be of this store"),
            ("403 Forbidden", "RequestTimeTooSkewed", "RequestTimeTooSkewed: Why.", "clock"),
            ("400 Bad Request", "AuthorizationHeaderMalformed", "AuthorizationHeaderMalformed: Why.", "another region"),
            ("503 Slow Down", "SlowDown", "SlowDown: Why.", "repeat the command"),
        ];
        for (status, code, said, hint) in cases {
            let found = answered(status, &body(code));
            assert!(found.said == said && found.hint.contains(hint), "{code}: {found:?}");
        }
        assert_eq!(answered("403 Forbidden", "").hint, KEYS);
        assert_eq!(answered("502 Bad Gateway", "<html>").hint, ENDPOINT);
    }

    #[test]
    fn the_first_cause_is_told_also_out_of_wrappers() {
        let refused = io::Error::other(io::Error::new(io::ErrorKind::ConnectionRefused, "nobody\nlistens"));
        assert_eq!(deepest(&refused), "nobody listens");
    }
}
