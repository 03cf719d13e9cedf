//! The values of several runs in short.

/// The middle value, of two the greater; NaN without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least and the greatest value; an empty range without any.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_a_middle_and_two_ends() {
        assert_eq!(
            (median(&[3.0, 1.0, 2.0]), range(&[3.0, 1.0, 2.0])),
            (2.0, (1.0, 3.0))
        );
        assert_eq!((median(&[4.0, 1.0]), range(&[4.0, 1.0])), (4.0, (1.0, 4.0)));
        assert!(median(&[]).is_nan());
        assert_eq!(range(&[]), (f64::INFINITY, f64::NEG_INFINITY));
    }
}
