//! The report as a browser shows it: Chromium opens it on a phone's width and on a desk's, in light and in dark, and prints it.
//! Holds that nothing is fetched and nothing complained of, that the page does not scroll sideways, that every picture and table
//! has a name for those who cannot see it, that headings are in order, that text can be read against what is below it, and
//! that paper has what a screen folds away. What it saw lies in target/looks. Says nothing of whether it is beautiful: look there.

mod browser;
mod live;
mod script;
mod site;

use std::path::{Path, PathBuf};
use std::process::Command;

use browser::{Browser, Page, bytes};
use serde_json::{Value, json};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
const WIDTHS: [u64; 2] = [390, 1280];
const THEMES: [&str; 2] = ["light", "dark"];
/// What a phone's or a desk's window shows at once.
const WINDOW_HEIGHT: u64 = 800;
/// Pictures beyond this are hard to look at; the page goes on.
const PICTURE_HEIGHT_MAX: u64 = 9_000;
const UNFOLD: &str = "document.querySelectorAll('details').forEach(one => one.open = true)";
const FOLD: &str = "document.querySelectorAll('details').forEach(one => one.open = false)";
/// What of the folded parts cannot be seen on paper, where nobody filters.
const HIDDEN_ON_PAPER: &str = "[...document.querySelectorAll('details > :not(summary, .tools)')]
    .filter(one => !one.checkVisibility()).map(one => one.outerHTML.slice(0, 80))";

#[test]
fn a_simulated_report_can_be_read_by_everybody() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (desktop, server) = (format!("{MODELS}/ryzen5-2600.xml:7"), format!("{MODELS}/xeon-e5-2640-x2.xml:7"));
    nearfar(folder.path(), &["run", "quick", "--sim", &desktop, "--budget", "1000h"]);
    nearfar(folder.path(), &["map", "--measure", "--sim", &server]);
    nearfar(folder.path(), &["place", "--sim", &desktop, "--", "gzip", "-kc", "/bin/bash"]);
    look_at("simulated", folder.path());
}

#[test]
fn a_measured_report_can_be_read_by_everybody() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    nearfar(folder.path(), &["run", "quick", "--smoke", "--budget", "20s"]);
    nearfar(folder.path(), &["map", "--measure", "--smoke"]);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published/ryzen-2600-ccx.csv");
    nearfar(folder.path(), &["import", published]);
    look_at("measured", folder.path());
}

/// Nine machines of which one is slow, and one became slow.
#[test]
fn machines_side_by_side_can_be_read_by_everybody() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let experiment = folder.path().join("daily.toml");
    std::fs::write(&experiment, DAILY).expect("the folder can be written");
    let experiment = experiment.to_str().expect("scratch folders are UTF-8");
    let (usual, slow) = (format!("{MODELS}/ryzen5-2600.xml:7"), slow(folder.path()));
    for machine in 0..9_u32 {
        for round in 0..7_u32 {
            let is_slow = machine == 4 || machine == 2 && round > 3;
            let (name, seed) = (format!("node-{machine}"), (10 * machine + round).to_string());
            let sim = if is_slow { &slow } else { &usual };
            let words = ["run", experiment, "--sim", sim, "--seed", &seed, "--host-label", &name, "--label", "rack=7"];
            nearfar(folder.path(), &words);
        }
    }
    let file = look_at("machines", folder.path());
    let Some(file) = file else { return };
    let page = std::fs::read_to_string(file).expect("it was just written");
    for picture in [": machines by tests", "node-4 against its class", "node-2: queens over time"] {
        assert!(page.contains(&format!("{picture}</title>")), "{picture}");
    }
}

/// Enough for medians that hardly differ.
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

/// The same machine with slower cores, and firmware of its own.
fn slow(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["map", "--from", &format!("{MODELS}/ryzen5-2600.xml"), "--format", "capture"]);
    let mut capture: Value =
        serde_json::from_slice(&command.output().expect("the program starts").stdout).expect("a capture is JSON");
    let fact = |key: &str, value: &str| json!({ "key": key, "value": value });
    capture["settings"] = json!([fact("cpu.model", "simulated ryzen5-2600.xml"), fact("machine.bios-version", "F2")]);
    capture["topology"]["cpu_kinds"] = json!([{ "cpus": "0-11", "efficiency": 0, "capacity": 870, "info": [] }]);
    let file = folder.join("slow.json");
    std::fs::write(&file, capture.to_string()).expect("the folder can be written");
    format!("{}:7", file.display())
}

fn nearfar(folder: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("results.db")).args(args).arg("--quiet");
    command.env("NEARFAR_STATE", folder.join("state"));
    let output = command.output().expect("the program starts");
    // 3: so short a run may well be inconclusive.
    let fine = matches!(output.status.code(), Some(0 | 3));
    assert!(fine, "nearfar {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn album() -> PathBuf {
    let album = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("looks");
    std::fs::create_dir_all(&album).expect("the target folder can be written");
    album
}

