//! Uploads to an object store: always to one in memory, and over HTTP to `moto`, which emulates S3, if Python has it.

use model::hint::Hinted;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::values::record::{RunId, RunRecord};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use store::Store;
use store::export::{Bucket, parquet_to_bucket};

use crate::child::{again, given_path};
use crate::fixtures;
use crate::parquet::memory::many;
use crate::parquet::python::python;
use crate::parquet::{export, files, stored};

const STORE: &str = "NEARFAR_TEST_STORE";
const URL: &str = "NEARFAR_TEST_URL";
/// Several parts of 5 MiB, so that it is uploaded in parts while it is written.
const LARGE_TRIALS: u32 = 900;

/// The files of an export to a directory, by the name that each must have in a bucket.
fn in_dir(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &PathBuf| path.to_str().unwrap().to_string();
    files(dir).iter().map(|path| (name(path), std::fs::read(dir.join(path)).unwrap())).collect()
}

fn in_memory(store: &InMemory) -> BTreeMap<String, Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let list = store.list_with_delimiter(None).await.unwrap();
        let mut prefixes = list.common_prefixes;
        let (mut objects, mut found) = (list.objects, BTreeMap::new());
        while let Some(prefix) = prefixes.pop() {
            let list = store.list_with_delimiter(Some(&prefix)).await.unwrap();
            prefixes.extend(list.common_prefixes);
            objects.extend(list.objects);
        }
        for object in objects {
            let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
            found.insert(object.location.to_string(), bytes.to_vec());
        }
        found
    })
}

/// A run whose name needs escaping.
fn odd(dir: &Path) -> (Store, RunId) {
    let mut odd = RunRecord { ..fixtures::run("aa", 7) };
    odd.plan.experiment = "größe / 2=3".into();
    (stored(&dir.join("odd"), &odd, 20, 30), odd.id)
}

/// A run that is uploaded in parts. Its export takes seconds.
fn large(dir: &Path) -> (Store, RunId) {
    let large = fixtures::run("bb", 7);
    std::fs::create_dir_all(dir.join("large")).unwrap();
    many(&dir.join("large/results.db"), &large, LARGE_TRIALS);
    (Store::open_existing(&dir.join("large/results.db")).unwrap(), large.id)
}

#[test]
fn a_bucket_has_the_names_and_bytes_of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(InMemory::new());
    let bucket = |prefix: &str| {
        let store: Arc<dyn ObjectStore> = memory.clone();
        Bucket::new(store, &format!("s3://lab{prefix}"), "memory").unwrap()
    };
    // A repeated upload replaces the file.
    for ((store, run), prefixes) in [(odd(dir.path()), &["/a/b=1/", "", ""][..]), (large(dir.path()), &[""])] {
        let written = export(&store, &run, &dir.path().join("out"));
        for prefix in prefixes {
            let uploaded = parquet_to_bucket(&store, &run, &bucket(prefix)).unwrap();
            assert_eq!(uploaded.rows, written.rows);
            let below = written.path.strip_prefix(dir.path().join("out")).unwrap().display().to_string();
            assert_eq!(uploaded.url, format!("s3://lab{}/{below}", prefix.trim_end_matches('/')));
        }
    }
    let expected = in_dir(&dir.path().join("out"));
    assert!(expected.values().any(|bytes| bytes.len() > 5 << 20), "no file is large enough to go up in parts");
    let small = expected.iter().filter(|(name, _)| !name.ends_with("/bb.parquet"));
    let prefixed = small.map(|(name, bytes)| (format!("a/b=1/{name}"), bytes.clone()));
    let expected: BTreeMap<_, _> = prefixed.chain(expected.clone()).collect();
    assert!(in_memory(&memory) == expected, "{:?}", in_memory(&memory).keys());
}

/// Helper process: uploads the run that its environment names.
#[test]
fn upload_and_report() {
    let (Some(path), Ok(url)) = (given_path(), std::env::var(URL)) else { return };
    let store = Store::open_existing(&path).unwrap();
    let run = store.run("latest").unwrap().id;
    let bucket = Bucket::from_environment(&url).map_err(|error| error.text_with_hint());
    let uploaded =
        bucket.and_then(|bucket| parquet_to_bucket(&store, &run, &bucket).map_err(|error| error.text_with_hint()));
    println!("\n{uploaded:?}");
}

/// The result of an upload by another process: its URL and rows, or the error.
fn uploaded(path: &Path, url: &str, environment: &[(&str, &str)]) -> String {
    let mut command = again("parquet::bucket::upload_and_report");
    for name in std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    let output = command.env(STORE, path).env(URL, url).envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let result = text.lines().find(|line| line.starts_with("Ok(") || line.starts_with("Err("));
    result.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).to_string()
}

