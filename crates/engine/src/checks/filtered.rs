//! Keeps arguments that FILTER guards out of common subexpression elimination.
//!
//! DataFusion computes a subexpression of both the argument and the FILTER of an aggregate once, below it and
//! for all rows, so `count(10 / a) FILTER (WHERE a > 0 AND 10 / a > 5)` divides by zero. The rule runs
//! DataFusion's rule on plans with such arguments marked as conditionally evaluated, like the branches of
//! CASE.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule for common subexpressions, without the arguments that FILTER guards.
#[derive(Debug)]
pub struct KeepFiltered {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl KeepFiltered {
    /// Wraps DataFusion's rule.
    pub fn around(inner: Arc<dyn OptimizerRule + Send + Sync>) -> Self {
        Self { inner }
    }
}

impl OptimizerRule for KeepFiltered {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let marked =
            plan.transform_up_with_subqueries(|node| node.map_expressions(|e| e.transform_up(mark)))?;
        if !marked.transformed {
            return self.inner.rewrite(marked.data, config);
        }
        let rewritten = self.inner.rewrite(marked.data, config)?;
        let changed = rewritten.transformed;
        let plan = rewritten
            .data
            .transform_up_with_subqueries(|node| node.map_expressions(|e| e.transform_up(unmark)))?;
        Ok(Transformed::new_transformed(plan.data, changed))
    }
}

/// The call with its arguments marked, if it has a filter.
fn mark(mut call: Expr) -> Result<Transformed<Expr>> {
    let arguments = match &mut call {
        Expr::AggregateFunction(AggregateFunction { params, .. }) if params.filter.is_some() => {
            &mut params.args
        }
        Expr::WindowFunction(function) if function.params.filter.is_some() => {
            let WindowFunction { params, .. } = function.as_mut();
            &mut params.args
        }
        _ => return Ok(Transformed::no(call)),
    };
    let mut changed = false;
    for argument in arguments {
        if !matches!(argument, Expr::Column(_) | Expr::Literal(..)) {
            *argument = ScalarUDF::new_from_impl(FilteredArgument::new()).call(vec![argument.clone()]);
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(call, changed))
}

fn unmark(expression: Expr) -> Result<Transformed<Expr>> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.inner().is::<FilteredArgument>() => {
            match args.pop() {
                Some(argument) => Ok(Transformed::yes(argument)),
                None => internal_err!("a filtered argument has an operand"),
            }
        }
        other => Ok(Transformed::no(other)),
    }
}

/// An argument that is evaluated only for some rows, in a plan that is being rewritten.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FilteredArgument {
    signature: Signature,
}

impl FilteredArgument {
    fn new() -> Self {
        Self {
            // Volatile, so that equal ones are not computed once for all rows.
            signature: Signature::any(1, Volatility::Volatile),
        }
    }
}

impl ScalarUDFImpl for FilteredArgument {
    fn name(&self) -> &'static str {
        "filtered_argument"
    }

    /// Columns keep their names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let names = arguments
            .iter()
            .map(|argument| argument.schema_name().to_string());
        Ok(names.collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.iter().next().cloned().unwrap_or(DataType::Null))
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a filtered argument is in no plan that runs")
    }
}
