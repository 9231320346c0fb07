//! The script of the report, used with keyboard and pointer: sorting, filtering, units and the readout of samples. The
//! script must not change the text of the page, and must format numbers like the program.

use serde_json::{Value, json};

use crate::browser::{Browser, Page};
use crate::{HEIGHT, MODELS, nearfar, page_errors, window};

const TEST: &str = "report_script_works_by_keyboard_and_pointer";
/// Name and value of the visible rows of the first table.
const COLUMN: &str = "[...document.querySelectorAll('main table')[0].tBodies[0].rows].filter(row => !row.hidden && \
    !row.classList.contains('heading')).map(row => [row.cells[0].textContent, Number(row.cells[2].dataset.value)])";
const GROUPS: &str = "(() => { const groups = []; for (const row of document.querySelectorAll('main table')[0].tBodies[0].rows) \
    { if (row.classList.contains('heading')) groups.push([]); else groups.at(-1).push(Number(row.cells[2].dataset.value)); } \
    return groups; })()";

#[test]
fn report_script_works_by_keyboard_and_pointer() {
    let Some(mut browser) = Browser::start(TEST) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    nearfar(dir.path(), &["run", "quick", "--sim", &format!("{MODELS}/ryzen5-2600.xml:7"), "--budget", "1000h"]);
    let file = dir.path().join("report.html");
    nearfar(dir.path(), &["report", "-o", file.to_str().expect("temporary paths are UTF-8")]);
    let page = browser.page();
    window(&mut browser, &page, 1280, HEIGHT);
    let url = format!("file://{}", file.display());
    browser.open(&page, &url);
    let html = std::fs::read_to_string(&file).expect("the report exists");
    check_text(&mut browser, &page, &html);
    check_sorting(&mut browser, &page);
    check_filtering(&mut browser, &page);
    check_units(&mut browser, &page);
    check_readout(&mut browser, &page);
    assert_eq!(page_errors(&browser, &url), [""; 0]);
}

/// Apart from the script's tools and white space, the text of the page equals that of the file parsed without scripts.
fn check_text(browser: &mut Browser, page: &Page, html: &str) {
    let words = "const words = root => { const main = root.querySelector('main').cloneNode(true); \
                 main.querySelectorAll('.tools').forEach(tool => tool.remove()); return main.textContent.replace(/\\s+/g, ''); };";
    let html = serde_json::to_string(html).expect("text is JSON").replace("</", "<\\/");
    let compared = format!(
        "(() => {{ {words} const file = new DOMParser().parseFromString({html}, 'text/html'); \
         return [words(document) === words(file), words(file).length, document.querySelectorAll('main .tools').length]; }})()"
    );
    let compared = browser.value(page, &compared);
    assert_eq!(compared[0], true, "the text of the page differs from the file");
    assert!(compared[1].as_u64() > Some(5_000) && compared[2].as_u64() > Some(5), "{compared}");
}

/// Enter on a column heading sorts within each test: ascending, descending, original. `aria-sort` follows.
fn check_sorting(browser: &mut Browser, page: &Page) {
    let title = "document.querySelectorAll('main table')[0].querySelectorAll('thead button')[2]";
    let before = browser.value(page, GROUPS);
    browser.value(page, &format!("{title}.focus()"));
    let sorted = |groups: &Value, falling: bool| -> bool {
        groups.as_array().expect("a list").iter().all(|group| {
            let numbers: Vec<f64> = group.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
            numbers.windows(2).all(|two| if falling { two[0] >= two[1] } else { two[0] <= two[1] })
        })
    };
    assert!(!sorted(&before, false) && !sorted(&before, true), "no group may be sorted already: {before}");
    let order = format!("{title}.closest('th').getAttribute('aria-sort')");
    for (expected, falling) in [("ascending", false), ("descending", true)] {
        press(browser, page, "Enter");
        assert_eq!(browser.value(page, &order), expected);
        let groups = browser.value(page, GROUPS);
        assert!(sorted(&groups, falling), "{expected}: {groups}");
        assert_eq!(count(&groups), count(&before), "no row is lost");
    }
    press(browser, page, "Enter");
    assert_eq!(browser.value(page, &order), Value::Null);
    assert_eq!(browser.value(page, GROUPS), before, "the original order returns");
    // A comparison omits repeated names; sorted rows must have theirs.
    let repeats = "document.querySelectorAll('td[data-same]').length";
    assert!(browser.value(page, repeats).as_u64() > Some(0), "no table omits repeated names");
    let other = "[...document.querySelectorAll('table')].find(table => table.querySelector('td[data-same]'))";
    browser.value(page, &format!("{other}.querySelector('thead button').click()"));
    let empty =
        format!("[...{other}.querySelectorAll('td[data-same]')].filter(cell => cell.textContent === '').length");
    assert_eq!(browser.value(page, &empty), 0);
    browser.value(page, &format!("{other}.querySelectorAll('thead button')[0].click()"));
    browser.value(page, &format!("{other}.querySelectorAll('thead button')[0].click()"));
    assert_ne!(browser.value(page, &empty), 0, "repeated names are omitted again");
}

fn count(groups: &Value) -> usize {
    groups.as_array().expect("a list").iter().map(|group| group.as_array().map_or(0, Vec::len)).sum()
}