/// An address of this machine on which no process listens.
fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn missing_store_and_missing_keys_are_reported_quickly() {
    let dir = tempfile::tempdir().unwrap();
    let [odd, large] = [odd(dir.path()), large(dir.path())].map(|(store, _)| store.path().to_path_buf());
    let unused = unused_address();
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    let at = [&keys[..], &[("AWS_ENDPOINT_URL", unused.as_str())]].concat();
    let begun = Instant::now();
    // The small run fails at its end, the large one during the upload.
    for path in [&odd, &large] {
        let message = uploaded(path, "s3://lab/results", &at);
        assert!(message.contains(&format!("at {unused}: Connection refused")), "{message}");
        assert!(
            message.contains("cannot write s3://lab/results/date=") && message.contains("hint: set AWS_ENDPOINT_URL"),
            "{message}"
        );
    }
    // The machine's role would be requested at Amazon's metadata address.
    let message = uploaded(&odd, "s3://lab", &[("AWS_METADATA_ENDPOINT", &unused)]);
    assert!(message.contains("no credentials for s3://lab: AWS_ACCESS_KEY_ID is not set"), "{message}");
    assert!(message.contains("Connection refused") && message.contains("hint: set AWS_ACCESS_KEY_ID and"), "{message}");
    let message = uploaded(&odd, "s3://lab", &keys[..1]);
    assert!(message.contains("AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not"), "{message}");
    let message = uploaded(&odd, "s3://lab", &[&keys[..], &[("AWS_ENDPOINT_URL", "not a url")]].concat());
    assert!(
        message.contains("cannot use s3://lab: invalid URL 'not a url' of an object store")
            && message.contains("hint: "),
        "{message}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}: retries are bounded", begun.elapsed());
}

/// An empty S3-compatible store on this machine, stopped on drop.
struct Moto {
    child: Child,
    python: String,
    endpoint: String,
}

impl Moto {
    /// `None`, with a message, if Python has no moto. After `open_requests` requests, it accepts only keys that it has
    /// issued, and it issues none.
    fn start(open_requests: &str) -> Option<Self> {
        let Some(python) = python("moto.server, boto3") else {
            println!(
                "skipped: Parquet to S3 over HTTP: no Python with moto.server and boto3 (moto[server] from PyPI; NEARFAR_PYTHON names one)"
            );
            return None;
        };
        let mut command = Command::new(&python);
        command
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"])
            .env("INITIAL_NO_AUTH_ACTION_COUNT", open_requests);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let endpoint = lines.find_map(|line| line.unwrap().strip_prefix(" * Running on ").map(str::to_string)).unwrap();
        // It continues to log each request.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, python, endpoint })
    }

    /// Runs Python statements with boto3's client as `s3`.
    fn python(&self, statements: &str) -> String {
        let client = "import boto3, hashlib, sys\ns3 = boto3.client('s3', endpoint_url=sys.argv[1], region_name='us-east-1', \
                      aws_access_key_id='a', aws_secret_access_key='b')\n";
        let output = Command::new(&self.python)
            .args(["-c", &(client.to_string() + statements), &self.endpoint])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have exited
        let _ = self.child.wait();
    }
}

#[test]
fn store_over_http_has_the_same_files_and_its_errors_have_hints() {
    let Some(moto) = Moto::start("1000000") else { return };
    let dir = tempfile::tempdir().unwrap();
    let keys =
        [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_ENDPOINT_URL", moto.endpoint.as_str())];
    let (odd, large) = (odd(dir.path()), large(dir.path()));
    let message = uploaded(odd.0.path(), "s3://lab/results", &keys);
    assert!(message.contains(&format!("at {}: the bucket does not exist", moto.endpoint)), "{message}");
    assert!(message.contains("hint: create it"), "{message}");
    moto.python("s3.create_bucket(Bucket='lab')");
    // A repeated upload replaces the file.
    for (store, run) in [&odd, &odd, &large] {
        export(store, run, &dir.path().join("out"));
        let message = uploaded(store.path(), "s3://lab/results/", &keys);
        assert!(
            message.starts_with("Ok(UploadedRun { url: \"s3://lab/results/date=2026-09-21/experiment="),
            "{message}"
        );
    }
    let listed = moto.python(
        "for one in s3.list_objects_v2(Bucket='lab')['Contents']:\n\
         \x20   print(s3.get_object(Bucket='lab', Key=one['Key'])['Body'].read().hex(), one['Key'])\n\
         print(len(s3.list_multipart_uploads(Bucket='lab').get('Uploads', [])), 'unfinished')\n",
    );
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut expected: Vec<String> =
        in_dir(&dir.path().join("out")).iter().map(|(name, bytes)| format!("{} results/{name}", hex(bytes))).collect();
    expected.push("0 unfinished".into());
    let found: Vec<&str> = listed.lines().collect();
    let names =
        |lines: &[&str]| lines.iter().map(|line| line.rsplit(' ').next().unwrap().to_string()).collect::<Vec<_>>();
    assert!(found == expected, "{:?}", names(&found));
}

#[test]
fn rejected_keys_are_reported_with_the_message_of_the_store() {
    let Some(moto) = Moto::start("1") else { return };
    let dir = tempfile::tempdir().unwrap();
    moto.python("s3.create_bucket(Bucket='lab')");
    let store = stored(dir.path(), &fixtures::run("aa", 7), 3, 3);
    let keys =
        [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_ENDPOINT_URL", moto.endpoint.as_str())];
    let message = uploaded(store.path(), "s3://lab/results", &keys);
    assert!(message.contains(&format!("at {}: InvalidAccessKeyId: The AWS Access Key Id", moto.endpoint)), "{message}");
    assert!(message.contains("hint: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{message}");
}
