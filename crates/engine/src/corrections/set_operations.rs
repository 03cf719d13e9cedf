//! EXCEPT ALL and INTERSECT ALL as operations on multisets.
//!
//! DataFusion plans both as an anti or semi join on all columns, which removes or keeps all copies of a row.
//! The rule numbers the copies of each row on both sides and also joins by that number:
//!
//! ```text
//! l EXCEPT ALL r     the n-th copy of a row stays unless r has an n-th copy
//! l INTERSECT ALL r  the n-th copy of a row stays if r has an n-th copy
//! ```
//!
//! A join is one of these operations if it is an anti or semi join on all columns of both sides, in order,
//! with equal NULLs: no other SQL has such a join. EXCEPT and INTERSECT without ALL remove duplicates on
//! their left side first; every row has one copy there, so they stay unchanged.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, WindowFrame, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;

/// The number of a row among its copies, from 1.
const COPY: &str = "__galatea_copy";

/// The rule that numbers copies.
#[derive(Debug, Default)]
pub(super) struct CountCopies;

impl AnalyzerRule for CountCopies {
    fn name(&self) -> &'static str {
        "galatea_count_copies"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let counted = plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Join(join) if is_set_operation(join) => Ok(Transformed::yes(by_copies(join)?)),
            _ => Ok(Transformed::no(node)),
        });
        Ok(counted?.data)
    }
}

/// Whether a join represents EXCEPT ALL or INTERSECT ALL.
fn is_set_operation(join: &Join) -> bool {
    let columns = join.left.schema().columns();
    let others = join.right.schema().columns();
    let keys = columns.iter().zip(&others);
    let by_all_columns = join.on.len() == columns.len()
        && columns.len() == others.len()
        && keys.zip(&join.on).all(|((left, right), (one, other))| {
            matches!((one, other), (Expr::Column(one), Expr::Column(other)) if one == left && other == right)
        });
    let is_counted = columns.last().is_some_and(|column| column.name == COPY);
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && by_all_columns
        && !is_counted
        && !matches!(&*join.left, LogicalPlan::Distinct(Distinct::All(_)))
}

/// The same join on all columns and the number of the copy.
fn by_copies(join: &Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let left = numbered(&join.left)?;
    let right = numbered(&join.right)?;
    let keys = (left.schema().columns(), right.schema().columns());
    LogicalPlanBuilder::from(left)
        .join_detailed(right, join.join_type, keys, None, NullEquality::NullEqualsNull)?
        .project(columns.into_iter().map(Expr::Column))?
        .build()
}

/// A plan with the number of each row among its copies as the last column.
fn numbered(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let call = WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(row_number_udwf()),
        params: WindowFunctionParams {
            args: Vec::new(),
            partition_by: columns.clone(),
            order_by: Vec::new(),
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    };
    let call = Expr::from(call);
    let number = Expr::Column(Column::new_unqualified(call.schema_name().to_string()));
    LogicalPlanBuilder::from(plan.clone())
        .window([call])?
        .project(columns.into_iter().chain([number.alias(COPY)]))?
        .build()
}
