//! Moments against closed formulas.

use super::*;

fn of(values: &[f64]) -> Sums {
    let mut sums = Sums::default();
    values.iter().for_each(|value| sums.add(*value, *value));
    sums
}

#[test]
fn variance_of_large_close_values_is_exact() {
    let sums = of(&[1e16, 1e16 + 2.0]);
    assert_eq!(Deviation::VariancePopulation.finish(&sums), Some(1.0));
    assert_eq!(Deviation::VarianceSample.finish(&sums), Some(2.0));
    // The first value is far from the others.
    let sums = of(&[0.0, 1e15, 1e15 + 1.0]);
    let third = 1e15 / 3.0;
    let rough = 2.0 * third * third;
    let variance = Deviation::VariancePopulation.finish(&sums);
    assert!(
        variance.is_some_and(|v| (v / rough - 1.0).abs() < 1e-14),
        "{variance:?}"
    );
}

#[test]
fn variance_of_nan_or_infinity_is_nan() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for values in [[value, 1.0, 2.0], [1.0, value, 2.0], [1.0, 2.0, value]] {
            let variance = Deviation::VarianceSample.finish(&of(&values));
            assert!(variance.is_some_and(f64::is_nan), "{values:?} gave {variance:?}");
        }
    }
    assert_eq!(
        Deviation::VariancePopulation.finish(&of(&[0.1, 0.1, 0.1])),
        Some(0.0)
    );
}

#[test]
fn variance_is_independent_of_merge_order() {
    let values: Vec<f64> = (0..100).map(|i| 1e16 + f64::from(i * 7919 % 100) * 2.0).collect();
    // The variance of 0, 2, ..., 198.
    let expected = 4.0 * (100.0 * 100.0 - 1.0) / 12.0;
    for cut in [1, 31, 50, 99] {
        let (one, other) = values.split_at(cut);
        let (mut sums, other) = (of(other), of(one));
        sums.merge(&Sums::from_words(other.count, &other.words(2)));
        assert_eq!(
            Deviation::VariancePopulation.finish(&sums),
            Some(expected),
            "cut at {cut}"
        );
        assert_eq!(
            Deviation::CovariancePopulation.finish(&sums),
            Some(expected),
            "cut at {cut}"
        );
    }
}