fn check_filtering(browser: &mut Browser, page: &Page) {
    let all = browser.value(page, COLUMN).as_array().expect("a list").len();
    browser.value(page, "document.querySelector('main input[type=search]').focus()");
    browser.on(page, "Input.insertText", &json!({ "text": "stream kern" }));
    let rows = browser.value(page, COLUMN);
    let rows = rows.as_array().expect("a list");
    assert!(!rows.is_empty() && rows.len() < all && rows.iter().all(|row| row[0] == "kernel"), "{rows:?}");
    let output = browser.value(page, "document.querySelector('main .tools output').textContent");
    assert_eq!(output, format!("{} of {all} rows", rows.len()));
    let headings =
        "[...document.querySelectorAll('main table')[0].querySelectorAll('tr.heading')].filter(row => !row.hidden)";
    assert_eq!(browser.value(page, &format!("{headings}.length")), 1, "a test without visible rows has no heading");
    let clear = "const input = document.querySelector('main input[type=search]'); input.value = ''; input.dispatchEvent(new Event('input'))";
    browser.value(page, &format!("(() => {{ {clear} }})()"));
    assert_eq!(browser.value(page, COLUMN).as_array().map(Vec::len), Some(all));
}

fn check_units(browser: &mut Browser, page: &Page) {
    let texts = "[...document.querySelectorAll('td[data-unit]')].map(cell => cell.textContent)";
    let choose = |unit: &str| {
        format!(
            "[...document.querySelectorAll('.units select')].filter(select => [...select.options].some(option => \
             option.value === '{unit}')).forEach(select => {{ select.value = '{unit}'; select.dispatchEvent(new Event('change')); }})"
        )
    };
    let before = browser.value(page, texts);
    // To compare the formatting, treat all values as ns, multiply them by 1000, and let the script display them in µs.
    let script = "[...document.querySelectorAll('td[data-unit]')].map(cell => { const unit = cell.dataset.unit; \
        cell.dataset.unit = 'ns'; return unit; })";
    let units = browser.value(page, script);
    browser.value(page, &choose("µs"));
    let other = browser.value(page, texts);
    assert_ne!(other, before);
    // The factor 1000 cancels the conversion to µs: the numbers are the same, but formatted by the script.
    browser.value(
        page,
        "document.querySelectorAll('td[data-unit]').forEach(cell => { for (const key of ['value', 'to']) \
        if (cell.dataset[key] !== undefined) cell.dataset[key] = String(Number(cell.dataset[key]) * 1000); })",
    );
    browser.value(page, &choose("ns"));
    browser.value(page, &choose("µs"));
    let after = browser.value(page, texts);
    let (before, after) = (before.as_array().expect("a list"), after.as_array().expect("a list"));
    assert!(before.len() > 100, "{} numbers", before.len());
    for ((program, script), unit) in before.iter().zip(after).zip(units.as_array().expect("a list")) {
        let (program, script) = (program.as_str().expect("text"), script.as_str().expect("text"));
        let number = program.trim_end_matches(unit.as_str().expect("text")).trim_end();
        assert_eq!(script.trim_end_matches("µs").trim_end(), number, "the program prints {program}");
    }
    // Reload the page to reset the values.
    let url = browser.value(page, "location.href");
    browser.open(page, url.as_str().expect("an address"));
    browser.value(page, &choose("µs"));
    let heading = "document.querySelector('main').textContent.includes('latency in µs, lower is better')";
    assert_eq!(browser.value(page, heading), true, "the text with the name of the unit changes");
    browser.value(page, &choose("ns"));
}

/// The readout follows the arrow keys on its slider, and the pointer.
fn check_readout(browser: &mut Browser, page: &Page) {
    let slider = "document.querySelector('.readout input')";
    browser.value(page, &format!("{slider}.focus()"));
    press(browser, page, "ArrowRight");
    let readout = browser.value(page, &format!("{slider}.getAttribute('aria-valuetext')"));
    assert!(readout.as_str().is_some_and(|text| text.starts_with("kernel, trial 2 of 20: ")), "{readout}");
    let dot = "(() => { const strip = document.querySelectorAll('svg.strips[data-unit] g[data-values]')[1]; \
               const [, x, y] = /M([\\d.]+) ([\\d.]+)/.exec(strip.querySelector('.dots').getAttribute('d')); const svg = strip.ownerSVGElement; \
               svg.scrollIntoView({ block: 'center' }); \
               const at = new DOMPoint(Number(x), Number(y)).matrixTransform(svg.getScreenCTM()); \
               return [at.x, at.y, strip.dataset.name, strip.dataset.values.split(' ')[0]]; })()";
    let dot = browser.value(page, dot);
    let moved = json!({ "type": "mouseMoved", "x": dot[0], "y": dot[1] });
    browser.on(page, "Input.dispatchMouseEvent", &moved);
    let readout = browser.value(page, "document.querySelector('.readout span').textContent");
    let readout = readout.as_str().expect("text");
    let name = dot[2].as_str().expect("text");
    assert!(readout.starts_with(&format!("{name}, trial 1 of 20: ")), "{readout} for {dot}");
    let value: f64 = dot[3].as_str().and_then(|value| value.split(':').nth(1)?.parse().ok()).expect("a number");
    let shown: f64 = readout.split(": ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("number");
    assert!((shown / value - 1.0).abs() < 1e-3, "the readout {readout} differs from {value}");
    assert_eq!(browser.value(page, "document.querySelectorAll('.ring').length"), 1);
}

fn press(browser: &mut Browser, page: &Page, key: &str) {
    let code = if key == "Enter" { 13 } else { 39 };
    let text = if key == "Enter" { "\r" } else { "" };
    for kind in ["keyDown", "keyUp"] {
        let text = if kind == "keyDown" { text } else { "" };
        let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        browser.on(page, "Input.dispatchKeyEvent", &event);
    }
}
