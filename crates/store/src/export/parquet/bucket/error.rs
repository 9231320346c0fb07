//! Converts errors of an object store into a cause and a hint. Must not depend on the requests.

use std::error::Error;

use object_store::client::{HttpError, HttpErrorKind};

use super::BucketError;

/// The cause of an error, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct S3Error {
    cause: String,
    hint: String,
}

const ENDPOINT: &str = "set AWS_ENDPOINT_URL to the store's URL (https://HOST, or http:// and a port); without it, Amazon's store in AWS_REGION is used";
const REGION: &str = "the bucket is in another region than AWS_REGION";
const KEYS: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN for temporary keys, must belong to this store and be valid";
const SET_KEYS: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for those of a profile: eval \"$(aws configure export-credentials --format env)\"";

impl S3Error {
    /// An error without a specific hint.
    pub(super) fn plain(error: &(dyn Error + 'static)) -> Self {
        Self { cause: error.to_string(), hint: "export to a directory and copy it with the store's own tool".into() }
    }

    /// An endpoint that is not a valid URL.
    pub(super) fn invalid_address(text: &str) -> Self {
        s3_error(&format!("invalid URL '{text}' of an object store"), ENDPOINT)
    }

    /// Adds the failed operation.
    pub(super) fn context(self, operation: &str) -> BucketError {
        BucketError::Refused { cause: format!("{operation}: {}", self.cause), hint: self.hint }
    }
}

/// An error of the request for credentials, which is made only if the environment has no keys.
pub(super) fn credentials_error(error: &(dyn Error + 'static)) -> S3Error {
    let cause =
        format!("AWS_ACCESS_KEY_ID is not set, and requesting the machine's role failed: {}", root_cause(error));
    S3Error { cause, hint: SET_KEYS.into() }
}

/// An error of a request to the store.
pub(super) fn request_error(error: &(dyn Error + 'static)) -> S3Error {
    if let Some(http) = chain(error).find_map(|error| error.downcast_ref::<HttpError>()) {
        return match http.kind() {
            HttpErrorKind::Timeout => s3_error("the request timed out", ENDPOINT),
            _ => s3_error(&root_cause(error), ENDPOINT),
        };
    }
    // The library returns responses as texts; S3 documents the code in them.
    let text = error.to_string();
    let message = tagged(&text, "Message").unwrap_or_default();
    let quoted = |code: &str| if message.is_empty() { code.to_string() } else { format!("{code}: {message}") };
    match tagged(&text, "Code") {
        Some("NoSuchBucket") => s3_error(
            "the bucket does not exist",
            "create it ('aws s3 mb s3://BUCKET'); if it exists, check AWS_ENDPOINT_URL and AWS_REGION",
        ),
        Some(code @ "AccessDenied") => s3_error(
            &quoted(code),
            "the key needs the permissions s3:PutObject and s3:AbortMultipartUpload for these names",
        ),
        Some(code @ ("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException")) => {
            s3_error(&quoted(code), REGION)
        }
        Some(code @ "RequestTimeTooSkewed") => s3_error(&quoted(code), "set this machine's clock"),
        Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken")) => {
            s3_error(&quoted(code), KEYS)
        }
        Some(code) => {
            s3_error(&quoted(code), "files written before are complete; repeat the command when the store is available")
        }
        None if text.contains("403 Forbidden") || text.contains("401 Unauthorized") => {
            s3_error("the store denied access", KEYS)
        }
        None if text.contains("redirect") => s3_error("the store redirected the request", REGION),
        None if text.contains("Missing AccessKeyId") => {
            s3_error("AWS_SECRET_ACCESS_KEY is set, AWS_ACCESS_KEY_ID is not", SET_KEYS)
        }
        None if text.contains("Missing SecretAccessKey") => {
            s3_error("AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not", SET_KEYS)
        }
        None => s3_error(&root_cause(error), ENDPOINT),
    }
}

fn s3_error(cause: &str, hint: &str) -> S3Error {
    S3Error { cause: cause.into(), hint: hint.into() }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| inner(*error))
}

/// The wrapped error of an `io::Error`: its `source` is the source of the wrapped error instead.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// The message of the root cause ("Connection refused"), on one line.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text between `<TAG>` and `</TAG>`.
fn tagged<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn response_error(status: &str, body: &str) -> S3Error {
        let text = format!("Server returned non-2xx status code: {status}: {body}");
        request_error(&io::Error::other(text))
    }

    /// The bodies have the documented form of S3 errors.
    #[test]
    fn known_error_codes_have_a_hint() {
        let body =
            |code: &str| format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>Why.</Message></Error>");
        let cases = [
            ("404 Not Found", "NoSuchBucket", "the bucket does not exist", "create it"),
            ("403 Forbidden", "AccessDenied", "AccessDenied: Why.", "s3:PutObject"),
            ("403 Forbidden", "InvalidAccessKeyId", "InvalidAccessKeyId: Why.", "must belong to this store"),
            ("403 Forbidden", "SignatureDoesNotMatch", "SignatureDoesNotMatch: Why.", "must belong to this store"),
            ("403 Forbidden", "RequestTimeTooSkewed", "RequestTimeTooSkewed: Why.", "clock"),
            ("400 Bad Request", "AuthorizationHeaderMalformed", "AuthorizationHeaderMalformed: Why.", "another region"),
            ("503 Slow Down", "SlowDown", "SlowDown: Why.", "repeat the command"),
        ];
        for (status, code, cause, hint) in cases {
            let error = response_error(status, &body(code));
            assert!(error.cause == cause && error.hint.contains(hint), "{code}: {error:?}");
        }
        assert_eq!(response_error("403 Forbidden", "").hint, KEYS);
        assert_eq!(response_error("502 Bad Gateway", "<html>").hint, ENDPOINT);
    }

    #[test]
    fn root_cause_is_found_inside_wrappers() {
        let refused = io::Error::other(io::Error::new(io::ErrorKind::ConnectionRefused, "connection\nrefused"));
        assert_eq!(root_cause(&refused), "connection refused");
    }
}
