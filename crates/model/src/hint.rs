//! Hints of errors: the next step for the user. How they are shown is the caller's choice.

/// An error that may know the user's next step. Its text does not contain the hint.
pub trait Hinted: std::error::Error {
    /// Returns the next step, if known: an imperative without a full stop.
    fn hint(&self) -> Option<String>;

    /// Returns the text and, on a second line, the hint.
    fn text_with_hint(&self) -> String {
        self.hint().map_or_else(|| self.to_string(), |hint| format!("{self}\nhint: {hint}"))
    }
}
