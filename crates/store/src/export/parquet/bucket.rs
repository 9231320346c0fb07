//! The same files in an object store that speaks S3: where the environment says that it is, uploads that are whole or not
//! there, refusals in words. Must not know columns.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

use self::refusal::{S3Error, of_credentials, of_request};
use super::ExportFault;
use crate::export::ExportError;

mod refusal;

/// A file goes up in one request up to this size, and in parts of it beyond. S3 wants 5 MiB at least; most runs are smaller.
const PART_BYTES: usize = 5 << 20;
/// Parts that are under way at once: one is sent while the next is filled.
const PARTS_AT_ONCE: usize = 2;
/// A request that failed is repeated so often, 0.1 s later at first: a busy store may think again, and a mistake is told in seconds.
const RETRIES: usize = 3;
/// After this no request is repeated.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// Who does not answer the call within this is not there.
const CONNECT: Duration = Duration::from_secs(3);
/// A part's upload and the answer; 5 MiB take this long at 0.7 Mbit/s.
const REQUEST: Duration = Duration::from_secs(60);

/// Where files go in an object store: a bucket, and what their names begin with.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// `s3://NAME/PREFIX`, no slash at its end.
    url: String,
    /// Empty, or with a slash at its end.
    prefix: String,
    /// Whom we ask, as a URL.
    endpoint: String,
    runtime: Runtime,
}

/// A run that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedRun {
    /// Its file, as `s3://BUCKET/…`.
    pub url: String,
    /// How many rows it has: one per sample, and one per trial without any.
    pub rows: usize,
}

#[derive(Debug)]
pub enum BucketError {
    /// It is no URL of a bucket, which is the user's mistake.
    Url {
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store could not be asked, or said no.
    Refused {
        /// What, on what, and what was said.
        what: String,
        hint: String,
    },
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, why } => write!(f, "{url}: {why}\nhint: it looks like s3://BUCKET or s3://BUCKET/PREFIX"),
            Self::Refused { what, hint } => write!(f, "{what}\nhint: {hint}"),
        }
    }
}

impl std::error::Error for BucketError {}

impl Bucket {
    /// The bucket of `s3://NAME/PREFIX`. Credentials, region and endpoint are those of the environment variables that Amazon's own
    /// programs read (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`), or
    /// of the role that the machine has in Amazon's cloud. It is asked for credentials here, and for nothing else.
    pub fn of_environment(url: &str) -> Result<Self, BucketError> {
        let (name, _) = parts(url)?;
        let (s3, endpoint) = client(name).map_err(|refusal| refusal.about(&format!("cannot use {url}")))?;
        let bucket = Self::over(Arc::new(s3.clone()), url, &endpoint)?;
        let credentials = bucket.runtime.block_on(async { s3.credentials().get_credential().await });
        credentials.map_err(|error| of_credentials(&error).about(&format!("no credentials for {url}")))?;
        Ok(bucket)
    }

    /// A bucket of any store, for one that is reached in another way.
    pub fn over(store: Arc<dyn ObjectStore>, url: &str, endpoint: &str) -> Result<Self, BucketError> {
        let (name, prefix) = parts(url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| S3Error::plain(&error).about("cannot wait for answers"))?;
        let url = format!("s3://{name}/{prefix}").trim_end_matches('/').to_string();
        Ok(Self { store, url, prefix, endpoint: endpoint.into(), runtime })
    }

