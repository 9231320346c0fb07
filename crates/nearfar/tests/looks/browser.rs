//! A Chromium without a window, asked over its pipe of the `DevTools` protocol: one JSON text after another with a zero byte
//! between them, no port and no library. Knows pages, not what they should look like.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than any answer takes on a machine that does other things too; a browser that hangs ends the test.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running browser; it ends with this value.
pub struct Browser {
    child: Child,
    asks: Option<ChildStdin>,
    answers: Receiver<Value>,
    asked: u64,
    /// What it told without being asked, since the last page was opened.
    pub events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// None where there is no Chromium, which is said.
    pub fn start(test: &str) -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            println!("skipped: {test}: no chromium");
            return None;
        }
        let profile = tempfile::tempdir().expect("a scratch folder");
        let mut shell = Command::new("sh");
        // It reads from descriptor 3 and writes to 4.
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
        let from = BufReader::new(child.stdout.take().expect("it was piped"));
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            for text in from.split(0) {
                let Ok(text) = text else { return };
                let value = serde_json::from_slice(&text).expect("it speaks JSON");
                if tell.send(value).is_err() {
                    return;
                }
            }
        });
        let asks = child.stdin.take();
        Some(Self { child, asks, answers, asked: 0, events: Vec::new(), _profile: profile })
    }

    /// Opens an empty page, of which console, network and log are told.
    pub fn page(&mut self) -> Page {
        let target = self.ask(None, "Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = self.ask(None, "Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        let page = Page { session: attached["sessionId"].as_str().expect("a session").into() };
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.on(&page, &format!("{domain}.enable"), &json!({}));
        }
        page
    }

    /// Asks something of a page.
    pub fn on(&mut self, page: &Page, method: &str, parameters: &Value) -> Value {
        self.ask(Some(&page.session), method, parameters)
    }

    /// Loads an address and waits until it is there.
    pub fn open(&mut self, page: &Page, url: &str) {
        self.events.clear();
        self.on(page, "Page.navigate", &json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.hear();
            self.events.push(event);
        }
    }

    /// The value of an expression in a page.
    pub fn value(&mut self, page: &Page, expression: &str) -> Value {
        let result = self.on(page, "Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    fn ask(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let mut request = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        let asks = self.asks.as_mut().expect("it was piped");
        asks.write_all(format!("{request}\0").as_bytes()).expect("the browser reads");
        loop {
            let answer = self.hear();
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn hear(&mut self) -> Value {
        self.answers.recv_timeout(PATIENCE).expect("the browser answers")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its pipe closed, it ends by itself with all of its processes; should it not, it is ended.
        self.asks = None;
        while self.answers.recv_timeout(Duration::from_secs(10)).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page of a browser.
pub struct Page {
    session: String,
}

/// The bytes of base64 as the browser writes it.
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
fn base64_is_read() {
    let cases = [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")];
    for (base64, plain) in &cases {
        assert_eq!(bytes(&json!(base64)), plain.as_bytes(), "{base64}");
    }
    assert_eq!(bytes(&json!("+/8=")), [0xfb, 0xff]);
}
