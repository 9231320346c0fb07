//! Pages that `nearfar serve` gives out, in a browser while another process runs: they can be read by everybody, follow the run, keep
//! what the reader did to them, and ask nobody else for anything.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::{Browser, Page};
use crate::{MODELS, THEMES, UNFOLD, WIDTHS, WINDOW_HEIGHT, album, complaints, media, nearfar, photograph, window};

const TEST: &str = "a_served_page_follows_its_run";
const PATIENCE: Duration = Duration::from_secs(60);
const STANDING: &str = "document.querySelector('.live .standing')?.textContent";

/// A server; it ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // may have ended
        let _ = self.0.wait();
    }
}

fn serve(folder: &Path) -> (Server, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("results.db")).args(["serve", "--port", "0", "--quiet"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("it was piped")).read_line(&mut url).expect("it says where it is");
    (Server(child), url.trim_end().to_string())
}

/// Stores one more trial, by a process that is killed then; the whole rest without a number.
fn run(folder: &Path, trials: Option<u32>) {
    let (sim, faults) = (format!("{MODELS}/ryzen5-2600.xml:7"), trials.map(|trials| format!("kill-after={trials}")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command
        .arg("--store")
        .arg(folder.join("results.db"))
        .args(["run", "quick", "--budget", "1000h", "--quiet", "--sim", &sim]);
    command.args(faults.iter().flat_map(|faults| ["--sim-faults", faults]));
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.success(), trials.is_none(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_served_page_follows_its_run() {
    let Some(mut browser) = Browser::start(TEST) else { return };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published/ryzen-2600-ccx.csv");
    nearfar(folder, &["import", published]);
    run(folder, Some(30));
    let (_server, url) = serve(folder);
    let own = &url[..url.find('?').expect("it has a token")];
    let page = browser.page();
    browser.open(&page, &url);
    assert_eq!(browser.value(&page, "location.href"), own, "the token does not stay in the address bar");
    assert_eq!(browser.value(&page, "document.cookie"), "", "and no script can read it");
    let to_run = browser.value(&page, "document.querySelector('main td a').href");
    let to_run = to_run.as_str().expect("a link").to_string();
    assert_eq!(complaints(&browser, own), [""; 0]);
    for (name, target) in [
        ("served-runs", own.to_string()),
        ("served-run", to_run.clone()),
        ("served-compare", format!("{own}compare?table=ryzen-2600-ccx")),
    ] {
        can_be_read(&mut browser, &page, name, &target, own);
    }
    follows(&mut browser, &page, folder, &to_run);
    assert_eq!(complaints(&browser, own), [""; 0]);
}

/// In every width and theme, unfolded.
fn can_be_read(browser: &mut Browser, page: &Page, name: &str, target: &str, own: &str) {
    for (width, theme) in WIDTHS.into_iter().flat_map(|width| THEMES.map(|theme| (width, theme))) {
        window(browser, page, width, WINDOW_HEIGHT);
        media(browser, page, "screen", theme);
        browser.open(page, target);
        browser.value(page, UNFOLD);
        let height = crate::height(browser, page);
        window(browser, page, width, height);
        let seen = browser.value(page, include_str!("page.js"));
        assert_eq!(seen["wrong"].as_array().map(Vec::as_slice), Some(&[][..]), "{name} {width} {theme}: {seen}");
        assert!(seen["texts"].as_u64() > Some(15), "{name}: {seen}");
        assert_eq!(complaints(browser, own), [""; 0], "{name}");
        photograph(browser, page, width, &album().join(format!("{name}-{width}-{theme}.png")));
    }
}

fn follows(browser: &mut Browser, page: &Page, folder: &Path, to_run: &str) {
    window(browser, page, 1280, WINDOW_HEIGHT);
    browser.open(page, to_run);
    let counted = "document.querySelector('main').textContent.match(/no trial yet/g)?.length ?? 0";
    let before = browser.value(page, counted).as_u64().expect("a number");
    assert!(browser.value(page, STANDING).as_str().is_some_and(|words| words.starts_with("30 trials so far")));
    // What a reader does to a page.
    browser.value(page, "document.querySelector('main details').open = true");
    browser.value(page, "document.querySelector('main table thead button').focus()");
    browser.value(page, "document.activeElement.click()");
    browser.value(page, "window.scrollTo(0, 300)");
    run(folder, Some(1));
    until(browser, page, STANDING, |words| words.as_str().is_some_and(|words| words.starts_with("31 trials so far")));
    // The words come with the news, the page itself when it was fetched: it has the address of news after these.
    let renewed = "document.querySelector('main').dataset.seen === undefined";
    assert_eq!(browser.value(page, renewed), true);
    browser.value(page, "document.querySelector('main').dataset.seen = 'old'");
    run(folder, Some(1));
    until(browser, page, renewed, |renewed| *renewed == true);
    let kept = "[document.querySelector('main details').open, document.querySelector('main table th').getAttribute('aria-sort'), \
                document.activeElement.textContent, Math.abs(window.scrollY - 300) < 2]";
    assert_eq!(browser.value(page, kept), serde_json::json!([true, "ascending", "placement", true]));
    // Paused, the page stays as it is, and the words go on.
    browser.value(page, "document.querySelector('.live button').click()");
    browser.value(page, "document.querySelector('main').dataset.seen = 'old'");
    // News come a second apart at least: had the first renewed the page, the second would find it so.
    for trials in [33, 34] {
        run(folder, Some(1));
        let standing = format!("{trials} trials so far");
        until(browser, page, STANDING, |words| words.as_str().is_some_and(|words| words.starts_with(&standing)));
    }
    assert_eq!(browser.value(page, renewed), false);
    browser.value(page, "document.querySelector('.live button').click()");
    until(browser, page, renewed, |renewed| *renewed == true);
    run(folder, None);
    let told = "document.querySelector('.told').textContent";
    until(browser, page, told, |told| *told == "The run has ended.");
    until(browser, page, "document.querySelector('main').textContent.includes('all repetitions')", |there| {
        *there == true
    });
    let after = browser.value(page, counted).as_u64().expect("a number");
    assert!(before > 0 && after == 0, "every cell has its trials: {after} of {before} have none");
    assert_eq!(browser.value(page, "document.querySelector('.live button')"), Value::Null, "there is nothing to pause");
}

/// Until a value is as it should be.
fn until(browser: &mut Browser, page: &Page, expression: &str, is: impl Fn(&Value) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let value = browser.value(page, expression);
        if is(&value) {
            return;
        }
        assert!(Instant::now() < end, "{expression} is still {value}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
