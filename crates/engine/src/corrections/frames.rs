//! Sums, averages and deviations of floats, and exclusive ors, over sliding frames.
//!
//! When a row leaves a frame, DataFusion subtracts its value from the sum of the frame. The sum of floats is
//! then wrong for the rest of the partition if the value was NaN, infinite or much larger than the others.
//! Here a queue holds the rows of the frame, in two parts. Their values are added, never subtracted:
//!
//! ```text
//! frame:        a  b  c  |  d  e
//! older part:   a+b+c, b+c, c        newer part:  d, e  and  d+e
//! result:       (a+b+c) + (d+e)      after a left:  (b+c) + (d+e)
//! ```
//!
//! If the older part is empty and a row leaves, the newer part becomes the older one: each row is added at
//! most three times. The exclusive or has an inverse, but of a frame without values it is NULL, not 0.

use super::deviations::{Deviation, Sums, for_rows};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bit_and_or_xor::bit_xor_udaf;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl};
use std::fmt::Debug;

/// A function with an accumulator of ours for sliding frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FrameFunction {
    Sum,
    Average,
    ExclusiveOr,
}

impl FrameFunction {
    /// The function, if it needs an accumulator of ours for arguments of this type.
    pub(super) fn of(function: &dyn AggregateUDFImpl, argument: &DataType) -> Option<Self> {
        let double = *argument == DataType::Float64;
        if double && function.is::<Sum>() {
            Some(Self::Sum)
        } else if double && function.is::<Avg>() {
            Some(Self::Average)
        } else {
            Self::is_exclusive_or(function).then_some(Self::ExclusiveOr)
        }
    }

    /// Whether DataFusion's function is the exclusive or.
    pub(super) fn is_exclusive_or(function: &dyn AggregateUDFImpl) -> bool {
        *function == *bit_xor_udaf().inner().as_ref()
    }

    /// The accumulator for a frame. `inner` is DataFusion's.
    pub(super) fn accumulator(self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        match self {
            Self::Sum => Box::new(SlidingFrame::new(|total: &Total| total.sum)),
            Self::Average => Box::new(SlidingFrame::new(|total: &Total| total.sum / total.count as f64)),
            Self::ExclusiveOr => Box::new(Counted { inner, count: 0 }),
        }
    }
}

/// The accumulator of a deviation over a sliding frame.
pub(super) fn deviation(deviation: Deviation) -> Box<dyn Accumulator> {
    Box::new(SlidingFrame::new(move |sums: &Sums| deviation.finish(sums)))
}

/// The aggregate of consecutive rows.
trait Summary: Clone + Default + Debug + Send + Sync + 'static {
    /// Adds the rows after these.
    fn merge(&mut self, later: &Self);

    /// Calls `each` with the summary of every row that counts.
    fn for_rows(values: &[ArrayRef], each: impl FnMut(Self));
}

/// The sum and number of values.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    sum: f64,
    count: u64,
}

impl Summary for Total {
    fn merge(&mut self, later: &Self) {
        self.sum += later.sum;
        self.count += later.count;
    }

    fn for_rows(values: &[ArrayRef], mut each: impl FnMut(Self)) {
        let values = values[0].as_primitive::<Float64Type>();
        values
            .iter()
            .flatten()
            .for_each(|sum| each(Self { sum, count: 1 }));
    }
}

impl Summary for Sums {
    fn merge(&mut self, later: &Self) {
        self.merge(later);
    }

    fn for_rows(values: &[ArrayRef], mut each: impl FnMut(Self)) {
        for_rows(values, |_, y, x| {
            let mut row = Self::default();
            row.add(y, x);
            each(row);
        });
    }
}

/// The rows of a frame, oldest first.
#[derive(Debug, Default)]
struct FrameQueue<S> {
    /// The summaries of the older part from each of its rows on; the last one is that of the whole part.
    older: Vec<S>,
    newer: Vec<S>,
    newer_total: S,
}

impl<S: Summary> FrameQueue<S> {
    fn push(&mut self, row: S) {
        self.newer_total.merge(&row);
        self.newer.push(row);
    }

    /// Removes the oldest row.
    fn pop(&mut self) {
        if self.older.is_empty() {
            self.newer_total = S::default();
            let mut total: Option<S> = None;
            for mut row in self.newer.drain(..).rev() {
                if let Some(total) = &total {
                    row.merge(total);
                }
                self.older.push(row.clone());
                total = Some(row);
            }
        }
        self.older.pop();
    }

    fn is_empty(&self) -> bool {
        self.older.is_empty() && self.newer.is_empty()
    }

    fn total(&self) -> S {
        let mut total = self.older.last().cloned().unwrap_or_default();
        total.merge(&self.newer_total);
        total
    }
}

/// The accumulator over a queue.
struct SlidingFrame<S, F> {
    queue: FrameQueue<S>,
    finish: F,
}

impl<S: Summary, R, F: Fn(&S) -> R> SlidingFrame<S, F> {
    fn new(finish: F) -> Self {
        let queue = FrameQueue::default();
        Self { queue, finish }
    }
}

impl<S: Debug, F> Debug for SlidingFrame<S, F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SlidingFrame")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl<S, R, F> Accumulator for SlidingFrame<S, F>
where
    S: Summary,
    R: Into<Option<f64>>,
    F: Fn(&S) -> R + Send + Sync + 'static,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        S::for_rows(values, |row| self.queue.push(row));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        S::for_rows(values, |_| self.queue.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = match self.queue.is_empty() {
            true => None,
            false => (self.finish)(&self.queue.total()).into(),
        };
        Ok(ScalarValue::Float64(result))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a sliding frame has no partial state")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a sliding frame has no partial state")
    }

    fn size(&self) -> usize {
        let rows = self.queue.older.capacity() + self.queue.newer.capacity();
        size_of_val(self) + rows * size_of::<S>()
    }
}

/// An accumulator with an inverse, and NULL for frames without values.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn Accumulator>,
    /// The number of values in the frame.
    count: usize,
}

fn number_of_values(values: &[ArrayRef]) -> usize {
    values[0].len() - values[0].null_count()
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += number_of_values(values);
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= number_of_values(values);
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
        match self.count {
            0 => ScalarValue::try_from(&value.data_type()),
            _ => Ok(value),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

#[cfg(test)]
mod tests;
