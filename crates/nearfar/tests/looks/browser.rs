//! Controls a headless Chromium over a pipe with the `DevTools` protocol: JSON messages terminated by zero bytes. Must
//! not depend on the contents of pages.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Timeout of a response; longer than any takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A running browser, stopped on drop.
pub struct Browser {
    child: Child,
    requests: Option<ChildStdin>,
    responses: Receiver<Value>,
    last_id: u64,
    /// Events since the last page was opened.
    pub events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium. `None`, with a message, if it is not installed.
    pub fn start(test: &str) -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            println!("skipped: {test}: no chromium");
            return None;
        }
        let profile = tempfile::tempdir().expect("a temporary directory");
        let mut shell = Command::new("sh");
        // Chromium reads from file descriptor 3 and writes to 4.
        shell.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", "chromium"]);
        shell.args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--hide-scrollbars"]);
        shell.args([
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--force-color-profile=srgb",
        ]);
        shell.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell starts");
        let from = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, responses) = channel();
        std::thread::spawn(move || {
            for text in from.split(0) {
                let Ok(text) = text else { return };
                let value = serde_json::from_slice(&text).expect("messages are JSON");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let requests = child.stdin.take();
        Some(Self { child, requests, responses, last_id: 0, events: Vec::new(), _profile: profile })
    }

    /// Opens an empty page with events of its console, network and log.
    pub fn page(&mut self) -> Page {
        let target = self.call(None, "Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = self.call(None, "Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        let page = Page { session: attached["sessionId"].as_str().expect("a session").into() };
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.on(&page, &format!("{domain}.enable"), &json!({}));
        }
        page
    }

    /// Calls a method of the protocol on a page.
    pub fn on(&mut self, page: &Page, method: &str, parameters: &Value) -> Value {
        self.call(Some(&page.session), method, parameters)
    }

    /// Opens a URL and waits until it is loaded.
    pub fn open(&mut self, page: &Page, url: &str) {
        self.events.clear();
        self.on(page, "Page.navigate", &json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// The value of an expression in a page.
    pub fn value(&mut self, page: &Page, expression: &str) -> Value {
        let result = self.on(page, "Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut request = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        let requests = self.requests.as_mut().expect("stdin is piped");
        requests.write_all(format!("{request}\0").as_bytes()).expect("the browser reads");
        loop {
            let response = self.receive();
            if response["id"] == self.last_id {
                assert!(response["error"].is_null(), "{method}: {}", response["error"]);
                return response["result"].clone();
            }
            self.events.push(response);
        }
    }

    fn receive(&mut self) -> Value {
        self.responses.recv_timeout(TIMEOUT).expect("the browser responds")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closing the pipe ends all processes of the browser; the kill is for one that hangs.
        self.requests = None;
        while self.responses.recv_timeout(Duration::from_secs(10)).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Page {
    session: String,
}

/// Decodes base64 with padding.
pub fn bytes(base64: &Value) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = base64.as_str().expect("base64 is text").trim_end_matches('=');
    let six = |letter: u8| LETTERS.iter().position(|known| *known == letter).expect("base64 has these letters") as u32;
    let group = |letters: &[u8]| {
        let joined = letters.iter().fold(0, |joined, letter| joined << 6 | six(*letter)) << (6 * (4 - letters.len()));
        joined.to_be_bytes()[1..letters.len()].to_vec()
    };
    text.as_bytes().chunks(4).flat_map(group).collect()
}

#[test]
fn base64_is_decoded() {
    let cases = [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")];
    for (base64, plain) in &cases {
        assert_eq!(bytes(&json!(base64)), plain.as_bytes(), "{base64}");
    }
    assert_eq!(bytes(&json!("+/8=")), [0xfb, 0xff]);
}
