//! Pages of `nearfar serve` in a browser while another process measures: they are accessible, follow the run, keep the
//! state of the user interface, and send requests to no other server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::{Browser, Page};
use crate::{HEIGHT, MODELS, THEMES, UNFOLD, WIDTHS, media, nearfar, output_dir, page_errors, screenshot, window};

const TEST: &str = "served_page_follows_its_run";
const TIMEOUT: Duration = Duration::from_secs(60);
const STATUS_LINE: &str = "document.querySelector('.live .standing')?.textContent";

/// A running server, stopped on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // may have ended
        let _ = self.0.wait();
    }
}

fn serve(dir: &Path) -> (Server, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(["serve", "--port", "0", "--quiet"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut url).expect("a URL is printed");
    (Server(child), url.trim_end().to_string())
}

/// Runs or resumes the experiment in a process that is killed after `trials` more trials; `None`: to its end.
fn run(dir: &Path, trials: Option<u32>) {
    let (sim, faults) = (format!("{MODELS}/ryzen5-2600.xml:7"), trials.map(|trials| format!("kill-after={trials}")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command
        .arg("--store")
        .arg(dir.join("results.db"))
        .args(["run", "quick", "--budget", "1000h", "--quiet", "--sim", &sim]);
    command.args(faults.iter().flat_map(|faults| ["--sim-faults", faults]));
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.success(), trials.is_none(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn served_page_follows_its_run() {
    let Some(mut browser) = Browser::start(TEST) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published/ryzen-2600-ccx.csv");
    nearfar(dir, &["import", published]);
    run(dir, Some(30));
    let (_server, url) = serve(dir);
    let origin = &url[..url.find('?').expect("the URL has a token")];
    let page = browser.page();
    browser.open(&page, &url);
    assert_eq!(browser.value(&page, "location.href"), origin, "the token is removed from the address bar");
    assert_eq!(browser.value(&page, "document.cookie"), "", "scripts cannot read the token");
    let to_run = browser.value(&page, "document.querySelector('main td a').href");
    let to_run = to_run.as_str().expect("a link").to_string();
    assert_eq!(page_errors(&browser, origin), [""; 0]);
    for (name, target) in [
        ("served-runs", origin.to_string()),
        ("served-run", to_run.clone()),
        ("served-compare", format!("{origin}compare?table=ryzen-2600-ccx")),
    ] {
        assert_accessible(&mut browser, &page, name, &target, origin);
    }
    assert_follows_run(&mut browser, &page, dir, &to_run);
    assert_eq!(page_errors(&browser, origin), [""; 0]);
}

/// Checks a page in every width and theme, unfolded.
fn assert_accessible(browser: &mut Browser, page: &Page, name: &str, target: &str, origin: &str) {
    for (width, theme) in WIDTHS.into_iter().flat_map(|width| THEMES.map(|theme| (width, theme))) {
        window(browser, page, width, HEIGHT);
        media(browser, page, "screen", theme);
        browser.open(page, target);
        browser.value(page, UNFOLD);
        let height = crate::height(browser, page);
        window(browser, page, width, height);
        let facts = browser.value(page, include_str!("page.js"));
        assert_eq!(facts["problems"].as_array().map(Vec::as_slice), Some(&[][..]), "{name} {width} {theme}: {facts}");
        assert!(facts["texts"].as_u64() > Some(15), "{name}: {facts}");
        assert_eq!(page_errors(browser, origin), [""; 0], "{name}");
        screenshot(browser, page, width, &output_dir().join(format!("{name}-{width}-{theme}.png")));
    }
}

fn assert_follows_run(browser: &mut Browser, page: &Page, dir: &Path, to_run: &str) {
    window(browser, page, 1280, HEIGHT);
    browser.open(page, to_run);
    let count = "document.querySelector('main').textContent.match(/no trial yet/g)?.length ?? 0";
    let before = browser.value(page, count).as_u64().expect("a number");
    assert!(browser.value(page, STATUS_LINE).as_str().is_some_and(|text| text.starts_with("30 trials so far")));
    // State of the user interface: an open section, a sorted table, the focus and the scroll position.
    browser.value(page, "document.querySelector('main details').open = true");
    browser.value(page, "document.querySelector('main table thead button').focus()");
    browser.value(page, "document.activeElement.click()");
    browser.value(page, "window.scrollTo(0, 300)");
    run(dir, Some(1));
    until(browser, page, STATUS_LINE, |text| text.as_str().is_some_and(|text| text.starts_with("31 trials so far")));
    // The event has the status line; the page is then fetched again, with the URL for later events.
    let renewed = "document.querySelector('main').dataset.seen === undefined";
    assert_eq!(browser.value(page, renewed), true);
    browser.value(page, "document.querySelector('main').dataset.seen = 'old'");
    run(dir, Some(1));
    until(browser, page, renewed, |renewed| *renewed == true);
    let kept = "[document.querySelector('main details').open, document.querySelector('main table th').getAttribute('aria-sort'), \
                document.activeElement.textContent, Math.abs(window.scrollY - 300) < 2]";
    assert_eq!(browser.value(page, kept), serde_json::json!([true, "ascending", "placement", true]));
    // While paused, the page does not change, but the status line does.
    browser.value(page, "document.querySelector('.live button').click()");
    browser.value(page, "document.querySelector('main').dataset.seen = 'old'");
    // Events are at least a second apart: a page renewed by the first would be seen at the second.
    for trials in [33, 34] {
        run(dir, Some(1));
        let expected = format!("{trials} trials so far");
        until(browser, page, STATUS_LINE, |text| text.as_str().is_some_and(|text| text.starts_with(&expected)));
    }
    assert_eq!(browser.value(page, renewed), false);
    browser.value(page, "document.querySelector('.live button').click()");
    until(browser, page, renewed, |renewed| *renewed == true);
    run(dir, None);
    let message = "document.querySelector('.told').textContent";
    until(browser, page, message, |message| *message == "The run has ended.");
    until(browser, page, "document.querySelector('main').textContent.includes('all repetitions')", |complete| {
        *complete == true
    });
    let after = browser.value(page, count).as_u64().expect("a number");
    assert!(before > 0 && after == 0, "every cell has trials: {after} of {before} have none");
    assert_eq!(browser.value(page, "document.querySelector('.live button')"), Value::Null, "the pause button is gone");
}

/// Polls the value of an expression until a condition holds.
fn until(browser: &mut Browser, page: &Page, expression: &str, condition: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let value = browser.value(page, expression);
        if condition(&value) {
            return;
        }
        assert!(Instant::now() < deadline, "{expression} is still {value}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
