//! Writes the same files to an S3-compatible object store, configured by the environment. Uploads are atomic. Must not
//! depend on the columns.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use model::hint::Hinted;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

use self::error::{S3Error, credentials_error, request_error};
use super::ExportFault;
use crate::export::ExportError;

mod error;

/// A file up to this size is uploaded in one request, a larger one in parts of this size. S3 requires at least 5 MiB;
/// most runs are smaller.
const PART_BYTES: usize = 5 << 20;
/// Concurrent uploads of parts: one is sent while the next is filled.
const PARTS_AT_ONCE: usize = 2;
/// Retries of a failed request, the first after 0.1 s: enough for a busy store, few enough to report an error within
/// seconds.
const RETRIES: usize = 3;
/// Time after which no request is retried.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// Timeout of connecting.
const CONNECT: Duration = Duration::from_secs(3);
/// Timeout of a request, including the upload of a part: 5 MiB take this long at 0.7 Mbit/s.
const REQUEST: Duration = Duration::from_secs(60);

/// A bucket of an object store, and a prefix of the names in it.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// `s3://NAME/PREFIX` without a slash at its end.
    url: String,
    /// Empty, or with a slash at its end.
    prefix: String,
    /// The URL of the store.
    endpoint: String,
    runtime: Runtime,
}

/// A run that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedRun {
    /// The URL of its file, `s3://BUCKET/…`.
    pub url: String,
    /// Number of rows: one per sample, and one per trial without samples.
    pub rows: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The URL does not name a bucket: a usage error.
    #[error("{url}: {cause}")]
    Url { url: String, cause: String },
    /// The store cannot be reached, or it rejected a request.
    #[error("{cause}")]
    Refused { cause: String, hint: String },
}

impl Hinted for BucketError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Url { .. } => "the form is s3://BUCKET or s3://BUCKET/PREFIX".into(),
            Self::Refused { hint, .. } => hint.clone(),
        })
    }
}

impl Bucket {
    /// Opens the bucket of `s3://NAME/PREFIX`. Credentials, region and endpoint come from the environment variables
    /// that Amazon's tools read (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`,
    /// `AWS_ENDPOINT_URL`), or from the machine's role in Amazon's cloud. Sends no request to the
    /// bucket.
    pub fn from_environment(url: &str) -> Result<Self, BucketError> {
        let (name, _) = parts(url)?;
        let (s3, endpoint) = client(name).map_err(|error| error.context(&format!("cannot use {url}")))?;
        let bucket = Self::new(Arc::new(s3.clone()), url, &endpoint)?;
        let credentials = bucket.runtime.block_on(async { s3.credentials().get_credential().await });
        credentials.map_err(|error| credentials_error(&error).context(&format!("no credentials for {url}")))?;
        Ok(bucket)
    }

    /// A bucket of the given store.
    pub fn new(store: Arc<dyn ObjectStore>, url: &str, endpoint: &str) -> Result<Self, BucketError> {
        let (name, prefix) = parts(url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| S3Error::plain(&error).context("cannot start the async runtime"))?;
        let url = format!("s3://{name}/{prefix}").trim_end_matches('/').to_string();
        Ok(Self { store, url, prefix, endpoint: endpoint.into(), runtime })
    }

    /// The URL of a file.
    pub(super) fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Creates or replaces a file with what `fill` writes. It appears when it is complete; after an error the old one
    /// is unchanged.
    pub(super) fn write<T>(
        &self,
        name: &str,
        fill: impl FnOnce(Upload<'_>) -> Result<T, ExportFault>,
    ) -> Result<T, ExportError> {
        let failed = |error: io::Error| {
            let context = format!("cannot write {} at {}", self.url_of(name), self.endpoint);
            ExportError::Bucket(request_error(&error).context(&context))
        };
        // `path::file` yields valid keys, which are used verbatim, `%2F` too.
        let key = Key::parse(format!("{}{name}", self.prefix)).map_err(|error| failed(io::Error::other(error)))?;
        let mut writer =
            BufWriter::with_capacity(Arc::clone(&self.store), key, PART_BYTES).with_max_concurrency(PARTS_AT_ONCE);
        match fill(Upload { writer: &mut writer, runtime: &self.runtime }) {
            Ok(done) => self.runtime.block_on(writer.shutdown()).map(|()| done).map_err(failed),
            Err(fault) => {
                let _ = self.runtime.block_on(writer.abort()); // frees the uploaded parts; the first error is reported
                Err(match fault {
                    ExportFault::Export(error) => error,
                    ExportFault::File(error) => failed(error),
                })
            }
        }
    }
}

/// A `Write` that uploads its input.
pub(super) struct Upload<'a> {
    writer: &'a mut BufWriter,
    runtime: &'a Runtime,
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.writer.write(bytes))
    }

    /// Does nothing: an upload is visible only when it is complete.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Name and prefix of `s3://NAME/PREFIX`; the prefix is empty or ends with a slash.
