//! Aggregate and window functions of ours that replace DataFusion's, under the same names.
//!
//! The analyzer rule replaces the function of a call. Code that looks at the function's name afterwards, such
//! as placement, finds the name in the query. Our functions provide accumulators and delegate everything else
//! to DataFusion's.

use super::distinct_rows::{self, DistinctRows};
use super::frames::FrameFunction;
use super::{deviations, float_distinct, float_extremes, frames, ignored_nulls};
use crate::checks::{input_schema, names_kept};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::approx_distinct::ApproxDistinct;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment, WindowFunction};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, ExprSchemable, GroupsAccumulator,
    LogicalPlan, ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The rule that replaces the functions.
#[derive(Debug, Default)]
pub(super) struct ReplaceAggregates;

impl AnalyzerRule for ReplaceAggregates {
    fn name(&self) -> &'static str {
        "galatea_replace_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let replaced = plan.transform_up_with_subqueries(|node| {
            if !matches!(&node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = input_schema(&node);
            names_kept(node, |expr| expr.transform_up(|expr| replace(expr, &schema)))
        });
        Ok(replaced?.data)
    }
}

/// A call with our function instead of DataFusion's, if we have one for its arguments.
fn replace(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::AggregateFunction(mut call) => match of_groups(&call, schema)? {
            Some(func) => {
                call.func = func;
                Transformed::yes(Expr::AggregateFunction(call))
            }
            None => Transformed::no(Expr::AggregateFunction(call)),
        },
        Expr::WindowFunction(mut call) => match of_window(&call, schema)? {
            Some(function) => {
                call.fun = function;
                Transformed::yes(Expr::WindowFunction(call))
            }
            None => Transformed::no(Expr::WindowFunction(call)),
        },
        expr => Transformed::no(expr),
    })
}

/// Our version of the function of groups, if we have one.
fn of_groups(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<Arc<AggregateUDF>>> {
    let arguments = &call.params.args;
    Ok(match ours(&call.func, arguments, schema)? {
        // DataFusion's accumulator for groups ignores DISTINCT.
        None if call.params.distinct && FrameFunction::is_exclusive_or(call.func.inner().as_ref()) => {
            Some(corrected(&call.func, Method::Frame(FrameFunction::ExclusiveOr)))
        }
        None if call.params.distinct => of_distinct(&call.func)?,
        ours => ours,
    })
}

/// Our version of the function of a window, if we have one.
fn of_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunctionDefinition>> {
    let arguments = &call.params.args;
    let ours = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            let ours = match ours(function, arguments, schema)? {
                None if call.params.distinct => of_distinct(function)?,
                None => of_frame(function, arguments, schema)?,
                ours => ours,
            };
            ours.map(WindowFunctionDefinition::AggregateUDF)
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            let ignores = call.params.null_treatment == Some(NullTreatment::IgnoreNulls);
            let ours = ignores.then(|| ignored_nulls::shift(function)).flatten();
            ours.map(WindowFunctionDefinition::WindowUDF)
        }
    };
    Ok(ours)
}

/// Our version of an aggregate function that ignores or refuses DISTINCT.
fn of_distinct(function: &Arc<AggregateUDF>) -> Result<Option<Arc<AggregateUDF>>> {
    let inner = function.inner().as_ref();
    if distinct_rows::needs_order(inner) {
        return not_impl_err!("{} does not support DISTINCT", function.name());
    }
    Ok(distinct_rows::ignores_distinct(inner).then(|| corrected(function, Method::DistinctRows)))
}

/// Our version of an aggregate function with a wrong accumulator for sliding frames.
fn of_frame(
    function: &Arc<AggregateUDF>,
    arguments: &[Expr],
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    let [argument] = arguments else {
        return Ok(None);
    };
    let argument = argument.get_type(schema)?;
    let frame = FrameFunction::of(function.inner().as_ref(), &argument);
    Ok(frame.map(|frame| corrected(function, Method::Frame(frame))))
}

fn corrected(function: &Arc<AggregateUDF>, method: Method) -> Arc<AggregateUDF> {
    let inner = Arc::clone(function);
    Arc::new(AggregateUDF::new_from_impl(Corrected { inner, method }))
}

