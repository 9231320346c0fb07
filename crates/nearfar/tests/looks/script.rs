//! What the report's script adds, used with keyboard and pointer: sorting, filtering, samples, units. That the page says the same
//! without it, and that the script writes numbers as the program does.

use serde_json::{Value, json};

use crate::browser::{Browser, Page};
use crate::{MODELS, WINDOW_HEIGHT, complaints, nearfar, window};

const TEST: &str = "what_the_script_adds_can_be_used_by_everybody";
/// The first column's texts of the rows that can be seen, group by group, and the numbers of the one that is sorted.
const COLUMN: &str = "[...document.querySelectorAll('main table')[0].tBodies[0].rows].filter(row => !row.hidden && \
    !row.classList.contains('heading')).map(row => [row.cells[0].textContent, Number(row.cells[2].dataset.value)])";
const GROUPS: &str = "(() => { const groups = []; for (const row of document.querySelectorAll('main table')[0].tBodies[0].rows) \
    { if (row.classList.contains('heading')) groups.push([]); else groups.at(-1).push(Number(row.cells[2].dataset.value)); } \
    return groups; })()";

#[test]
fn what_the_script_adds_can_be_used_by_everybody() {
    let Some(mut browser) = Browser::start(TEST) else { return };
    let folder = tempfile::tempdir().expect("a scratch folder");
    nearfar(folder.path(), &["run", "quick", "--sim", &format!("{MODELS}/ryzen5-2600.xml:7"), "--budget", "1000h"]);
    let file = folder.path().join("report.html");
    nearfar(folder.path(), &["report", "-o", file.to_str().expect("scratch folders are UTF-8")]);
    let page = browser.page();
    window(&mut browser, &page, 1280, WINDOW_HEIGHT);
    let url = format!("file://{}", file.display());
    browser.open(&page, &url);
    let html = std::fs::read_to_string(&file).expect("it was written");
    reads_the_same(&mut browser, &page, &html);
    sorts(&mut browser, &page);
    filters(&mut browser, &page);
    changes_units(&mut browser, &page);
    tells_samples(&mut browser, &page);
    assert_eq!(complaints(&browser, &url), [""; 0]);
}

/// The words of the page with the tools of the script taken out are those of the file, parsed without running anything. Space between rows is none.
fn reads_the_same(browser: &mut Browser, page: &Page, html: &str) {
    let words = "const words = root => { const main = root.querySelector('main').cloneNode(true); \
                 main.querySelectorAll('.tools').forEach(tool => tool.remove()); return main.textContent.replace(/\\s+/g, ''); };";
    let html = serde_json::to_string(html).expect("text is JSON").replace("</", "<\\/");
    let compared = format!(
        "(() => {{ {words} const file = new DOMParser().parseFromString({html}, 'text/html'); \
         return [words(document) === words(file), words(file).length, document.querySelectorAll('main .tools').length]; }})()"
    );
    let compared = browser.value(page, &compared);
    assert_eq!(compared[0], true, "the page says something else than the file");
    assert!(compared[1].as_u64() > Some(5_000) && compared[2].as_u64() > Some(5), "{compared}");
}

/// Enter on a column's title: up, down, and as it was; inside each test, and said to screen readers.
fn sorts(browser: &mut Browser, page: &Page) {
    let title = "document.querySelectorAll('main table')[0].querySelectorAll('thead button')[2]";
    let before = browser.value(page, GROUPS);
    browser.value(page, &format!("{title}.focus()"));
    let sorted = |groups: &Value, falling: bool| -> bool {
        groups.as_array().expect("a list").iter().all(|group| {
            let numbers: Vec<f64> = group.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
            numbers.windows(2).all(|two| if falling { two[0] >= two[1] } else { two[0] <= two[1] })
        })
    };
    assert!(!sorted(&before, false) && !sorted(&before, true), "there must be something to sort: {before}");
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
    assert_eq!(browser.value(page, GROUPS), before, "as it was");
    // A comparison leaves out names that repeat; sorted, each row has its own.
    let repeats = "document.querySelectorAll('td[data-same]').length";
    assert!(browser.value(page, repeats).as_u64() > Some(0), "no table here leaves out what repeats");
    let other = "[...document.querySelectorAll('table')].find(table => table.querySelector('td[data-same]'))";
    browser.value(page, &format!("{other}.querySelector('thead button').click()"));
    let empty =
        format!("[...{other}.querySelectorAll('td[data-same]')].filter(cell => cell.textContent === '').length");
    assert_eq!(browser.value(page, &empty), 0);
    browser.value(page, &format!("{other}.querySelectorAll('thead button')[0].click()"));
    browser.value(page, &format!("{other}.querySelectorAll('thead button')[0].click()"));
    assert_ne!(browser.value(page, &empty), 0, "and as it was again");
}

fn count(groups: &Value) -> usize {
    groups.as_array().expect("a list").iter().map(|group| group.as_array().map_or(0, Vec::len)).sum()
}

