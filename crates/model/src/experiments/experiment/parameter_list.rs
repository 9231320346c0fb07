//! Values that replace a placeholder in commands, as in hyperfine: `{size}` by each of a list or of a range.

/// Placeholders that workload `command` replaces by values of the placement.
const RESERVED: [&str; 3] = ["threads", "cpus", "node"];

/// Maximum number of values of a range. A larger one is a typo.
const VALUES_MAX: i64 = 10_000;

/// A placeholder and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterList {
    name: String,
    values: Vec<String>,
}

impl ParameterList {
    /// Creates a list from values that are separated by commas.
    ///
    /// # Errors
    /// The reason why the name is invalid.
    pub fn parse(name: &str, values: &str) -> Result<Self, String> {
        Self::new(name, values.split(',').map(str::to_string).collect())
    }

    /// Creates a list of the numbers from `min` to `max`, which have as many decimals as the most precise of the three.
    ///
    /// # Errors
    /// The reason why the name or a number is invalid, or the range is.
    pub fn scan(name: &str, min: &str, max: &str, step: &str) -> Result<Self, String> {
        let decimals = [min, max, step].map(decimals).into_iter().max().unwrap_or(0);
        let [low, high, step] = [scaled(min, decimals)?, scaled(max, decimals)?, scaled(step, decimals)?];
        if step <= 0 || high < low {
            return Err(format!("the range {min} to {max} is empty: the step must be positive and the maximum last"));
        }
        if (high - low) / step >= VALUES_MAX {
            return Err(format!("the range {min} to {max} has more than {VALUES_MAX} values"));
        }
        let numbers = (0..=(high - low) / step).map(|index| low + index * step);
        Self::new(name, numbers.map(|number| decimal(number, decimals)).collect())
    }

    fn new(name: &str, values: Vec<String>) -> Result<Self, String> {
        if name.is_empty() || name.contains(['{', '}']) {
            return Err(format!("invalid name '{name}': it must be a word without braces"));
        }
        if RESERVED.contains(&name) {
            return Err(format!("{{{name}}} is a placeholder for a value of the placement"));
        }
        Ok(Self { name: name.into(), values })
    }
}

/// A command with one value for each placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedCommand {
    pub words: Vec<String>,
    /// The values as `name=value`, in the order of the lists.
    pub values: Vec<String>,
}

/// Returns a command with each combination of the values; the last list varies fastest.
///
/// # Errors
/// A list whose placeholder is in none of the words.
pub fn expand_command(words: &[String], lists: &[ParameterList]) -> Result<Vec<ExpandedCommand>, String> {
    let mut all = vec![ExpandedCommand { words: words.to_vec(), values: Vec::new() }];
    for ParameterList { name, values } in lists {
        let placeholder = format!("{{{name}}}");
        if !words.iter().any(|word| word.contains(&placeholder)) {
            return Err(format!("no command contains {placeholder}"));
        }
        let with = |command: &ExpandedCommand, value: &String| ExpandedCommand {
            words: command.words.iter().map(|word| word.replace(&placeholder, value)).collect(),
            values: [command.values.as_slice(), &[format!("{name}={value}")]].concat(),
        };
        all = all.iter().flat_map(|command| values.iter().map(|value| with(command, value))).collect();
    }
    Ok(all)
}

/// Number of digits after the decimal point.
fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, after)| after.len())
}

/// Returns the number times ten to the power of `decimals`, exactly.
fn scaled(text: &str, decimals: usize) -> Result<i64, String> {
    let (whole, after) = text.split_once('.').unwrap_or((text, ""));
    let is_number = after.bytes().all(|byte| byte.is_ascii_digit()) && whole.bytes().any(|byte| byte.is_ascii_digit());
    let digits = format!("{whole}{after:0<decimals$}");
    let number = digits.parse::<i64>().ok().filter(|number| is_number && number.unsigned_abs() < 1 << 62);
    number.ok_or_else(|| format!("'{text}' is not a number"))
}

fn decimal(scaled: i64, decimals: usize) -> String {
    if decimals == 0 {
        return scaled.to_string();
    }
    let sign = if scaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", scaled.unsigned_abs(), width = decimals + 1);
    let (whole, after) = digits.split_at(digits.len() - decimals);
    format!("{sign}{whole}.{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends_and_keep_decimals() {
        let values = |min, max, step| ParameterList::scan("n", min, max, step).map(|list| list.values.join(" "));
        assert_eq!(values("1", "3", "1").unwrap(), "1 2 3");
        assert_eq!(values("-1", "1", "2").unwrap(), "-1 1");
        assert_eq!(values("0", "1", "0.25").unwrap(), "0.00 0.25 0.50 0.75 1.00");
        assert_eq!(values("-0.5", "0.5", "0.5").unwrap(), "-0.5 0.0 0.5");
        assert_eq!(values("1", "2", "3").unwrap(), "1");
        for (min, max, step) in [("2", "1", "1"), ("1", "2", "0"), ("1", "2", "-1"), ("1", "100000", "1")] {
            assert!(values(min, max, step).is_err(), "{min} {max} {step}");
        }
        for wrong in ["", "x", "1.x", "1e3", ".", "99999999999999999999"] {
            assert!(values(wrong, "5", "1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_combination_is_expanded() {
        let lists = [ParameterList::parse("a", "x,y").unwrap(), ParameterList::scan("b", "1", "2", "1").unwrap()];
        let expanded = expand_command(&["{a}".into(), "-{b}{a}".into()], &lists).unwrap();
        let shown: Vec<String> =
            expanded.iter().map(|one| format!("{} {}", one.words.join(" "), one.values.join(" "))).collect();
        assert_eq!(
            shown,
            ["x -1x a=x b=1", "x -2x a=x b=2", "y -1y a=y b=1", "y -2y a=y b=2"],
            "the last list varies fastest"
        );
        assert_eq!(expand_command(&["a".into()], &lists).unwrap_err(), "no command contains {a}");
        let unchanged = ExpandedCommand { words: vec!["a".into()], values: Vec::new() };
        assert_eq!(expand_command(&["a".into()], &[]).unwrap(), [unchanged]);
    }

    #[test]
    fn placeholders_of_placements_are_reserved() {
        assert!(ParameterList::parse("threads", "1,2").unwrap_err().contains("{threads} is a placeholder"));
        assert!(ParameterList::parse("", "1").is_err());
        assert!(ParameterList::parse("a}", "1").is_err());
    }
}