/// Our version of a function over these arguments, if we have one.
fn ours(
    function: &Arc<AggregateUDF>,
    arguments: &[Expr],
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    let inner = function.inner();
    let method = match arguments {
        [argument] if inner.is::<Min>() || inner.is::<Max>() => {
            let float = matches!(argument.get_type(schema)?, DataType::Float32 | DataType::Float64);
            float.then_some(Method::Ranks)
        }
        [argument] if inner.is::<ApproxDistinct>() => {
            let float = argument.get_type(schema)?.is_floating();
            float.then_some(Method::Distinct)
        }
        _ => deviations::Deviation::of(inner.as_ref()).map(Method::Deviation),
    };
    Ok(method.map(|method| corrected(function, method)))
}

/// The method of a function of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Method {
    /// The extreme of the values' ranks.
    Ranks,
    /// The number of different ranks.
    Distinct,
    /// Sums about a value of the group.
    Deviation(deviations::Deviation),
    /// DataFusion's, except over sliding frames and for groups of distinct values.
    Frame(FrameFunction),
    /// DataFusion's, over distinct rows of arguments.
    DistinctRows,
}

impl Method {
    /// Whether DISTINCT is left to [`DistinctRows`].
    fn drops_repeated_rows(self) -> bool {
        matches!(self, Self::Deviation(_) | Self::DistinctRows)
    }
}

/// An accumulator of distinct rows around the one that `make` returns.
fn over_distinct_rows<'a>(
    args: AccumulatorArgs<'a>,
    make: impl FnOnce(AccumulatorArgs<'a>) -> Result<Box<dyn Accumulator>>,
) -> Result<Box<dyn Accumulator>> {
    let arguments = args.expr_fields;
    let inner = make(AccumulatorArgs {
        is_distinct: false,
        ..args
    })?;
    Ok(Box::new(DistinctRows::new(inner, arguments)?))
}

/// An aggregate function with accumulators of ours.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Corrected {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
    method: Method,
}

impl AggregateUDFImpl for Corrected {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && self.method.drops_repeated_rows() {
            return over_distinct_rows(args, |args| self.accumulator(args));
        }
        match self.method {
            Method::Ranks => float_extremes::accumulator(args, |args| self.inner.accumulator(args)),
            Method::Distinct => float_distinct::accumulator(args, |args| self.inner.accumulator(args)),
            Method::Deviation(deviation) => Ok(deviations::accumulator(deviation)),
            Method::Frame(_) | Method::DistinctRows => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && self.method.drops_repeated_rows() {
            return over_distinct_rows(args, |args| self.create_sliding_accumulator(args));
        }
        match self.method {
            Method::Ranks => {
                float_extremes::accumulator(args, |args| self.inner.create_sliding_accumulator(args))
            }
            Method::Deviation(deviation) => Ok(frames::deviation(deviation)),
            Method::Frame(frame) => Ok(frame.accumulator(self.inner.create_sliding_accumulator(args)?)),
            Method::Distinct => self.accumulator(args),
            Method::DistinctRows => self.inner.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match self.method {
            method if args.is_distinct && method.drops_repeated_rows() => {
                Ok(distinct_rows::state_fields(&args))
            }
            Method::Deviation(deviation) => Ok(deviations::state_fields(deviation, &args)),
            _ => self.inner.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct || matches!(self.method, Method::Ranks | Method::Distinct)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.method {
            Method::Ranks => {
                float_extremes::groups_accumulator(args, |args| self.inner.create_groups_accumulator(args))
            }
            Method::Distinct => {
                float_distinct::groups_accumulator(args, |args| self.inner.create_groups_accumulator(args))
            }
            Method::Deviation(deviation) => Ok(deviations::groups_accumulator(deviation)),
            Method::Frame(_) | Method::DistinctRows => self.inner.create_groups_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    // For floats, file statistics exclude NaN, and heaps of grouped extremes order it by its bits.
    fn is_descending(&self) -> Option<bool> {
        None
    }

    fn value_from_stats(&self, _: &StatisticsArgs) -> Option<ScalarValue> {
        None
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
