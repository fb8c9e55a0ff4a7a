//! What numbers over several runs say: mean, deviation, and the confidence that they have.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What a number is over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// In how many runs it could be measured.
    pub runs: usize,
    /// The mean.
    pub mean: f64,
    /// The standard deviation over the runs, with one degree of freedom less than runs; 0 for one run.
    pub deviation: f64,
    /// Half the 95 % confidence interval of the mean, by Student's t; 0 for one run.
    pub ci95: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Over `values`; none if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = mean(values)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Some(Self {
            runs: values.len(),
            mean,
            deviation,
            ci95: if values.len() > 1 { student_t(values.len() - 1) * deviation / count.sqrt() } else { 0.0 },
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// The 95 % confidence interval of the mean; none for one run.
    pub fn interval(&self) -> Option<[f64; 2]> {
        (self.runs > 1).then_some([self.mean - self.ci95, self.mean + self.ci95])
    }

    /// The mean with so many decimals, and behind it half the interval if there is one: `0.71 ± 0.02`.
    pub fn words(&self, decimals: usize) -> String {
        let Self { mean, ci95, .. } = self;
        match self.runs {
            1 => format!("{mean:.decimals$}"),
            _ => format!("{mean:.decimals$} \u{b1} {ci95:.decimals$}"),
        }
    }
}

/// The mean of `values`; none if there are none.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The quantile of Student's t that leaves 2.5 % above it.
fn student_t(freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1) as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::{Spread, student_t};

    #[test]
    fn spreads_are_those_of_samples() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((spread.mean, spread.min, spread.max, spread.runs), (5.0, 2.0, 9.0, 8));
        assert!((spread.deviation - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]).unwrap().deviation, 0.0);
        assert_eq!(Spread::of(&[3.0]).unwrap().words(2), "3.00");
        assert_eq!(Spread::of(&[3.0, 3.0]).unwrap().words(1), "3.0 \u{b1} 0.0");
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, quantile) in
            [(1, 12.706), (4, 2.776), (9, 2.262), (10, 2.228), (20, 2.086), (30, 2.042), (100, 1.984)]
        {
            assert!((student_t(freedom) - quantile).abs() < 0.0006, "{freedom}: {}", student_t(freedom));
        }
        assert!((student_t(1_000_000) - 1.96).abs() < 1e-3);
    }
}
