//! The documents as pages: that scripts/site makes them, which checks every link, and that they are read and searched as files on a
//! disk, without a server and without a network.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::browser::{Browser, Page};
use crate::{WIDTHS, WINDOW_HEIGHT, complaints, window};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/site");
const TEST: &str = "the_site_is_made_and_searched_without_a_network";
/// Pages of each kind: text, a wide table of figures, made of --help, made of `nearfar list`.
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
/// A search takes less than a second where nothing else is done.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_site_is_made_and_searched_without_a_network() {
    let generator = Command::new("/usr/bin/python3").args(["-c", "import sphinx, myst_parser"]).output();
    if !generator.is_ok_and(|output| output.status.success()) {
        println!("skipped: {TEST}: no python3-sphinx and python3-myst-parser");
        return;
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut script = Command::new(SCRIPT);
    script.env("NEARFAR", env!("CARGO_BIN_EXE_nearfar")).env("CARGO_TARGET_DIR", folder.path());
    let made = script.output().expect("the script starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let Some(mut browser) = Browser::start(TEST) else { return };
    let page = browser.page();
    let site = format!("file://{}/site/", folder.path().display());
    for file in PAGES {
        for width in WIDTHS {
            window(&mut browser, &page, width, WINDOW_HEIGHT);
            browser.open(&page, &format!("{site}{file}"));
            let wide = browser.value(&page, TOO_WIDE);
            assert_eq!(wide, 0, "{file} scrolls sideways at {width}");
            assert_eq!(complaints(&browser, &site), [""; 0], "{file}");
        }
    }
    let found = search(&mut browser, &page, &site, "entropy");
    assert!(found.contains("ARCHITECTURE.html"), "a word of ARCHITECTURE.md is found in: {found}");
    assert_eq!(complaints(&browser, &site), [""; 0], "the search");
    assert!(Path::new(folder.path()).join("site/docs/guides/place.html").exists());
}

/// Where a word is found, as soon as there is something.
fn search(browser: &mut Browser, page: &Page, site: &str, word: &str) -> String {
    browser.open(page, &format!("{site}search.html?q={word}"));
    let until = Instant::now() + PATIENCE;
    loop {
        let found = browser.value(page, FOUND).as_str().unwrap_or_default().to_string();
        if !found.is_empty() || Instant::now() > until {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
