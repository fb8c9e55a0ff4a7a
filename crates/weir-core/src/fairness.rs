//! How equally flows share.

/// Jain's fairness index (Jain, Chiu and Hawe, 1984) of amounts that are not negative: 1 if all are equal, 1/n if one
/// has all. `None` for fewer than two, and where nobody has anything.
pub fn jain(amounts: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0_u32, 0.0, 0.0);
    for amount in amounts {
        count += 1;
        sum += amount;
        squares += amount * amount;
    }
    (count > 1 && squares > 0.0).then(|| sum * sum / (f64::from(count) * squares))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn one_for_equals_and_a_share_for_one() {
        assert_eq!(jain([3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain([5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain([5.0]), None);
        assert_eq!(jain([0.0, 0.0]), None);
    }
}
