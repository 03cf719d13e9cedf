//! Aggregates as columns that a second aggregate merges: a count as a number to add up, an average as a sum
//! and a count.
//!
//! | call | column of the first step | of the second step | result |
//! | --- | --- | --- | --- |
//! | `count(x)` | `count(x)` | `sum` | `sum`, 0 without rows |
//! | `sum(x)`, `min(x)`, `bit_and(x)`, ... | the same | the same function | the column |
//! | `avg(x)` of doubles, decimals | `sum(x)`, `count(x)` | `sum`, `sum` | the quotient |
//!
//! The average of a decimal of scale s is the quotient of its exact sum and the count, truncated to scale
//! s + 4. A quotient of decimals in Arrow has the same scale and is truncated too.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{AggregateUDF, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, Literal,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};

use galatea_codegen::aggregate::AggregateFunction;

/// Digits of a count of rows as a decimal.
const COUNT_DIGITS: u8 = 20;

/// Additional decimal places of an average, and of a quotient of decimals.
const AVERAGE_PLACES: i8 = 4;

/// Maximum number of decimal places of a sum with an average that is computed from it.
const MOST_PLACES: i8 = 38 - AVERAGE_PLACES;

/// The computation of a result from aggregates of a step, which have numbers.
pub(super) enum Part {
    /// The aggregate itself.
    Value(usize),
    /// A sum of counts; the sum of no counts is zero.
    Count(usize),
    /// A sum over a count.
    Average(usize, usize),
    /// A sum of decimals over a count.
    DecimalAverage(usize, usize),
}

impl Part {
    /// The result of type `wanted` over the columns of a step; the first `keys` columns are the keys.
    pub(super) fn result(
        &self,
        keys: usize,
        schema: &SchemaRef,
        wanted: &DataType,
    ) -> Option<Arc<dyn PhysicalExpr>> {
        let column = |index: usize| -> Arc<dyn PhysicalExpr> {
            let name = schema.field(keys + index).name();
            Arc::new(Column::new(name, keys + index))
        };
        match self {
            Self::Value(value) => as_type(column(*value), schema, wanted),
            Self::Count(count) => {
                let some = Arc::new(IsNotNullExpr::new(column(*count)));
                when(some, column(*count), Some(integer(0)))
            }
            Self::Average(sum, count) => {
                let count = Arc::new(CastExpr::new(column(*count), DataType::Float64, None));
                Some(Arc::new(BinaryExpr::new(column(*sum), Operator::Divide, count)))
            }
            Self::DecimalAverage(sum, count) => {
                let number = DataType::Decimal128(COUNT_DIGITS, 0);
                let divisor = Arc::new(CastExpr::new(column(*count), number, None));
                let quotient = Arc::new(BinaryExpr::new(column(*sum), Operator::Divide, divisor));
                let some = Arc::new(BinaryExpr::new(column(*count), Operator::Gt, integer(0)));
                when(some, as_type(quotient, schema, wanted)?, None)
            }
        }
    }
}

/// The expression as a decimal with the precision of `wanted`; `None` if types differ in more than that.
pub(super) fn as_type(
    value: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    wanted: &DataType,
) -> Option<Arc<dyn PhysicalExpr>> {
    match (value.data_type(schema).ok()?, wanted) {
        (own, wanted) if own == *wanted => Some(value),
        (DataType::Decimal128(_, own), DataType::Decimal128(_, scale)) if own == *scale => {
            Some(Arc::new(CastExpr::new(value, wanted.clone(), None)))
        }
        _ => None,
    }
}

fn integer(value: i64) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
}

fn when(
    condition: Arc<dyn PhysicalExpr>,
    value: Arc<dyn PhysicalExpr>,
    otherwise: Option<Arc<dyn PhysicalExpr>>,
) -> Option<Arc<dyn PhysicalExpr>> {
    let case = CaseExpr::try_new(None, vec![(condition, value)], otherwise);
    Some(Arc::new(case.ok()?))
}

/// An aggregate of the first step, and its filter.
pub(super) type Inner = (Arc<AggregateFunctionExpr>, Option<Arc<dyn PhysicalExpr>>);

