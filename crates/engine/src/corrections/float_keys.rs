//! NaN as one value among group keys and among the arguments of DISTINCT aggregates.
//!
//! A NaN has many bit patterns, and operators of the CPU group floats by their bits. The rule puts one
//! pattern in the place of all of them, and zero in that of negative zero, in what the first step of an
//! aggregate reads. It runs after placement, because kernels do the same by themselves, and before rows are
//! distributed by their keys. The argument of MAX is rewritten too: of a plain column, the aggregate would
//! have scans leave out values below the greatest one so far by statistics, which do not count NaN.

use arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use std::sync::Arc;

/// The rule.
#[derive(Debug, Default)]
pub(super) struct OneNan;

impl PhysicalOptimizerRule for OneNan {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = Arc::new(config.clone());
        let rewritten = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(
                match aggregate
                    .map(|aggregate| with_one_nan(aggregate, &options))
                    .transpose()?
                {
                    Some(Some(aggregate)) => Transformed::yes(Arc::new(aggregate) as Arc<dyn ExecutionPlan>),
                    _ => Transformed::no(node),
                },
            )
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "galatea_one_nan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregate over floats with one NaN; `None` where it reads no floats, or states of another step.
fn with_one_nan(aggregate: &AggregateExec, options: &Arc<ConfigOptions>) -> Result<Option<AggregateExec>> {
    let is_first = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    if !is_first {
        return Ok(None);
    }
    let schema = aggregate.input().schema();
    let mut changed = false;
    let mut one_nan = |expr: &Arc<dyn PhysicalExpr>| match of_one_nan(expr, &schema, options)? {
        Some(rewritten) => {
            changed = true;
            Ok(rewritten)
        }
        None => Ok(Arc::clone(expr)),
    };
    let groups = aggregate.group_expr();
    let keys = groups.expr().iter();
    let keys = keys.map(|(key, name)| Ok((one_nan(key)?, name.clone())));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let mut calls: Vec<Arc<AggregateFunctionExpr>> = Vec::new();
    for call in aggregate.aggr_expr() {
        let compares = call.is_distinct() || matches!(call.fun().name(), "min" | "max");
        if !compares || !call.order_bys().is_empty() {
            calls.push(Arc::clone(call));
            continue;
        }
        let arguments = call.expressions();
        let arguments = arguments.iter().map(&mut one_nan).collect::<Result<Vec<_>>>()?;
        let rewritten = call.with_new_expressions(arguments, Vec::new()).map(Arc::new);
        calls.push(rewritten.unwrap_or_else(|| Arc::clone(call)));
    }
    if !changed {
        return Ok(None);
    }
    let keys = PhysicalGroupBy::new(
        keys,
        groups.null_expr().to_vec(),
        groups.groups().to_vec(),
        groups.has_grouping_set(),
    );
    let rewritten = AggregateExec::try_new(
        *aggregate.mode(),
        keys,
        calls,
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    Ok(Some(rewritten.with_limit_options(aggregate.limit_options())))
}

fn is_float(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let data_type = expr.data_type(schema)?;
    Ok(argument(expr).is_none() && matches!(data_type, DataType::Float32 | DataType::Float64))
}

/// The float that a call makes one NaN and one zero of; `None` of other expressions. Kernels compare floats so
/// by themselves.
pub(crate) fn argument(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let is_one_nan = call.fun().inner().is::<OneNanFunction>();
    call.args().first().filter(|_| is_one_nan)
}

/// Whether an expression of a logical plan is such a call.
pub(super) fn is_one_nan(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().is::<OneNanFunction>(),
        _ => false,
    }
}

/// The expression with one NaN and one zero; `None` of others than floats, and of floats that have one.
pub(super) fn of_one_nan(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    options: &Arc<ConfigOptions>,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if !is_float(expr, schema)? {
        return Ok(None);
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let value = match literal.value() {
            ScalarValue::Float32(Some(value)) => ScalarValue::from(one_single(*value)),
            ScalarValue::Float64(Some(value)) => ScalarValue::from(one_double(*value)),
            _ => return Ok(None),
        };
        return Ok(Some(Arc::new(Literal::new(value))));
    }
    let function = ScalarUDF::new_from_impl(OneNanFunction::new());
    let field = expr.return_field(schema)?;
    Ok(Some(Arc::new(ScalarFunctionExpr::new(
        function.inner().name(),
        Arc::new(function.clone()),
        vec![Arc::clone(expr)],
        field,
        Arc::clone(options),
    ))))
}

fn one_single(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

fn one_double(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// A float, with one bit pattern for every NaN and zero for negative zero.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OneNanFunction {
    signature: Signature,
}

impl OneNanFunction {
    pub(super) fn new() -> Self {
        let types = vec![DataType::Float32, DataType::Float64];
        Self {
            signature: Signature::uniform(1, types, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OneNanFunction {
    fn name(&self) -> &'static str {
        "one_nan"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let one: ArrayRef = match values.data_type() {
            DataType::Float32 => {
                let one: Float32Array = values.as_primitive::<Float32Type>().unary(one_single);
                Arc::new(one)
            }
            DataType::Float64 => {
                let one: Float64Array = values.as_primitive::<Float64Type>().unary(one_double);
                Arc::new(one)
            }
            other => return internal_err!("one_nan of {other}"),
        };
        Ok(ColumnarValue::Array(one))
    }
}
