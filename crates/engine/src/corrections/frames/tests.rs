//! Sliding frames against sums of their rows alone.

use super::*;
use arrow::array::{Float64Array, Int64Array};
use std::sync::Arc;

fn column(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

/// The results over frames `[start, end)`, which only move forward.
fn results(
    mut accumulator: Box<dyn Accumulator>,
    values: &[Option<f64>],
    frames: &[[usize; 2]],
) -> Vec<Option<f64>> {
    let (mut start, mut end) = (0, 0);
    let result = frames.iter().map(|&[first, last]| {
        let update = accumulator.update_batch(&[column(&values[end..last])]);
        update.expect("rows enter");
        let retract = accumulator.retract_batch(&[column(&values[start..first])]);
        retract.expect("rows leave");
        (start, end) = (first, last);
        match accumulator.evaluate().expect("a result") {
            ScalarValue::Float64(result) => result,
            other => panic!("{other:?}"),
        }
    });
    result.collect()
}

#[test]
fn rows_that_left_do_not_influence_a_frame() {
    let values: Vec<Option<f64>> = (0..40)
        .map(|row| match row % 10 {
            2 => None,
            4 => Some(1e300),
            5 => Some(f64::NAN),
            7 => Some(f64::INFINITY),
            other => Some(f64::from(other * row)),
        })
        .collect();
    let frames: Vec<[usize; 2]> = (0..40)
        .map(|row: usize| [row.saturating_sub(row % 4).min(36), (row + row % 3).min(40)])
        .scan([0, 0], |before, [start, end]| {
            *before = [start.max(before[0]), end.max(before[1]).max(start)];
            Some(*before)
        })
        .collect();
    let inside =
        |&[start, end]: &[usize; 2]| values[start..end].iter().flatten().copied().collect::<Vec<_>>();
    let sum = FrameFunction::Sum.accumulator(Box::new(SlidingFrame::new(|total: &Total| total.sum)));
    let mut finite = 0;
    for (frame, sum) in frames.iter().zip(results(sum, &values, &frames)) {
        let inside = inside(frame);
        let expected = (!inside.is_empty()).then(|| inside.iter().sum::<f64>());
        let same = match (sum, expected) {
            (Some(sum), Some(expected)) => {
                sum.to_bits() == expected.to_bits() || sum.is_nan() && expected.is_nan()
            }
            (sum, expected) => sum == expected,
        };
        assert!(same, "{sum:?} instead of {expected:?} for {inside:?}");
        finite += usize::from(expected.is_some_and(|expected| expected.abs() < 1e299));
    }
    assert!(finite > 10, "most frames have an infinite sum");
}

#[test]
fn deviations_recover_from_infinity_and_empty_frames() {
    let values = [
        Some(1e300),
        Some(5.0),
        Some(7.0),
        Some(f64::INFINITY),
        Some(1.0),
        None,
    ];
    let frames = [[0, 1], [1, 3], [2, 4], [4, 5], [5, 6]];
    let variance = results(deviation(Deviation::VarianceSample), &values, &frames);
    assert_eq!(variance[..2], [None, Some(2.0)]);
    assert!(variance[2].is_some_and(f64::is_nan), "{variance:?}");
    assert_eq!(variance[3..], [None, None]);
    let population = results(deviation(Deviation::VariancePopulation), &values, &frames);
    assert_eq!(population[3..], [Some(0.0), None]);
}

#[test]
fn exclusive_or_of_no_values_is_null() {
    #[derive(Debug, Default)]
    struct Xor(i64);
    impl Accumulator for Xor {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            let values = values[0].as_primitive::<arrow::datatypes::Int64Type>();
            values.iter().flatten().for_each(|value| self.0 ^= value);
            Ok(())
        }
        fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            self.update_batch(values)
        }
        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::Int64(Some(self.0)))
        }
        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(vec![self.evaluate()?])
        }
        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
            self.update_batch(states)
        }
        fn size(&self) -> usize {
            size_of_val(self)
        }
    }
    let column = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let mut xor = FrameFunction::ExclusiveOr.accumulator(Box::new(Xor::default()));
    xor.update_batch(&[column(vec![Some(5), None, Some(5)])])
        .expect("rows");
    assert_eq!(xor.evaluate().expect("a value"), ScalarValue::Int64(Some(0)));
    xor.retract_batch(&[column(vec![Some(5), None])]).expect("rows");
    assert_eq!(xor.evaluate().expect("a value"), ScalarValue::Int64(Some(5)));
    xor.retract_batch(&[column(vec![Some(5)])]).expect("a row");
    assert_eq!(xor.evaluate().expect("NULL"), ScalarValue::Int64(None));
}
