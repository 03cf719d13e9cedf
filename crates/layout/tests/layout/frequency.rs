//! Columns drawn from frequencies.

use galatea_layout::{Frequencies, LayoutError};

/// Pearson's statistic of a column against weights, in standard deviations from its expectation for a column
/// that is drawn with them.
fn deviation(column: &[u32], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let mut found = vec![0.0; weights.len()];
    for &value in column {
        found[value as usize] += 1.0;
    }
    let terms = found.iter().zip(weights).map(|(found, weight)| {
        let expected = weight / total * column.len() as f64;
        (found - expected).powi(2) / expected
    });
    let freedom = (weights.len() - 1) as f64;
    (terms.sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

/// Value *i* occurs in proportion to 1 / (*i* + 1)^θ, for all sizes of the experiments.
#[test]
fn zipf_is_exact() {
    for (values, theta) in [(32, 0.0), (1024, 0.5), (1024, 1.0), (1024, 2.0), (4096, 1.0)] {
        let column = Frequencies::zipf(values, theta).unwrap().column(1 << 20, 11);
        let weights: Vec<f64> = (0..values)
            .map(|value| 1.0 / (value as f64 + 1.0).powf(theta))
            .collect();
        let deviation = deviation(&column, &weights);
        assert!(deviation.abs() < 4.0, "{values} values, θ {theta}: {deviation}");
    }
}

/// A column depends on its seed only. A longer column begins with the shorter one.
#[test]
fn columns_depend_on_the_seed() {
    let frequencies = Frequencies::uniform(100).unwrap();
    let long = frequencies.column(200_000, 3);
    assert_eq!(frequencies.column(70_001, 3), long[..70_001]);
    assert_ne!(frequencies.column(70_001, 4), long[..70_001]);
    assert_ne!(
        long[..65_536],
        long[65_536..131_072],
        "pieces have streams of their own"
    );
    assert!(frequencies.column(0, 3).is_empty());
}

/// Frequencies of a sample draw similar columns, including values that the sample lacks.
#[test]
fn frequencies_of_a_sample_draw_similar_columns() {
    let sample = [vec![2; 600], vec![0; 300], vec![1; 100]].concat();
    let frequencies = Frequencies::of_sample(&sample, 4).unwrap();
    let column = frequencies.column(1 << 20, 1);
    let deviation = deviation(&column, &[300.0, 100.0, 600.0, 0.1]);
    assert!(deviation.abs() < 4.0, "{deviation}");
    assert!(column.contains(&3));
    let refused = Frequencies::of_sample(&[0, 4], 4);
    assert_eq!(
        refused,
        Err(LayoutError::Value {
            row: 1,
            value: 4,
            values: 4
        })
    );
}

#[test]
fn shuffling_keeps_frequencies() {
    let frequencies = Frequencies::zipf(50, 1.0).unwrap();
    let mut found = [frequencies.clone(), frequencies.clone().shuffled(7)].map(|frequencies| {
        let mut counts = [0_i32; 50];
        for value in frequencies.column(1 << 18, 1) {
            counts[value as usize] += 1;
        }
        counts
    });
    assert_ne!(frequencies.clone().shuffled(7), frequencies);
    for counts in &mut found {
        counts.sort_unstable();
    }
    for (one, other) in found[0].iter().zip(found[1]) {
        assert!((one - other).abs() < 400, "{one} and {other}");
    }
}

#[test]
fn invalid_frequencies_are_refused() {
    for weights in [
        vec![],
        vec![0.0, 0.0],
        vec![1.0, -1.0],
        vec![1.0, f64::NAN],
        vec![f64::INFINITY],
    ] {
        let refused = Frequencies::new(weights.clone());
        assert!(
            matches!(refused, Err(LayoutError::Frequencies { .. })),
            "{weights:?}"
        );
    }
    assert!(Frequencies::zipf(10, f64::NAN).is_err());
}
