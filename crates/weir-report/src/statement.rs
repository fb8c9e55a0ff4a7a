//! Sentences of a paper put to the test.

use serde::Serialize;

use crate::verdict::Verdict;

/// A sentence of the paper put to the test.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Statement {
    /// The sentence, in our words.
    pub text: String,
    /// What the paper has.
    pub paper: String,
    /// Where the paper says it: a section, a figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What was measured here.
    pub measured: String,
    /// Whether it holds here; in JSON `holds`, which is null where it cannot be told.
    #[serde(rename = "holds")]
    pub verdict: Verdict,
    /// The 95 % confidence interval of the number that decides, in its unit; none where nothing was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Why it does not hold, if an experiment has shown that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Why a statement does not hold: what differs from the paper, and the experiment that switches it off.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// The cause, in words, and what was switched.
    pub text: String,
    /// What was measured with it switched.
    pub measured: String,
    /// Whether the statement holds then.
    #[serde(rename = "holds")]
    pub verdict: Verdict,
}

impl Statement {
    /// Whether it holds for sure.
    pub fn holds(&self) -> bool {
        self.verdict == Verdict::Holds
    }
}
