//! `approx_distinct` of floats, which DataFusion does not support.
//!
//! The accumulators are DataFusion's for integers, over the ranks of the values: every NaN is one value, and
//! so are both zeros, as for `count(DISTINCT x)`.

use super::float_ranks::{ranks, with_rank_arguments};
use arrow::array::{ArrayRef, BooleanArray};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// The accumulator of floats. It passes their ranks to the integer accumulator from `make`.
pub(super) fn accumulator(
    args: AccumulatorArgs,
    make: impl FnOnce(AccumulatorArgs) -> Result<Box<dyn Accumulator>>,
) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Distinct(with_rank_arguments(args, make)?)))
}

/// The same for groups.
pub(super) fn groups_accumulator(
    args: AccumulatorArgs,
    make: impl FnOnce(AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>>,
) -> Result<Box<dyn GroupsAccumulator>> {
    Ok(Box::new(GroupDistinct(with_rank_arguments(args, make)?)))
}

#[derive(Debug)]
struct Distinct(Box<dyn Accumulator>);

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&ranks(values)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}

struct GroupDistinct(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for GroupDistinct {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.0
            .update_batch(&ranks(values)?, group_indices, filter, groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.0.merge_batch(states, group_indices, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&ranks(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
