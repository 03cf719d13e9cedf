//! Rewrites FILTER of window functions to arguments: `sum(x) FILTER (WHERE c) OVER w` becomes
//! `sum(CASE WHEN c THEN x END) OVER w`, for functions that ignore NULL.
//!
//! DataFusion's physical window functions do not expose their filters, so placement could not move them to
//! the device, and on the CPU arguments raise errors for rows that the filter drops. The rule rewrites
//! logical plans, after DataFusion's own rules, and keeps the names of columns.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Alias, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, Window, WindowFunctionDefinition, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Functions that ignore NULL.
const FUNCTIONS: [&str; 15] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "median",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
];

/// The optimizer rule, see the [module](self).
#[derive(Debug, Default)]
pub struct FiltersAsArguments;

impl OptimizerRule for FiltersAsArguments {
    fn name(&self) -> &'static str {
        "galatea_filters_as_arguments"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Window(window) = &plan else {
            return Ok(Transformed::no(plan));
        };
        if !window.window_expr.iter().any(|call| filtered(call).is_some()) {
            return Ok(Transformed::no(plan));
        }
        let calls = window.window_expr.iter().map(without_filter);
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let rewritten = Window::try_new(calls, window.input.clone())?;
        Ok(Transformed::yes(LogicalPlan::Window(rewritten)))
    }
}

/// A window function call with a filter that can move into the argument: the call, the argument and the
/// filter.
fn filtered(call: &Expr) -> Option<(&WindowFunction, &Expr, &Expr)> {
    let call = window_function(call)?;
    let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
        return None;
    };
    let (filter, [argument]) = (call.params.filter.as_deref()?, call.params.args.as_slice()) else {
        return None;
    };
    let is_plain = call.params.null_treatment.is_none();
    // A constant filter may reduce the argument to an untyped NULL.
    let takes = FUNCTIONS.contains(&function.name()) && is_plain && !matches!(filter, Expr::Literal(..));
    takes.then_some((call, argument, filter))
}

/// The call with its filter in its argument, under the same name; other expressions are unchanged.
fn without_filter(call: &Expr) -> Result<Expr> {
    let Some((function, argument, filter)) = filtered(call) else {
        return Ok(call.clone());
    };
    let mut function = function.clone();
    function.params.args = vec![when(filter.clone(), argument.clone()).end()?];
    function.params.filter = None;
    Ok(named_as(call, function))
}

/// The window function of a call, which may have an alias.
pub(crate) fn window_function(call: &Expr) -> Option<&WindowFunction> {
    match call {
        Expr::Alias(Alias { expr, .. }) => window_function(expr),
        Expr::WindowFunction(function) => Some(function),
        _ => None,
    }
}

/// A call of `function` under the name of `call`, which it replaces.
pub(crate) fn named_as(call: &Expr, function: WindowFunction) -> Expr {
    let rewritten = Expr::from(function);
    match call {
        Expr::Alias(alias) => Expr::Alias(Alias {
            expr: Box::new(rewritten),
            ..alias.clone()
        }),
        call => rewritten.alias(call.schema_name().to_string()),
    }
}
