//! Statistics of the values of several runs.

/// The median; for an even number of values, the greater of the middle two; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The minimum and the maximum; an empty range without values.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_range_of_runs() {
        assert_eq!(
            (median(&[3.0, 1.0, 2.0]), range(&[3.0, 1.0, 2.0])),
            (2.0, (1.0, 3.0))
        );
        assert_eq!((median(&[4.0, 1.0]), range(&[4.0, 1.0])), (4.0, (1.0, 4.0)));
        assert!(median(&[]).is_nan());
        assert_eq!(range(&[]), (f64::INFINITY, f64::NEG_INFINITY));
    }
}