fn filters(browser: &mut Browser, page: &Page) {
    let all = browser.value(page, COLUMN).as_array().expect("a list").len();
    browser.value(page, "document.querySelector('main input[type=search]').focus()");
    browser.on(page, "Input.insertText", &json!({ "text": "stream kern" }));
    let seen = browser.value(page, COLUMN);
    let seen = seen.as_array().expect("a list");
    assert!(!seen.is_empty() && seen.len() < all && seen.iter().all(|row| row[0] == "kernel"), "{seen:?}");
    let said = browser.value(page, "document.querySelector('main .tools output').textContent");
    assert_eq!(said, format!("{} of {all} rows", seen.len()));
    let headings =
        "[...document.querySelectorAll('main table')[0].querySelectorAll('tr.heading')].filter(row => !row.hidden)";
    assert_eq!(browser.value(page, &format!("{headings}.length")), 1, "a test without rows has no heading");
    let emptied = "const input = document.querySelector('main input[type=search]'); input.value = ''; input.dispatchEvent(new Event('input'))";
    browser.value(page, &format!("(() => {{ {emptied} }})()"));
    assert_eq!(browser.value(page, COLUMN).as_array().map(Vec::len), Some(all));
}

fn changes_units(browser: &mut Browser, page: &Page) {
    let texts = "[...document.querySelectorAll('td[data-unit]')].map(cell => cell.textContent)";
    let choose = |unit: &str| {
        format!(
            "[...document.querySelectorAll('.units select')].filter(select => [...select.options].some(option => \
             option.value === '{unit}')).forEach(select => {{ select.value = '{unit}'; select.dispatchEvent(new Event('change')); }})"
        )
    };
    let before = browser.value(page, texts);
    // Written anew in the unit that they have, numbers come out as the program wrote them: here all of ns and MB/s.
    let script = "[...document.querySelectorAll('td[data-unit]')].map(cell => { const unit = cell.dataset.unit; \
        cell.dataset.unit = 'ns'; return unit; })";
    let units = browser.value(page, script);
    browser.value(page, &choose("µs"));
    let other = browser.value(page, texts);
    assert_ne!(other, before);
    // A thousandth, a thousand times: the same numbers, now written by the script.
    browser.value(
        page,
        "document.querySelectorAll('td[data-unit]').forEach(cell => { for (const key of ['value', 'to']) \
        if (cell.dataset[key] !== undefined) cell.dataset[key] = String(Number(cell.dataset[key]) * 1000); })",
    );
    browser.value(page, &choose("ns"));
    browser.value(page, &choose("µs"));
    let again = browser.value(page, texts);
    let (before_all, again) = (before.as_array().expect("a list"), again.as_array().expect("a list"));
    assert!(before_all.len() > 100, "{} numbers", before_all.len());
    for ((made, written), unit) in before_all.iter().zip(again).zip(units.as_array().expect("a list")) {
        let (made, written) = (made.as_str().expect("text"), written.as_str().expect("text"));
        let bare = made.trim_end_matches(unit.as_str().expect("text")).trim_end();
        assert_eq!(written.trim_end_matches("µs").trim_end(), bare, "the program writes {made}");
    }
    // As it was, for what follows.
    let url = browser.value(page, "location.href");
    browser.open(page, url.as_str().expect("an address"));
    browser.value(page, &choose("µs"));
    let heading = "document.querySelector('main').textContent.includes('latency in µs, lower is better')";
    assert_eq!(browser.value(page, heading), true, "what names the unit follows");
    browser.value(page, &choose("ns"));
}

/// By arrow keys on the slider, and below the pointer.
fn tells_samples(browser: &mut Browser, page: &Page) {
    let slider = "document.querySelector('.readout input')";
    browser.value(page, &format!("{slider}.focus()"));
    press(browser, page, "ArrowRight");
    let told = browser.value(page, &format!("{slider}.getAttribute('aria-valuetext')"));
    assert!(told.as_str().is_some_and(|told| told.starts_with("kernel, trial 2 of 20: ")), "{told}");
    let dot = "(() => { const strip = document.querySelectorAll('svg.strips[data-unit] g[data-values]')[1]; \
               const [, x, y] = /M([\\d.]+) ([\\d.]+)/.exec(strip.querySelector('.dots').getAttribute('d')); const svg = strip.ownerSVGElement; \
               svg.scrollIntoView({ block: 'center' }); \
               const at = new DOMPoint(Number(x), Number(y)).matrixTransform(svg.getScreenCTM()); \
               return [at.x, at.y, strip.dataset.name, strip.dataset.values.split(' ')[0]]; })()";
    let dot = browser.value(page, dot);
    let moved = json!({ "type": "mouseMoved", "x": dot[0], "y": dot[1] });
    browser.on(page, "Input.dispatchMouseEvent", &moved);
    let told = browser.value(page, "document.querySelector('.readout span').textContent");
    let told = told.as_str().expect("text");
    let name = dot[2].as_str().expect("text");
    assert!(told.starts_with(&format!("{name}, trial 1 of 20: ")), "{told} of {dot}");
    let value: f64 = dot[3].as_str().and_then(|value| value.split(':').nth(1)?.parse().ok()).expect("a number");
    let shown: f64 = told.split(": ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
    assert!((shown / value - 1.0).abs() < 1e-3, "{told} is {value}");
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
