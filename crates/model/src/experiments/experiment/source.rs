//! TOML with locations: every key and value has its span in the file, for error messages. Must not depend on
//! experiments.

use std::fmt::Display;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ExperimentError;
use crate::values::suggest::suggestions;

#[derive(Clone, Copy)]
pub(super) struct ExperimentText<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

/// A table of the file with validated keys.
pub(super) struct TomlTable<'a> {
    source: ExperimentText<'a>,
    /// Name in error messages: `[repeat]`, `the experiment`.
    title: &'static str,
    at: Range<usize>,
    table: &'a DeTable<'a>,
}

/// A value with its span.
#[derive(Clone)]
pub(super) struct Located<T> {
    pub value: T,
    pub at: Range<usize>,
}

/// A value that is not a list or a table, as text, with its TOML type.
pub(super) struct Scalar {
    pub text: String,
    pub is_string: bool,
}

impl<'a> ExperimentText<'a> {
    /// Creates an error at a span.
    pub fn error(self, at: &Range<usize>, what: impl Display, hint: Option<String>) -> ExperimentError {
        let before = self.text.get(..at.start.min(self.text.len())).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        ExperimentError { file: self.file.into(), line, column, what: what.to_string(), hint }
    }

    pub fn read(self) -> Result<Spanned<DeTable<'a>>, ExperimentError> {
        DeTable::parse(self.text)
            .map_err(|error| self.error(&error.span().unwrap_or(0..0), format!("not TOML: {}", error.message()), None))
    }
}

impl<'a> TomlTable<'a> {
    /// Validates that a table has only these keys.
    pub fn new(
        source: ExperimentText<'a>,
        title: &'static str,
        table: &'a Spanned<DeTable<'a>>,
        keys: &[&str],
    ) -> Result<Self, ExperimentError> {
        Self::of(source, title, table.span(), table.get_ref(), keys)
    }

    fn of(
        source: ExperimentText<'a>,
        title: &'static str,
        at: Range<usize>,
        table: &'a DeTable<'a>,
        keys: &[&str],
    ) -> Result<Self, ExperimentError> {
        let section = Self { source, title, at, table };
        match section.keys().into_iter().find(|key| !keys.contains(&key.value)) {
            Some(unknown) => {
                let choices = suggestions(unknown.value, keys.iter().copied()).join(", ");
                let what = format!("{title} has no key '{}'", unknown.value);
                Err(source.error(&unknown.at, what, Some(format!("the keys are {choices}"))))
            }
            None => Ok(section),
        }
    }

    /// Returns the keys in file order.
    pub fn keys(&self) -> Vec<Located<&'a str>> {
        let mut keys: Vec<Located<&str>> =
            self.table.iter().map(|(key, _)| Located { value: key.get_ref().as_ref(), at: key.span() }).collect();
        keys.sort_by_key(|key| key.at.start);
        keys
    }

    /// Creates an error about the section as a whole.
    pub fn error(&self, what: impl Display, hint: Option<String>) -> ExperimentError {
        // The span of a section begins at its header, that of the root table at the first line.
        self.source.error(&self.at, what, hint)
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// Returns a text; `None` if the key is missing.
    pub fn text(&self, key: &str) -> Result<Option<Located<String>>, ExperimentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(Located { value: text.to_string(), at: value.span() })),
            other => Err(self.wrong(key, value, &format!("a text in quotes, not {}", kind(other)))),
        }
    }

    /// Returns a required, non-empty text.
    pub fn required_text(&self, key: &str, hint: &str) -> Result<Located<String>, ExperimentError> {
        let text = self
            .text(key)?
            .ok_or_else(|| self.error(format!("{} has no {key}", self.title), Some(format!("add {hint}"))))?;
        if text.value.trim().is_empty() {
            return Err(self.source.error(&text.at, format!("{key} is empty"), Some(format!("write {hint}"))));
        }
        Ok(text)
    }

    /// Returns an integer within bounds; `None` if the key is missing.
    pub fn count(
        &self,
        key: &str,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<Located<u32>>, ExperimentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.filter(|number| bounds.contains(number)).ok_or_else(|| {
            let what = format!("a whole number from {} to {}, without quotes", bounds.start(), bounds.end());
            self.wrong(key, value, &what)
        })?;
        Ok(Some(Located { value: number, at: value.span() }))
    }

    /// Returns true or false; `None` if the key is missing.
    pub fn switch(&self, key: &str) -> Result<Option<bool>, ExperimentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(on) => Ok(Some(*on)),
            other => Err(self.wrong(key, value, &format!("true or false, not {}", kind(other)))),
        }
    }

    /// Returns a nested table, with only these keys if a list is given; `None` if the key is missing.
    pub fn section(
        &self,
        key: &str,
        title: &'static str,
        keys: Option<&[&str]>,
    ) -> Result<Option<TomlTable<'a>>, ExperimentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(key, value, &format!("a table: {title}")));
        };
        match keys {
            Some(keys) => Self::of(self.source, title, value.span(), table, keys).map(Some),
            None => Ok(Some(Self { source: self.source, title, at: value.span(), table })),
        }
    }

    /// Returns the tables of a `[[key]]` in file order. Empty if the key is missing.
    pub fn sections(
        &self,
        key: &str,
        title: &'static str,
        keys: &[&str],
    ) -> Result<Vec<TomlTable<'a>>, ExperimentError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let wrong = || self.wrong(key, value, &format!("one or more tables, each headed {title}"));
        let DeValue::Array(tables) = value.get_ref() else { return Err(wrong()) };
        let section = |table: &'a Spanned<DeValue<'a>>| match table.get_ref() {
            DeValue::Table(inner) => Self::of(self.source, title, table.span(), inner, keys),
            _ => Err(wrong()),
        };
        tables.iter().map(section).collect()
    }

    /// Returns a list of scalars; a single scalar is a list of one. `None` if the key is missing.
    pub fn scalars(&self, key: &str) -> Result<Option<Vec<Located<Scalar>>>, ExperimentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Array(list) = value.get_ref() else { return Ok(Some(vec![self.scalar(key, value)?])) };
        if list.is_empty() {
            let what = format!("the list of {key} is empty");
            return Err(self.source.error(&value.span(), what, Some(format!("add a value or remove {key}"))));
        }
        list.iter().map(|value| self.scalar(key, value)).collect::<Result<_, _>>().map(Some)
    }

    fn scalar(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Located<Scalar>, ExperimentError> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(on) => on.to_string(),
            DeValue::Float(number) => number.as_str().to_string(),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.to_string(),
                Err(_) => return Err(self.wrong(key, value, "a smaller number")),
            },
            other => {
                return Err(self.wrong(key, value, &format!("a text, a number, true or false, not {}", kind(other))));
            }
        };
        Ok(Located { value: Scalar { text, is_string: value.get_ref().is_str() }, at: value.span() })
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> ExperimentError {
        let written: String = self.source.text.get(value.span()).unwrap_or("").chars().take(QUOTED_CHARS_MAX).collect();
        let shown = written.lines().next().unwrap_or("");
        self.source.error(&value.span(), format!("{key} = {shown}: expected {expected}"), None)
    }
}

/// Maximum length of a quoted value: enough to recognise it, short enough for one line of a terminal.
const QUOTED_CHARS_MAX: usize = 60;

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
