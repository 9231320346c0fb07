//! Opens reports in Chromium at the widths of a phone, a tablet and a desktop, in light and dark mode, and prints them.
//! Checks that a page makes no network requests, writes nothing to the console and does not scroll sideways, and checks
//! names of images and tables, order of headings, text contrast, and folded parts on paper. Screenshots are in target/looks.

mod browser;
mod live;
#[path = "../planted/mod.rs"]
mod planted;
mod script;
mod site;

use std::path::{Path, PathBuf};
use std::process::Command;

use browser::{Browser, Page, bytes};
use model::analysis::live::LiveEnd;
use serde_json::{Value, json};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
const WIDTHS: [u64; 3] = [390, 768, 1280];
const THEMES: [&str; 2] = ["light", "dark"];
const HEIGHT: u64 = 800;
/// Longer pages are cropped in screenshots.
const SCREENSHOT_HEIGHT_MAX: u64 = 9_000;
const UNFOLD: &str = "document.querySelectorAll('details').forEach(one => one.open = true)";
const FOLD: &str = "document.querySelectorAll('details').forEach(one => one.open = false)";
/// Whether the links of the contents are visible while folded, next to the page and still there at its end.
const CONTENTS: &str = "(() => {
    const [nav, main] = [document.querySelector('.contents'), document.querySelector('main')];
    scrollTo(0, document.documentElement.scrollHeight);
    const [inside, text] = [nav.getBoundingClientRect(), main.getBoundingClientRect()];
    const shown = nav.querySelector('a').checkVisibility();
    return { shown, adjacent: inside.right <= text.left && inside.top >= 0 && inside.bottom <= innerHeight };
})()";
/// Minimum width of the window for contents next to the page: 75rem.
const CONTENTS_WIDTH_MIN: u64 = 1200;
/// Folded parts that are invisible in print; the tools of the script may be.
const HIDDEN_ON_PAPER: &str = "[...document.querySelectorAll('details > :not(summary, .tools)')]
    .filter(one => !one.checkVisibility()).map(one => one.outerHTML.slice(0, 80))";

#[test]
fn simulated_report_is_accessible() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (desktop, server) = (format!("{MODELS}/ryzen5-2600.xml:7"), format!("{MODELS}/xeon-e5-2640-x2.xml:7"));
    nearfar(dir.path(), &["run", "quick", "--sim", &desktop, "--budget", "1000h"]);
    nearfar(dir.path(), &["map", "--measure", "--sim", &server]);
    nearfar(dir.path(), &["place", "--sim", &desktop, "--", "gzip", "-kc", "/bin/bash"]);
    let record = planted::record();
    let (periods, at_s) = planted::periods(&record);
    let mut store = store::Store::open(&dir.path().join("results.db")).expect("the results file");
    store.begin_live(&record).expect("a new experiment");
    periods.iter().for_each(|period| store.add_live_period(&record.id, period).expect("a new period"));
    store.end_live(&record.id, &LiveEnd { at_s, reason: None }).expect("it ends once");
    drop(store);
    check_report("simulated", dir.path());
}

#[test]
fn measured_report_is_accessible() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    nearfar(dir.path(), &["run", "quick", "--smoke", "--budget", "20s"]);
    nearfar(dir.path(), &["map", "--measure", "--smoke"]);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published/ryzen-2600-ccx.csv");
    nearfar(dir.path(), &["import", published]);
    check_report("measured", dir.path());
}

/// Nine machines: one is slow, one became slow.
#[test]
fn fleet_comparison_is_accessible() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let experiment = dir.path().join("daily.toml");
    std::fs::write(&experiment, DAILY).expect("the directory is writable");
    let experiment = experiment.to_str().expect("temporary paths are UTF-8");
    let (normal, slowed) = (format!("{MODELS}/ryzen5-2600.xml:7"), slow_machine(dir.path()));
    for machine in 0..9_u32 {
        for round in 0..7_u32 {
            let is_slow = machine == 4 || machine == 2 && round > 3;
            let (name, seed) = (format!("node-{machine}"), (10 * machine + round).to_string());
            let sim = if is_slow { &slowed } else { &normal };
            let args = ["run", experiment, "--sim", sim, "--seed", &seed, "--host-label", &name, "--label", "rack=7"];
            nearfar(dir.path(), &args);
        }
    }
    let file = check_report("machines", dir.path());
    let Some(file) = file else { return };
    let page = std::fs::read_to_string(file).expect("the report exists");
    for picture in [": machines by tests", "node-4 against its class", "node-2: queens over time"] {
        assert!(page.contains(&format!("{picture}</title>")), "{picture}");
    }
}

