//! Keys of windows on the CPU: NaN is one value, above all others, and zero another.
//!
//! Window functions compare the rows of a partition by the bits of their keys. The rule replaces keys of
//! floats by keys with one NaN and one zero. It rewrites logical plans, because DataFusion's physical window
//! functions do not expose all of their parts, and runs after DataFusion's own rules; columns keep their
//! names.

use crate::window_filters::{named_as, window_function};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF, Window};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use galatea_expression::one_nan::{OneNanFunction, is_one_nan};

/// The rule that rewrites windows.
#[derive(Debug, Default)]
pub(super) struct OrderWindows;

impl OptimizerRule for OrderWindows {
    fn name(&self) -> &'static str {
        "galatea_order_windows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Window(window) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let schema = window.input.schema();
        let mut changed = false;
        let calls = window.window_expr.iter().map(|call| {
            let rewritten = with_one_nan(call, schema)?;
            changed |= rewritten.is_some();
            Ok(rewritten.unwrap_or_else(|| call.clone()))
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        if !changed {
            return Ok(Transformed::no(plan));
        }
        let rewritten = Window::try_new(calls, window.input.clone())?;
        Ok(Transformed::yes(LogicalPlan::Window(rewritten)))
    }
}

/// The call with one NaN and one zero in its keys, under its original name; `None` if no key is a float.
fn with_one_nan(call: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(mut function) = window_function(call).cloned() else {
        return Ok(None);
    };
    let mut changed = false;
    let params = &mut function.params;
    let orders = params.order_by.iter_mut().map(|key| &mut key.expr);
    for key in params.partition_by.iter_mut().chain(orders) {
        let is_float = matches!(key.get_type(schema)?, DataType::Float32 | DataType::Float64);
        if is_float && !is_one_nan(key) {
            *key = ScalarUDF::new_from_impl(OneNanFunction::default()).call(vec![key.clone()]);
            changed = true;
        }
    }
    Ok(changed.then(|| named_as(call, function)))
}
