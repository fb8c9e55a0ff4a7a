//! What runs say of a sentence: a verdict of three, with the confidence that the runs give it.

use serde::{Serialize, Serializer};

use crate::spread::Spread;

/// What the runs say of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not.
    DoesNot,
    /// The interval has a bound in it, or there is none.
    #[default]
    CannotTell,
}

impl Verdict {
    /// Of the mean of several runs that must be `least` and may be `most`. It takes two runs at least: one says nothing
    /// of how far the next would be from it.
    pub fn of(spread: &Spread, least: Option<f64>, most: Option<f64>) -> Self {
        spread.interval().map_or(Self::CannotTell, |interval| Self::within(interval, least, most))
    }

    /// Of a number with this interval.
    pub fn within([low, high]: [f64; 2], least: Option<f64>, most: Option<f64>) -> Self {
        let is_out = least.is_some_and(|least| high < least) || most.is_some_and(|most| low > most);
        let is_in = least.is_none_or(|least| low >= least) && most.is_none_or(|most| high <= most);
        match (is_in, is_out) {
            (true, _) => Self::Holds,
            (_, true) => Self::DoesNot,
            (false, false) => Self::CannotTell,
        }
    }

    /// Of a statement that needs all of `parts`.
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        let worse = |one: Self, other: Self| match (one, other) {
            (Self::DoesNot, _) | (_, Self::DoesNot) => Self::DoesNot,
            (Self::Holds, other) => other,
            (Self::CannotTell, _) => Self::CannotTell,
        };
        parts.into_iter().fold(Self::Holds, worse)
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNot => "does not hold",
            Self::CannotTell => "cannot be told",
        }
    }

    /// A sign that is read without colour.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Holds => "\u{2713}",
            Self::DoesNot => "\u{2717}",
            Self::CannotTell => "?",
        }
    }
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::DoesNot }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Holds => serializer.serialize_some(&true),
            Self::DoesNot => serializer.serialize_some(&false),
            Self::CannotTell => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;
    use crate::spread::Spread;

    #[test]
    fn an_interval_with_a_bound_in_it_tells_nothing() {
        let of = |values: &[f64], least, most| Verdict::of(&Spread::of(values).unwrap(), least, most);
        assert_eq!(of(&[1.0, 1.01, 0.99], Some(0.5), None), Verdict::Holds);
        assert_eq!(of(&[1.0, 1.01, 0.99], None, Some(0.5)), Verdict::DoesNot);
        assert_eq!(of(&[1.0, 1.01, 0.99], Some(0.5), Some(1.0)), Verdict::CannotTell);
        assert_eq!(of(&[1.0], Some(0.5), None), Verdict::CannotTell, "one run has no interval");
        let nothing = [0.0, 100.0];
        assert_eq!(Verdict::within(nothing, Some(98.0), None), Verdict::CannotTell);
    }

    #[test]
    fn all_parts_must_hold_and_one_that_does_not_decides() {
        use Verdict::{CannotTell, DoesNot, Holds};
        assert_eq!(Verdict::of_all([Holds, Holds]), Holds);
        assert_eq!(Verdict::of_all([Holds, CannotTell, Holds]), CannotTell);
        assert_eq!(Verdict::of_all([CannotTell, DoesNot, Holds]), DoesNot);
    }
}