/// Enough repetitions for stable medians.
const DAILY: &str = r#"
name = "daily"
question = "Is every machine as it should be?"
[repeat]
warmup = 0
min = 25
max = 25
budget = "1000h"
[[workload]]
name = "queens"
placements = ["one-core"]
[[workload]]
name = "stream"
placements = ["spread"]
"#;

/// Writes a capture of the same machine with slower cores and other firmware. Returns the value of `--sim`.
fn slow_machine(dir: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["map", "--from", &format!("{MODELS}/ryzen5-2600.xml"), "--format", "capture"]);
    let mut capture: Value =
        serde_json::from_slice(&command.output().expect("the program starts").stdout).expect("a capture is JSON");
    let fact = |key: &str, value: &str| json!({ "key": key, "value": value });
    capture["settings"] = json!([fact("cpu.model", "simulated ryzen5-2600.xml"), fact("machine.bios-version", "F2")]);
    capture["topology"]["cpu_kinds"] = json!([{ "cpus": "0-11", "efficiency": 0, "capacity": 870, "info": [] }]);
    let file = dir.join("slow.json");
    std::fs::write(&file, capture.to_string()).expect("the directory is writable");
    format!("{}:7", file.display())
}

fn nearfar(dir: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(args).arg("--quiet");
    command.env("NEARFAR_STATE", dir.join("state"));
    let output = command.output().expect("the program starts");
    // 3: a run this short may be inconclusive.
    let is_expected = matches!(output.status.code(), Some(0 | 3));
    assert!(is_expected, "nearfar {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn output_dir() -> PathBuf {
    let output_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("looks");
    std::fs::create_dir_all(&output_dir).expect("the target directory is writable");
    output_dir
}

/// Writes the report of the results file in a directory and checks it in every view. `None` without a browser.
fn check_report(name: &str, dir: &Path) -> Option<PathBuf> {
    let mut browser = Browser::start(name)?;
    let file = dir.join("report.html");
    nearfar(dir, &["report", "-o", file.to_str().expect("temporary paths are UTF-8")]);
    let page = browser.page();
    let mut problems = Vec::new();
    for width in WIDTHS {
        for theme in THEMES {
            let view = format!("{name}-{width}-{theme}");
            let found = page_problems(&mut browser, &page, &file, width, theme);
            problems.extend(found.into_iter().map(|problem| format!("{view}: {problem}")));
            screenshot(&mut browser, &page, width, &output_dir().join(format!("{view}.png")));
            let contents = browser.value(&page, CONTENTS);
            let is_wide = width >= CONTENTS_WIDTH_MIN;
            if contents != json!({ "shown": is_wide, "adjacent": is_wide }) {
                problems.push(format!("{view}: the contents are misplaced: {contents}"));
            }
        }
    }
    problems.extend(print_problems(&mut browser, &page, name));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    Some(file)
}

/// Problems of the page in one view, with everything unfolded.
fn page_problems(browser: &mut Browser, page: &Page, file: &Path, width: u64, theme: &str) -> Vec<String> {
    window(browser, page, width, HEIGHT);
    media(browser, page, "screen", theme);
    let url = format!("file://{}", file.display());
    browser.open(page, &url);
    browser.value(page, UNFOLD);
    // elementsFromPoint() finds only elements inside the window.
    let height = height(browser, page);
    window(browser, page, width, height);
    let facts = browser.value(page, include_str!("page.js"));
    let found = facts["problems"].as_array().expect("a list").iter();
    let mut problems: Vec<String> = found.map(|problem| problem.as_str().expect("text").to_string()).collect();
    let texts = facts["texts"].as_u64().expect("a number");
    if texts < 100 {
        problems.push(format!("only {texts} texts were found: is this the report?"));
    }
    problems.extend(unnamed_elements(browser, page, &facts));
    problems.extend(page_errors(browser, &url));
    problems
}

/// Images and tables that are missing from the accessibility tree or have no name there.
fn unnamed_elements(browser: &mut Browser, page: &Page, facts: &Value) -> Vec<String> {
    let tree = browser.on(page, "Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a list");
    let mut problems = Vec::new();
    for (role, present) in [("image", &facts["pictures"]), ("table", &facts["tables"])] {
        let listed: Vec<&Value> =
            nodes.iter().filter(|node| node["ignored"] != true && node["role"]["value"] == role).collect();
        let named = listed.iter().filter(|node| node["name"]["value"].as_str().is_some_and(|name| !name.is_empty()));
        let named = named.count();
        if named as u64 != present.as_u64().expect("a number") || named == 0 {
            problems.push(format!(
                "role {role}: of {present} elements, {} are in the accessibility tree and {named} have a name",
                listed.len()
            ));
        }
    }
    problems
}

/// Console messages, and requests whose URL does not begin with `origin`.
fn page_errors(browser: &Browser, origin: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for event in &browser.events {
        match event["method"].as_str() {
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                problems.push(format!("console message: {}", event["params"]));
            }
            Some("Network.requestWillBeSent") => {
                let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
                if !url.starts_with(origin) && !url.starts_with("data:") {
                    problems.push(format!("unexpected request for {url}"));
                }
            }
            _ => {}
        }
    }
    problems
}