/// Makes the report of a folder's results file and holds everything of it in every view; none without a browser.
fn look_at(name: &str, folder: &Path) -> Option<PathBuf> {
    let mut browser = Browser::start(name)?;
    let file = folder.join("report.html");
    nearfar(folder, &["report", "-o", file.to_str().expect("scratch folders are UTF-8")]);
    let page = browser.page();
    let mut wrong = Vec::new();
    for width in WIDTHS {
        for theme in THEMES {
            let view = format!("{name}-{width}-{theme}");
            let seen = seen(&mut browser, &page, &file, width, theme);
            wrong.extend(seen.into_iter().map(|what| format!("{view}: {what}")));
            photograph(&mut browser, &page, width, &album().join(format!("{view}.png")));
        }
    }
    wrong.extend(on_paper(&mut browser, &page, name));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Some(file)
}

/// What is wrong with the page in one view, everything unfolded.
fn seen(browser: &mut Browser, page: &Page, file: &Path, width: u64, theme: &str) -> Vec<String> {
    window(browser, page, width, WINDOW_HEIGHT);
    media(browser, page, "screen", theme);
    let url = format!("file://{}", file.display());
    browser.open(page, &url);
    browser.value(page, UNFOLD);
    // Only what is in the window can be hit by a finger, and asked for its colours.
    let height = height(browser, page);
    window(browser, page, width, height);
    let seen = browser.value(page, include_str!("page.js"));
    let mut wrong: Vec<String> =
        seen["wrong"].as_array().expect("a list").iter().map(|one| one.as_str().expect("words").to_string()).collect();
    let texts = seen["texts"].as_u64().expect("a number");
    if texts < 100 {
        wrong.push(format!("only {texts} texts could be read: is this the report?"));
    }
    wrong.extend(nameless(browser, page, &seen));
    wrong.extend(complaints(browser, &url));
    wrong
}

/// Pictures and tables that the accessibility tree lacks, or has without a name.
fn nameless(browser: &mut Browser, page: &Page, seen: &Value) -> Vec<String> {
    let tree = browser.on(page, "Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a list");
    let mut wrong = Vec::new();
    for (role, there) in [("image", &seen["pictures"]), ("table", &seen["tables"])] {
        let known: Vec<&Value> =
            nodes.iter().filter(|node| node["ignored"] != true && node["role"]["value"] == role).collect();
        let named = known.iter().filter(|node| node["name"]["value"].as_str().is_some_and(|name| !name.is_empty()));
        let named = named.count();
        if named as u64 != there.as_u64().expect("a number") || named == 0 {
            wrong.push(format!(
                "of {there} of role {role}, {} are in the accessibility tree and {named} have a name",
                known.len()
            ));
        }
    }
    wrong
}

/// What the console says, and what was fetched that does not begin with this.
fn complaints(browser: &Browser, own: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for event in &browser.events {
        match event["method"].as_str() {
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                wrong.push(format!("the console has {}", event["params"]));
            }
            Some("Network.requestWillBeSent") => {
                let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
                if !url.starts_with(own) && !url.starts_with("data:") {
                    wrong.push(format!("it asks for {url}"));
                }
            }
            _ => {}
        }
    }
    wrong
}

/// As a reader first sees it.
fn photograph(browser: &mut Browser, page: &Page, width: u64, file: &Path) {
    browser.value(page, FOLD);
    window(browser, page, width, WINDOW_HEIGHT);
    let height = height(browser, page).min(PICTURE_HEIGHT_MAX);
    let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
    let shot = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
    let picture = bytes(&browser.on(page, "Page.captureScreenshot", &shot)["data"]);
    assert!(picture.starts_with(b"\x89PNG"), "{}", file.display());
    std::fs::write(file, picture).expect("the target folder can be written");
}

/// Printed while the screen is dark and everything is folded: paper is white, and has all of it.
fn on_paper(browser: &mut Browser, page: &Page, name: &str) -> Vec<String> {
    media(browser, page, "print", "dark");
    let hidden = browser.value(page, HIDDEN_ON_PAPER);
    let ink = browser.value(page, "getComputedStyle(document.body).color");
    let paper = browser.value(page, "getComputedStyle(document.body).backgroundColor");
    media(browser, page, "", "dark");
    let printed = bytes(&browser.on(page, "Page.printToPDF", &json!({ "preferCSSPageSize": true }))["data"]);
    std::fs::write(album().join(format!("{name}.pdf")), &printed).expect("the target folder can be written");
    let mut wrong = Vec::new();
    if !printed.starts_with(b"%PDF") {
        wrong.push(format!("{name}: printing gives {} bytes that are no PDF", printed.len()));
    }
    if hidden.as_array().is_none_or(|hidden| !hidden.is_empty()) {
        wrong.push(format!("{name}: paper does not have {hidden}"));
    }
    if (ink.as_str(), paper.as_str()) != (Some("rgb(29, 35, 41)"), Some("rgb(255, 255, 255)")) {
        wrong.push(format!("{name}: printed in {ink} on {paper}"));
    }
    wrong
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
