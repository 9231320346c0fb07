//! Expands one entry of a host list, such as `node-[01-12,20]`, as Slurm and pdsh do. Must not check the names.

/// Maximum number of digits, zeros included: those of `u64::MAX`.
const DIGITS_MAX: usize = 20;

/// Literal parts and numbers in brackets, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Numbers(Vec<NumberRange>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberRange {
    first: u64,
    /// Included, and not less than `first`.
    last: u64,
    /// Minimum number of digits; smaller numbers begin with zeros.
    width: usize,
}

/// Splits a host list at the commas outside brackets.
pub fn entries(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    list.split(move |c| {
        is_inside = c == '[' || is_inside && c != ']';
        c == ',' && !is_inside
    })
}

impl HostPattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = |why: String| {
            format!("invalid host list '{}': {why}; use numbers and ranges, such as node-[1-3,7]", text.escape_debug())
        };
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((literal, after)) = rest.split_once('[') {
            let (inside, after) = after.split_once(']').ok_or_else(|| invalid("a [ is not closed".into()))?;
            parts.push(Part::Literal(literal.into()));
            parts.push(bracket(inside).map_err(invalid)?);
            rest = after;
        }
        parts.push(Part::Literal(rest.into()));
        let is_unopened =
            |part: &Part| matches!(part, Part::Literal(text) if text.contains(']') && !text.contains('['));
        if parts.iter().any(is_unopened) {
            return Err(invalid("a ] is not opened".into()));
        }
        Ok(Self(parts))
    }

    /// Returns the number of names, at most `u64::MAX`, without expanding them.
    pub fn count(&self) -> u64 {
        let factor = |part: &Part| match part {
            Part::Literal(_) => 1,
            Part::Numbers(ranges) => count(ranges),
        };
        self.0.iter().map(factor).fold(1, u64::saturating_mul)
    }

    /// Returns the names; the numbers of the last bracket change first.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (0..self.count()).map(|index| self.name(index))
    }

    fn name(&self, index: u64) -> String {
        let mut rest = index;
        let mut texts: Vec<String> = Vec::new();
        for part in self.0.iter().rev() {
            texts.push(match part {
                Part::Literal(text) => text.clone(),
                Part::Numbers(ranges) => {
                    let size = count(ranges);
                    let number = number(ranges, rest % size);
                    rest /= size;
                    number
                }
            });
        }
        texts.reverse();
        texts.concat()
    }
}

/// Parses the text between brackets. With a colon it is an IPv6 address, as in `[fe80::1]`.
fn bracket(inside: &str) -> Result<Part, String> {
    if inside.contains(':') {
        return Ok(Part::Literal(format!("[{inside}]")));
    }
    inside.split(',').map(NumberRange::parse).collect::<Result<_, _>>().map(Part::Numbers)
}

impl NumberRange {
    /// Parses `7` or `1-3`. Like in Slurm, the first number determines the width.
    fn parse(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug();
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let is_padded = |number: &str| number.len() > 1 && number.starts_with('0');
        // Slurm ignores the zeros of the second number, so its length would be a surprise.
        if is_padded(last) && last.len() != first.len() {
            return Err(format!("the numbers of '{shown}' have different lengths"));
        }
        let width = if is_padded(first) { first.len() } else { 1 };
        let (first, last) = (number_of(first, text)?, number_of(last, text)?);
        if first > last {
            return Err(format!("the range '{shown}' ends before it begins"));
        }
        Ok(Self { first, last, width })
    }

    fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// Parses a number of a range.
fn number_of(digits: &str, range: &str) -> Result<u64, String> {
    let shown = range.escape_debug();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{shown}' is not a number or a range"));
    }
    let number = digits.parse().ok().filter(|_| digits.len() <= DIGITS_MAX);
    number.ok_or_else(|| format!("'{shown}' is too large"))
}

fn count(ranges: &[NumberRange]) -> u64 {
    ranges.iter().map(|range| range.count()).fold(0, u64::saturating_add)
}

/// Returns the number at an index below [`count`], with its zeros.
fn number(ranges: &[NumberRange], index: u64) -> String {
    let mut rest = index;
    for range in ranges {
        if rest < range.count() {
            return format!("{:0width$}", range.first + rest, width = range.width);
        }
        rest -= range.count();
    }
    unreachable!("the index is below the count")
}

#[cfg(test)]
mod tests;
