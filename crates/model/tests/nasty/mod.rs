//! Argument lists that are hard to quote, for tests of printed lines in all crates.

/// Number of lists.
pub const LISTS: usize = 1000;

/// Characters and fragments that shells expand, split or remove.
const NASTY: [&str; 40] = [
    "a",
    "b1",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\u{1b}",
    "\u{7f}",
    "\u{9b}",
    "'",
    "\"",
    "\\",
    "`",
    "$",
    "$HOME",
    "${x}",
    "$(id)",
    "$$",
    "*",
    "?",
    "[a]",
    "~",
    "{a,b}",
    "{1..3}",
    "{threads}",
    "{",
    "}",
    "!",
    "#",
    "&",
    ";",
    "|",
    "<",
    ">",
    "(",
    ")",
    "=",
    "%s",
    "é",
];

/// Returns argument lists of random fragments; the same in every run.
pub fn lists() -> Vec<Vec<String>> {
    let mut state = 1_u64;
    let mut random = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut word = |length: usize| (0..length).map(|_| NASTY[random(NASTY.len())]).collect::<String>();
    (0..LISTS).map(|list| (0..=(list % 5)).map(|at| word((list + at) % 6)).collect()).collect()
}
