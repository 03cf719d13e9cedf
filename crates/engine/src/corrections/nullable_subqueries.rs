//! A scalar subquery without rows is NULL, also if its column is not nullable.
//!
//! DataFusion declares the value of `(SELECT 1 FROM t WHERE ...)` as not nullable, so that `IS NULL` is
//! false, and a result with the NULL is an error. The rule puts a function around such a subquery, which
//! returns its argument and is nullable. Comparisons that are the conditions of filters need none.

use crate::checks::names_kept;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::{Arc, LazyLock};

static NULLABLE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Nullable::default())));

/// The rule that declares such subqueries as nullable.
#[derive(Debug, Default)]
pub(super) struct NullableSubqueries;

impl AnalyzerRule for NullableSubqueries {
    fn name(&self) -> &'static str {
        "galatea_nullable_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_changed = false;
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = if is_filter_of_comparisons(&node)? {
                Transformed::no(node)
            } else {
                names_kept(node, |expr| expr.transform_up(nullable))?
            };
            is_changed |= node.transformed;
            // The columns of the nodes above become nullable, too.
            match is_changed {
                true => Ok(Transformed::yes(node.data.recompute_schema()?)),
                false => Ok(node),
            }
        });
        Ok(plan?.data)
    }
}

/// Whether all conditions of the node are comparisons. Their results may be NULL in any case.
fn is_filter_of_comparisons(node: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Filter(filter) = node else {
        return Ok(false);
    };
    let other = filter.predicate.exists(|part| {
        Ok(!matches!(
            part,
            Expr::BinaryExpr(_)
                | Expr::Between(_)
                | Expr::Not(_)
                | Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Literal(..)
                | Expr::Cast(_)
                | Expr::Alias(_)
                | Expr::ScalarSubquery(_)
        ) || matches!(part, Expr::BinaryExpr(compared) if is_distinct(compared.op)))
    })?;
    Ok(!other)
}

fn is_distinct(op: datafusion::logical_expr::Operator) -> bool {
    use datafusion::logical_expr::Operator;
    matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

fn nullable(part: Expr) -> Result<Transformed<Expr>> {
    Ok(match part {
        Expr::ScalarSubquery(query)
            if !query.subquery.schema().field(0).is_nullable() && !has_one_row(&query.subquery) =>
        {
            Transformed::yes(NULLABLE.call(vec![Expr::ScalarSubquery(query)]))
        }
        part => Transformed::no(part),
    })
}

/// Whether a plan returns one row for any tables.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(none) => none.produce_one_row,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Sort(_) => {
            plan.inputs().first().is_some_and(|input| has_one_row(input))
        }
        _ => false,
    }
}

/// Returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Nullable(Signature);

impl Default for Nullable {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &'static str {
        "galatea_nullable"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type depends on the field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [argument] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::new(Field::new(
            self.name(),
            argument.data_type().clone(),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [argument] = take_function_args(self.name(), args.args)?;
        Ok(argument)
    }
}
