//! What a scenario asks for and cannot have.

/// A key of a scenario and why its value cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Refusal {
    /// The key with its table, as [`Scenario::said`](crate::Scenario::said) takes it: `flow.0.rate`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Refusal {
    /// For the value of `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }

    /// The same of a key in `table`: `rate` in `flow.0` is `flow.0.rate`.
    #[must_use]
    pub fn inside(self, table: &str) -> Self {
        Self { key: format!("{table}.{}", self.key), ..self }
    }
}