/// The aggregates of both steps.
pub(super) struct Steps {
    /// Schema of the first step's input.
    input: SchemaRef,
    pub(super) inner: Vec<Inner>,
    /// Each over an aggregate of the first step, by number, or over the distinct values.
    pub(super) outer: Vec<(Arc<AggregateUDF>, Option<usize>)>,
}

impl Steps {
    /// Steps over an input with this schema, without aggregates.
    pub(super) fn over(input: SchemaRef) -> Self {
        Self {
            input,
            inner: Vec::new(),
            outer: Vec::new(),
        }
    }

    /// The columns that compute a call; `None` if two steps cannot compute it.
    pub(super) fn parts(
        &mut self,
        call: &Arc<AggregateFunctionExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Option<Part> {
        if !call.order_bys().is_empty() {
            return None;
        }
        if is_distinct(call) {
            return Some(Part::Value(self.outer(Arc::new(call.fun().clone()), None)));
        }
        let function = AggregateFunction::from_name(call.fun().name())?;
        Some(match function {
            AggregateFunction::Count => {
                let counts = self.inner(Arc::clone(call), filter);
                Part::Count(self.outer(sum_udaf(), Some(counts)))
            }
            AggregateFunction::Sum
            | AggregateFunction::SumWrapping
            | AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::BitAnd
            | AggregateFunction::BitOr
            | AggregateFunction::BitXor => {
                let values = self.inner(Arc::clone(call), filter);
                Part::Value(self.outer(Arc::new(call.fun().clone()), Some(values)))
            }
            AggregateFunction::Moment(_) => return None,
            AggregateFunction::Avg => {
                let [argument] = call.expressions().try_into().ok()?;
                let data_type = argument.data_type(&self.input).ok()?;
                let mut step = |function: Arc<AggregateUDF>| {
                    let name = format!("part {}", self.inner.len());
                    let call = call_of(function, Arc::clone(&argument), &self.input, name)?;
                    let values = self.inner(call, filter);
                    Some(self.outer(sum_udaf(), Some(values)))
                };
                match data_type {
                    DataType::Float64 => Part::Average(step(sum_udaf())?, step(count_udaf())?),
                    DataType::Decimal128(_, scale) if (0..=MOST_PLACES).contains(&scale) => {
                        Part::DecimalAverage(step(sum_udaf())?, step(count_udaf())?)
                    }
                    _ => return None,
                }
            }
        })
    }

    fn inner(&mut self, call: Arc<AggregateFunctionExpr>, filter: Option<&Arc<dyn PhysicalExpr>>) -> usize {
        self.inner.push((call, filter.cloned()));
        self.inner.len() - 1
    }

    fn outer(&mut self, function: Arc<AggregateUDF>, step: Option<usize>) -> usize {
        self.outer.push((function, step));
        self.outer.len() - 1
    }
}

/// Whether the call has DISTINCT, and its result depends on it.
pub(super) fn is_distinct(call: &AggregateFunctionExpr) -> bool {
    let function = AggregateFunction::from_name(call.fun().name());
    call.is_distinct() && function.is_some_and(|function| !function.ignores_repeats())
}

/// Groups of the input by these keys.
pub(in crate::placement) fn grouped(
    keys: Vec<(Arc<dyn PhysicalExpr>, String)>,
    calls: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    input: Arc<dyn ExecutionPlan>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let (schema, keys) = (input.schema(), PhysicalGroupBy::new_single(keys));
    let aggregate = AggregateExec::try_new(AggregateMode::Single, keys, calls, filters, input, schema);
    Some(Arc::new(aggregate.ok()?))
}

/// A call of one argument over that input.
pub(in crate::placement) fn call_of(
    function: Arc<AggregateUDF>,
    argument: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    name: String,
) -> Option<Arc<AggregateFunctionExpr>> {
    let call = AggregateExprBuilder::new(function, vec![argument])
        .schema(Arc::clone(schema))
        .alias(name);
    call.build().ok().map(Arc::new)
}