fn parts(url: &str) -> Result<(&str, String), BucketError> {
    let invalid = |cause: &str| BucketError::Url { url: url.into(), cause: cause.into() };
    let rest = url.strip_prefix("s3://").ok_or_else(|| invalid("the URL does not begin with s3://"))?;
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(invalid("the name of a bucket consists of letters, digits, '-', '_' and '.'"));
    }
    let prefix = prefix.trim_end_matches('/');
    let key = Key::parse(prefix).map_err(|error| invalid(&error.to_string()))?;
    Ok((name, if prefix.is_empty() { String::new() } else { format!("{key}/") }))
}

/// The client of the store, and the store's URL.
fn client(name: &str) -> Result<(AmazonS3, String), S3Error> {
    // Fails if another provider is already installed, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let from = AmazonS3Builder::from_env().with_bucket_name(name);
    let configured = |key| from.get_config_value(&key);
    let named = configured(AmazonS3ConfigKey::S3Endpoint).or_else(|| configured(AmazonS3ConfigKey::Endpoint));
    let region = configured(AmazonS3ConfigKey::Region).or_else(|| configured(AmazonS3ConfigKey::DefaultRegion));
    let amazon = || format!("https://s3.{}.amazonaws.com", region.as_deref().unwrap_or("us-east-1"));
    let endpoint = address(&named.unwrap_or_else(amazon))?;
    let options = ClientOptions::new()
        // A plain http:// endpoint is the user's choice; requests are signed and contain no keys.
        .with_allow_http(endpoint.starts_with("http://"))
        .with_connect_timeout(CONNECT)
        .with_timeout(REQUEST);
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_FOR, ..RetryConfig::default() };
    let from = from.with_config(AmazonS3ConfigKey::S3Endpoint, &endpoint);
    let s3 = from.with_client_options(options).with_retry(retry).build();
    Ok((s3.map_err(|error| request_error(&error))?, endpoint))
}

/// The normalised URL of a store, without a slash at its end. The library panics on invalid URLs.
fn address(text: &str) -> Result<String, S3Error> {
    let url = reqwest::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| S3Error::invalid_address(text))?;
    Ok(url.as_str().trim_end_matches('/').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_must_be_http_urls() {
        let cases = [
            ("http://127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            ("https://s3.example.com/", Some("https://s3.example.com")),
            ("http://minio/with space", Some("http://minio/with%20space")),
            ("minio:9000", None),
            ("ftp://minio", None),
            ("not a url", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(address(text).ok().as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn bucket_urls_have_a_name_and_a_prefix() {
        let cases = [
            ("s3://lab", Some(("lab", ""))),
            ("s3://lab/", Some(("lab", ""))),
            ("s3://lab/a/b", Some(("lab", "a/b/"))),
            ("s3://lab.example_2/a=1/%2F//", Some(("lab.example_2", "a=1/%2F/"))),
            ("s3://", None),
            ("s3:///a", None),
            ("s3://user@lab", None),
            ("s3://lab:9000/a", None),
            ("s3://lab/a//b", None),
            ("s3://lab/../b", None),
            ("S3://lab", None),
            ("gs://lab", None),
        ];
        for (url, expected) in cases {
            let parsed = parts(url).ok();
            assert_eq!(parsed.as_ref().map(|(name, prefix)| (*name, prefix.as_str())), expected, "{url}");
        }
    }
}