    /// The URL of a file.
    pub(super) fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Makes or replaces a file by what `fill` writes. It appears when it is whole; after a failure the old one is still there.
    pub(super) fn write<T>(
        &self,
        name: &str,
        fill: impl FnOnce(Upload<'_>) -> Result<T, ExportFault>,
    ) -> Result<T, ExportError> {
        let refused = |error: io::Error| {
            let about = format!("cannot write {} at {}", self.url_of(name), self.endpoint);
            ExportError::Bucket(of_request(&error).about(&about))
        };
        // Names of ours hold nothing that a key may not, and are kept as they are, `%2F` too.
        let key = Key::parse(format!("{}{name}", self.prefix)).map_err(|error| refused(io::Error::other(error)))?;
        let mut to =
            BufWriter::with_capacity(Arc::clone(&self.store), key, PART_BYTES).with_max_concurrency(PARTS_AT_ONCE);
        match fill(Upload { to: &mut to, runtime: &self.runtime }) {
            Ok(done) => self.runtime.block_on(to.shutdown()).map(|()| done).map_err(refused),
            Err(trouble) => {
                let _ = self.runtime.block_on(to.abort()); // gives back the room of its parts; the first error is what matters
                Err(match trouble {
                    ExportFault::Said(error) => error,
                    ExportFault::File(error) => refused(error),
                })
            }
        }
    }
}

/// What is written goes up.
pub(super) struct Upload<'a> {
    to: &'a mut BufWriter,
    runtime: &'a Runtime,
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.to.write(bytes))
    }

    /// Nothing is to be seen before all of it is.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Name and prefix of `s3://NAME/PREFIX`; the prefix is empty or ends with a slash.
fn parts(url: &str) -> Result<(&str, String), BucketError> {
    let wrong = |why: &str| BucketError::Url { url: url.into(), why: why.into() };
    let rest = url.strip_prefix("s3://").ok_or_else(|| wrong("it does not begin with s3://"))?;
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(wrong("the name of a bucket has letters, digits, '-', '_' and '.'"));
    }
    let prefix = prefix.trim_end_matches('/');
    let key = Key::parse(prefix).map_err(|error| wrong(&error.to_string()))?;
    Ok((name, if prefix.is_empty() { String::new() } else { format!("{key}/") }))
}

/// Who speaks with the store, and the URL at which.
fn client(name: &str) -> Result<(AmazonS3, String), S3Error> {
    // Whoever was first has chosen; then that one is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let from = AmazonS3Builder::from_env().with_bucket_name(name);
    let given = |key| from.get_config_value(&key);
    let named = given(AmazonS3ConfigKey::S3Endpoint).or_else(|| given(AmazonS3ConfigKey::Endpoint));
    let region = given(AmazonS3ConfigKey::Region).or_else(|| given(AmazonS3ConfigKey::DefaultRegion));
    let amazon = || format!("https://s3.{}.amazonaws.com", region.as_deref().unwrap_or("us-east-1"));
    let endpoint = address(&named.unwrap_or_else(amazon))?;
    let options = ClientOptions::new()
        // Who writes http:// means it, and what is signed is no secret: keys are not sent.
        .with_allow_http(endpoint.starts_with("http://"))
        .with_connect_timeout(CONNECT)
        .with_timeout(REQUEST);
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_FOR, ..RetryConfig::default() };
    let from = from.with_config(AmazonS3ConfigKey::S3Endpoint, &endpoint);
    let s3 = from.with_client_options(options).with_retry(retry).build();
    Ok((s3.map_err(|error| of_request(&error))?, endpoint))
}

/// The URL of a store as everybody reads it, without a slash at its end: the library panics at what it cannot read.
fn address(given: &str) -> Result<String, S3Error> {
    let url = reqwest::Url::parse(given).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| S3Error::of_address(given))?;
    Ok(url.as_str().trim_end_matches('/').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_of_http() {
        let cases = [
            ("http://127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            ("https://s3.example.com/", Some("https://s3.example.com")),
            ("http://minio/be hind", Some("http://minio/be%20hind")),
            ("minio:9000", None),
            ("ftp://minio", None),
            ("not a url", None),
            ("", None),
        ];
        for (given, expected) in cases {
            assert_eq!(address(given).ok().as_deref(), expected, "{given:?}");
        }
    }

    #[test]
    fn urls_are_a_bucket_and_a_prefix() {
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
            let found = parts(url).ok();
            assert_eq!(found.as_ref().map(|(name, prefix)| (*name, prefix.as_str())), expected, "{url}");
        }
    }
}
