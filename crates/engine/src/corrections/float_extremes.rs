//! MIN and MAX of floats, with NaN above all other values.
//!
//! DataFusion's accumulators for groups compare with `<` and `>`, which are false for NaN, so that the result
//! depends on the order of rows; those without groups order NaN by its bits, negative NaN below all. Here the
//! accumulators are DataFusion's for integers, over the ranks of the values: one rank for every NaN, above
//! infinity, and one for both zeros. States are values again, of the function's own type.

use super::float_ranks::{ranks, value_of, with_rank_arguments};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// The width of an accumulator's floats.
#[derive(Debug, Clone, Copy)]
enum Width {
    Single,
    Double,
}

impl Width {
    fn of(data_type: &DataType) -> Result<Self> {
        match data_type {
            DataType::Float32 => Ok(Self::Single),
            DataType::Float64 => Ok(Self::Double),
            other => internal_err!("an extreme of floats was asked for {other}"),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the ranks are those of single floats"
    )]
    fn values(self, ranks: &ArrayRef) -> Result<ArrayRef> {
        let Some(ranks) = ranks.as_primitive_opt::<Int64Type>() else {
            return exec_err!("the extreme of ranks is {}", ranks.data_type());
        };
        Ok(match self {
            Self::Single => {
                let values: Float32Array = ranks.unary(|rank| value_of(rank) as f32);
                Arc::new(values)
            }
            Self::Double => {
                let values: Float64Array = ranks.unary(value_of);
                Arc::new(values)
            }
        })
    }

    fn value(self, rank: &ScalarValue) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.values(&rank.to_array()?)?, 0)
    }
}

/// The result of `make` for a function with ranks as arguments and result, with the width of the floats in
/// `args`.
fn for_ranks<T>(
    args: AccumulatorArgs,
    make: impl FnOnce(AccumulatorArgs) -> Result<T>,
) -> Result<(Width, T)> {
    let width = Width::of(args.return_field.data_type())?;
    let return_field: FieldRef = Arc::new(Field::new(args.name, DataType::Int64, true));
    let ranks = with_rank_arguments(AccumulatorArgs { return_field, ..args }, make)?;
    Ok((width, ranks))
}

/// The accumulator of floats over the integer accumulator from `make`.
pub(super) fn accumulator(
    args: AccumulatorArgs,
    make: impl FnOnce(AccumulatorArgs) -> Result<Box<dyn Accumulator>>,
) -> Result<Box<dyn Accumulator>> {
    let (width, ranks) = for_ranks(args, make)?;
    Ok(Box::new(Extreme { width, ranks }))
}

/// The same for groups.
pub(super) fn groups_accumulator(
    args: AccumulatorArgs,
    make: impl FnOnce(AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>>,
) -> Result<Box<dyn GroupsAccumulator>> {
    let (width, ranks) = for_ranks(args, make)?;
    Ok(Box::new(GroupExtremes { width, ranks }))
}

#[derive(Debug)]
struct Extreme {
    width: Width,
    ranks: Box<dyn Accumulator>,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.ranks.update_batch(&ranks(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.ranks.retract_batch(&ranks(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.ranks.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.ranks.merge_batch(&ranks(states)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let ranks = self.ranks.state()?;
        ranks.iter().map(|rank| self.width.value(rank)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.width.value(&self.ranks.evaluate()?)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.ranks.size()
    }
}

struct GroupExtremes {
    width: Width,
    ranks: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for GroupExtremes {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        let ranks = ranks(values)?;
        self.ranks.update_batch(&ranks, group_indices, filter, groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        let ranks = ranks(states)?;
        self.ranks.merge_batch(&ranks, group_indices, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.width.values(&self.ranks.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let ranks = self.ranks.state(emit_to)?;
        ranks.iter().map(|ranks| self.width.values(ranks)).collect()
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let ranks = ranks(values)?;
        let ranks = self.ranks.convert_to_state(&ranks, filter)?;
        ranks.iter().map(|ranks| self.width.values(ranks)).collect()
    }

    fn size(&self) -> usize {
        self.ranks.size()
    }
}