/// Takes a screenshot of the page as it opens, with details folded.
fn screenshot(browser: &mut Browser, page: &Page, width: u64, file: &Path) {
    browser.value(page, FOLD);
    window(browser, page, width, HEIGHT);
    let height = height(browser, page).min(SCREENSHOT_HEIGHT_MAX);
    let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
    let options = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
    let png = bytes(&browser.on(page, "Page.captureScreenshot", &options)["data"]);
    assert!(png.starts_with(b"\x89PNG"), "{}", file.display());
    std::fs::write(file, png).expect("the target directory is writable");
}

/// Prints the page while it is dark and folded. The paper must be white and contain everything.
fn print_problems(browser: &mut Browser, page: &Page, name: &str) -> Vec<String> {
    media(browser, page, "print", "dark");
    let hidden = browser.value(page, HIDDEN_ON_PAPER);
    let ink = browser.value(page, "getComputedStyle(document.body).color");
    let paper = browser.value(page, "getComputedStyle(document.body).backgroundColor");
    media(browser, page, "", "dark");
    let printed = bytes(&browser.on(page, "Page.printToPDF", &json!({ "preferCSSPageSize": true }))["data"]);
    std::fs::write(output_dir().join(format!("{name}.pdf")), &printed).expect("the target directory is writable");
    let mut problems = Vec::new();
    if !printed.starts_with(b"%PDF") {
        problems.push(format!("{name}: printing gives {} bytes that are not a PDF file", printed.len()));
    }
    if hidden.as_array().is_none_or(|hidden| !hidden.is_empty()) {
        problems.push(format!("{name}: missing on paper: {hidden}"));
    }
    if (ink.as_str(), paper.as_str()) != (Some("rgb(29, 35, 41)"), Some("rgb(255, 255, 255)")) {
        problems.push(format!("{name}: printed in {ink} on {paper}"));
    }
    problems
}

fn window(browser: &mut Browser, page: &Page, width: u64, height: u64) {
    let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
    browser.on(page, "Emulation.setDeviceMetricsOverride", &size);
}

fn media(browser: &mut Browser, page: &Page, media: &str, theme: &str) {
    let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
    browser.on(page, "Emulation.setEmulatedMedia", &json!({ "media": media, "features": features }));
}

fn height(browser: &mut Browser, page: &Page) -> u64 {
    browser.value(page, "document.documentElement.scrollHeight").as_u64().expect("pages have a height")
}
