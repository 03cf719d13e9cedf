//! INSERT of rows that a client sends apart from the statement: `INSERT INTO t VALUES ($1, $2)` once for all
//! rows, instead of once for each.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, internal_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Values, WriteOp, cast};

/// The name of the table of rows.
const ROWS: &str = "inserted_rows";

/// The names of the placeholders, without `$`, that are the only row of an INSERT; `None` for any other plan.
pub fn inserted_placeholders(plan: &LogicalPlan) -> Option<Vec<String>> {
    let LogicalPlan::Dml(insert) = plan else {
        return None;
    };
    if !matches!(insert.op, WriteOp::Insert(_)) {
        return None;
    }
    let (mut rows, mut placeholders) = (None, 0);
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Values(values) = node {
            rows = Some((values.clone(), rows.is_some()));
        }
        for expression in node.expressions() {
            let _ = expression.apply(|part| {
                placeholders += usize::from(matches!(part, Expr::Placeholder(_)));
                Ok(TreeNodeRecursion::Continue)
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let Some((Values { values, .. }, false)) = rows else {
        return None;
    };
    let [row] = values.as_slice() else { return None };
    let names = row.iter().map(|value| match value {
        Expr::Placeholder(placeholder) => placeholder.id.strip_prefix('$').map(str::to_owned),
        _ => None,
    });
    let names = names.collect::<Option<Vec<_>>>()?;
    (names.len() == placeholders).then_some(names)
}

/// The plan of an INSERT with the rows of a table in place of its `VALUES`. `columns` are the positions in
/// the table of the values of a row, which are converted to the types of the `VALUES`.
///
/// # Errors
/// The plan has no `VALUES`; a type that cannot be converted.
pub fn with_rows(plan: LogicalPlan, rows: &Arc<dyn TableProvider>, columns: &[usize]) -> Result<LogicalPlan> {
    let schema = rows.schema();
    let changed = plan.transform_down(|node| match node {
        LogicalPlan::Values(values) => {
            let source = provider_as_source(Arc::clone(rows));
            // The columns of VALUES are `column1`, `column2`, and so on.
            let names = values.schema.fields().iter().zip(columns).map(|(value, column)| {
                let given = schema.field(*column);
                let expression = Expr::Column(Column::new(Some(ROWS), given.name()));
                let keeps = value.data_type().is_null() || value.data_type() == given.data_type();
                let expression = match keeps {
                    true => expression,
                    false => cast(expression, value.data_type().clone()),
                };
                expression.alias(value.name())
            });
            let names: Vec<Expr> = names.collect();
            let scan = LogicalPlanBuilder::scan(ROWS, source, None)?
                .project(names)?
                .build()?;
            Ok(Transformed::new(scan, true, TreeNodeRecursion::Stop))
        }
        node => Ok(Transformed::no(node)),
    })?;
    match changed.transformed {
        true => Ok(changed.data),
        false => internal_err!("the plan of an INSERT has no VALUES"),
    }
}
