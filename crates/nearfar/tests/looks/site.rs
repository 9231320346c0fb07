//! The documentation site: scripts/site builds it and checks its links, and Chromium displays and searches it from
//! local files, without a server or network.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::browser::{Browser, Page};
use crate::{HEIGHT, WIDTHS, page_errors, window};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/site");
const TEST: &str = "documentation_site_works_without_network";
/// One page of each kind: text, wide tables of figures, generated from --help, generated from `nearfar list`.
const PAGES: [&str; 5] = [
    "index.html",
    "docs/tutorials/quick-start.html",
    "docs/explanation/methodology.html",
    "reference/commands.html",
    "reference/workloads.html",
];
const TOO_WIDE: &str = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
const FOUND: &str =
    "[...document.querySelectorAll('#search-results li a')].map(link => link.getAttribute('href')).join(' ')";
/// Timeout of a search; on an idle machine it takes less than a second.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn documentation_site_works_without_network() {
    let generator = Command::new("/usr/bin/python3").args(["-c", "import sphinx, myst_parser"]).output();
    if !generator.is_ok_and(|output| output.status.success()) {
        println!("skipped: {TEST}: no python3-sphinx and python3-myst-parser");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut script = Command::new(SCRIPT);
    script.env("NEARFAR", env!("CARGO_BIN_EXE_nearfar")).env("CARGO_TARGET_DIR", dir.path());
    let output = script.output().expect("the script starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let Some(mut browser) = Browser::start(TEST) else { return };
    let page = browser.page();
    let site = format!("file://{}/site/", dir.path().display());
    for file in PAGES {
        for width in WIDTHS {
            window(&mut browser, &page, width, HEIGHT);
            browser.open(&page, &format!("{site}{file}"));
            let overflow = browser.value(&page, TOO_WIDE);
            assert_eq!(overflow, 0, "{file} scrolls horizontally at width {width}");
            assert_eq!(page_errors(&browser, &site), [""; 0], "{file}");
        }
    }
    let found = search(&mut browser, &page, &site, "entropy");
    assert!(found.contains("ARCHITECTURE.html"), "the search finds a word of ARCHITECTURE.md: {found}");
    assert_eq!(page_errors(&browser, &site), [""; 0], "the search");
    assert!(Path::new(dir.path()).join("site/docs/guides/place.html").exists());
}

/// Searches for a word; returns the paths of the results when there are any, else an empty string after the timeout.
fn search(browser: &mut Browser, page: &Page, site: &str, word: &str) -> String {
    browser.open(page, &format!("{site}search.html?q={word}"));
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = browser.value(page, FOUND).as_str().unwrap_or_default().to_string();
        if !found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
