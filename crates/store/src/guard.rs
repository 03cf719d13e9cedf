//! An optimizer rule that preserves the condition of a `DELETE` or `UPDATE`.
//!
//! DataFusion passes a table the filters that it finds in the optimized plan, and a statement without filters
//! changes all rows. The optimizer may have replaced a condition: one that is never true by an empty
//! relation, one on other tables by a join, and parts that occur twice by columns of a projection below. The
//! rule runs last, for stored tables. It turns an empty relation back into a filter, writes such parts out,
//! and rejects conditions that are no filters.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::datasource::DefaultTableSource;
use datafusion::logical_expr::{
    DmlStatement, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, WriteOp, lit,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::table::StoredTable;

/// The rule; see the module documentation.
#[derive(Debug)]
pub(crate) struct KeepConditions;

impl OptimizerRule for KeepConditions {
    fn name(&self) -> &'static str {
        "galatea_keep_conditions"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let statement = match plan {
            LogicalPlan::Dml(statement) if changes_stored_rows(&statement) => statement,
            plan => return Ok(Transformed::no(plan)),
        };
        let input = Arc::unwrap_or_clone(Arc::clone(&statement.input));
        let written_out = input.transform_up(write_out)?;
        let is_changed = written_out.transformed;
        let statement = match is_changed {
            true => DmlStatement {
                input: Arc::new(written_out.data),
                ..statement
            },
            false => statement,
        };
        match rows_of(&statement.input, &statement) {
            Rows::Filtered if is_changed => Ok(Transformed::yes(LogicalPlan::Dml(statement))),
            Rows::Filtered => Ok(Transformed::no(LogicalPlan::Dml(statement))),
            Rows::None => {
                let scan = LogicalPlanBuilder::scan(
                    statement.table_name.clone(),
                    Arc::clone(&statement.target),
                    None,
                )?;
                let input = Arc::new(scan.filter(lit(false))?.build()?);
                let statement = DmlStatement { input, ..statement };
                Ok(Transformed::yes(LogicalPlan::Dml(statement)))
            }
            Rows::Other(node) => not_impl_err!(
                "{} of table {} by a condition that is not on its rows alone ({node})\n\
                 hint: INSERT OVERWRITE the remaining rows",
                statement.op.name(),
                statement.table_name
            ),
        }
    }

    fn supports_rewrite(&self) -> bool {
        true
    }
}

/// Writes the columns of a projection out in the filter or projection above it.
fn write_out(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let below = match &node {
        LogicalPlan::Filter(filter) => Arc::clone(&filter.input),
        LogicalPlan::Projection(projection) => Arc::clone(&projection.input),
        _ => return Ok(Transformed::no(node)),
    };
    let LogicalPlan::Projection(below) = below.as_ref() else {
        return Ok(Transformed::no(node));
    };
    let columns: HashMap<Column, &Expr> = below.schema.columns().into_iter().zip(&below.expr).collect();
    let written_out = |expr: Expr| {
        let replaced = expr.transform_up(|part| {
            let column = match &part {
                Expr::Column(column) => columns.get(column),
                _ => None,
            };
            Ok(match column {
                Some(expr) => Transformed::yes((*expr).clone().unalias()),
                None => Transformed::no(part),
            })
        });
        replaced.map(|replaced| replaced.data)
    };
    let input = Arc::clone(&below.input);
    Ok(Transformed::yes(match node {
        LogicalPlan::Filter(filter) => {
            let filter = Filter::try_new(written_out(filter.predicate)?, input)?;
            let input = Arc::new(LogicalPlan::Filter(filter));
            LogicalPlan::Projection(Projection::try_new(below.expr.clone(), input)?)
        }
        LogicalPlan::Projection(above) => {
            let names = above.schema.iter().map(|(_, field)| field.name().clone());
            let written_out = above.expr.into_iter().zip(names).map(|(expr, name)| {
                let expr = written_out(expr)?;
                let has_name = expr.schema_name().to_string() == name;
                Ok(if has_name {
                    expr
                } else {
                    expr.unalias().alias(name)
                })
            });
            let written_out = written_out.collect::<Result<Vec<_>>>()?;
            LogicalPlan::Projection(Projection::try_new(written_out, input)?)
        }
        other => other,
    }))
}

fn changes_stored_rows(statement: &DmlStatement) -> bool {
    let source = statement.target.downcast_ref::<DefaultTableSource>();
    matches!(statement.op, WriteOp::Delete | WriteOp::Update)
        && source.is_some_and(|source| source.table_provider.downcast_ref::<StoredTable>().is_some())
}

/// The rows of its table that a statement changes.
enum Rows {
    /// The rows that pass the filters of its plan.
    Filtered,
    None,
    /// Another node of the plan, with this name, selects the rows.
    Other(String),
}

fn rows_of(input: &LogicalPlan, statement: &DmlStatement) -> Rows {
    match input {
        LogicalPlan::Projection(projection) => rows_of(&projection.input, statement),
        LogicalPlan::Filter(filter) => rows_of(&filter.input, statement),
        LogicalPlan::SubqueryAlias(alias) => rows_of(&alias.input, statement),
        LogicalPlan::TableScan(scan)
            if scan.table_name.resolved_eq(&statement.table_name) && scan.fetch.is_none() =>
        {
            Rows::Filtered
        }
        LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => Rows::None,
        other => Rows::Other(other.display().to_string()),
    }
}
