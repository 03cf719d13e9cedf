//! DELETE, UPDATE and TRUNCATE as plans of all rows of their table.
//!
//! DataFusion passes the filters of the optimised plan to the table. A condition with a subquery has become a
//! join by then, so that all rows would be changed. Here the statement becomes a query of all rows, with the
//! new values and a last column that is true for changed rows; a sink replaces the rows of the table at the
//! end:
//!
//! ```text
//! UPDATE t SET b = x WHERE c
//! SELECT a, CASE WHEN changed THEN x ELSE b END AS b, changed FROM (SELECT *, c AS changed FROM t)
//! ```
//!
//! So conditions and values may have subqueries, run on the device, and an error leaves the table as it was.

mod memory;

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, not, prep_null_mask_filter, sum};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, TableReference, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, TableSource, WriteOp,
    lit, when,
};

pub(crate) use memory::{check_kind, check_name, of_memory};

/// The name of the last column.
const CHANGED: &str = "__galatea_changed";

/// An error of a statement that changes the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The statement changes a view or a table of files.
    #[error("{statement} is not supported for {kind} {table}\nhint: {hint}")]
    Kind {
        /// The statement.
        statement: String,
        /// The kind of the table, with an article.
        kind: &'static str,
        /// The table.
        table: String,
        /// The statement to use.
        hint: &'static str,
    },
    /// The statement has a clause that is not supported.
    #[error("{statement} {clause} is not supported\nhint: {hint}")]
    Clause {
        /// The statement.
        statement: String,
        /// The clause.
        clause: &'static str,
        /// The SQL to write instead.
        hint: &'static str,
    },
    /// A row has NULL in a column that is not nullable.
    #[error("{statement}: a row has NULL in the column '{column}', which is NOT NULL in the table {table}")]
    NotNull {
        /// The statement.
        statement: String,
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The table was dropped or replaced after the statement had been planned.
    #[error(
        "the table {table} was dropped or replaced after the statement had been planned, and the statement changed nothing\nhint: prepare it again"
    )]
    Replaced {
        /// The table.
        table: String,
    },
    /// Another statement changed the table while this one ran.
    #[error(
        "the rows of the table {table} were changed by another statement while this one ran, and this one changed nothing\nhint: run it again"
    )]
    Conflict {
        /// The table.
        table: String,
    },
}

impl From<ChangeError> for DataFusionError {
    fn from(error: ChangeError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Whether a plan changes or writes rows. Its result is their number ([`changed_rows`]).
#[must_use]
pub fn is_update(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_))
}

/// The number of rows in the result of an update: the sum of its only column.
#[must_use]
pub fn changed_rows(result: &[RecordBatch]) -> u64 {
    let counts = result.iter().filter_map(|batch| {
        let column = batch.columns().first()?;
        sum(column.as_primitive_opt::<UInt64Type>()?)
    });
    counts.sum()
}

/// The change of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Delete,
    Update,
    /// All rows are removed without being read.
    Truncate,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
            Self::Truncate => "TRUNCATE",
        })
    }
}

impl Change {
    /// The change of a statement; `None` for other statements.
    pub(crate) fn of(statement: &DmlStatement) -> Option<Self> {
        match statement.op {
            WriteOp::Delete => Some(Self::Delete),
            WriteOp::Update => Some(Self::Update),
            WriteOp::Truncate => Some(Self::Truncate),
            _ => None,
        }
    }

    /// The rows of a batch that remain in the table, without the last column, and the number of changed rows.
    /// `schema`, `table`: those of the table.
    ///
    /// # Errors
    /// [`ChangeError::NotNull`].
    pub(crate) fn remaining(
        self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        table: &str,
    ) -> Result<(RecordBatch, u64)> {
        let Some((changed, columns)) = batch.columns().split_last() else {
            return exec_err!("internal error: rows of {self} without columns (please report)");
        };
        let Some(changed) = changed.as_boolean_opt() else {
            return exec_err!("internal error: rows of {self} without a condition (please report)");
        };
        let changed: BooleanArray = match changed.null_count() {
            0 => changed.clone(),
            _ => prep_null_mask_filter(changed),
        };
        let rows = in_table(self, columns, batch.num_rows(), schema, table)?;
        let count = changed.true_count() as u64;
        let rows = match self {
            Self::Delete => filter_record_batch(&rows, &not(&changed)?)?,
            Self::Update | Self::Truncate => rows,
        };
        Ok((rows, count))
    }
}

/// A batch of `rows` rows with the schema of its table. The types of the columns may differ from it in
/// metadata.
///
/// # Errors
/// [`ChangeError::NotNull`].
pub(crate) fn in_table(
    statement: impl fmt::Display,
    columns: &[ArrayRef],
    rows: usize,
    schema: &SchemaRef,
    table: impl fmt::Display,
) -> Result<RecordBatch> {
    let mut each = schema.fields().iter().zip(columns);
    if let Some((field, _)) =
        each.find(|(field, column)| !field.is_nullable() && column.logical_null_count() > 0)
    {
        let (statement, table) = (statement.to_string(), table.to_string());
        let column = field.name().clone();
        return Err(ChangeError::NotNull {
            statement,
            table,
            column,
        }
        .into());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.to_vec(),
        &options,
    )?)
}

/// The statement as a plan that reads the current rows of `target` and replaces them. `is_target`: whether a
/// scan in the statement or its subqueries reads the same table.
///
/// # Errors
/// Errors of planning.
pub(crate) fn replacing(
    change: Change,
    statement: &DmlStatement,
    target: &Arc<dyn TableSource>,
    is_target: impl Fn(&Arc<dyn TableSource>, &TableReference) -> bool,
) -> Result<LogicalPlan> {
    let rows = match change {
        Change::Truncate => LogicalPlanBuilder::scan(statement.table_name.clone(), Arc::clone(target), None)?
            .limit(0, Some(0))?
            .build()?,
        Change::Delete | Change::Update => {
            let input = LogicalPlan::clone(&statement.input);
            all_rows(change, current(input, target, is_target)?)?
        }
    };
    Ok(LogicalPlan::Dml(DmlStatement::new(
        statement.table_name.clone(),
        Arc::clone(target),
        WriteOp::Insert(InsertOp::Overwrite),
        Arc::new(rows),
    )))
}

/// The plan with `target` as the source of all scans of the table, also in subqueries.
fn current(
    plan: LogicalPlan,
    target: &Arc<dyn TableSource>,
    is_target: impl Fn(&Arc<dyn TableSource>, &TableReference) -> bool,
) -> Result<LogicalPlan> {
    let changed = plan.transform_down_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::TableScan(mut scan) if is_target(&scan.source, &scan.table_name) => {
                scan.source = Arc::clone(target);
                Transformed::yes(LogicalPlan::TableScan(scan))
            }
            node => Transformed::no(node),
        })
    })?;
    Ok(changed.data)
}

/// All rows with the new values, and the column of the condition.
fn all_rows(change: Change, input: LogicalPlan) -> Result<LogicalPlan> {
    let (values, input) = match input {
        LogicalPlan::Projection(projection) if change == Change::Update => {
            (Some(projection.expr), Arc::unwrap_or_clone(projection.input))
        }
        input => (None, input),
    };
    let (condition, rows) = match input {
        LogicalPlan::Filter(filter) => (filter.predicate, Arc::unwrap_or_clone(filter.input)),
        rows => (lit(true), rows),
    };
    // The condition NULL has the type Null.
    let condition = match condition.get_type(rows.schema())? {
        DataType::Null => lit(ScalarValue::Boolean(None)),
        _ => condition,
    };
    let columns = rows.schema().columns();
    let all = columns.iter().cloned().map(Expr::Column);
    let all = all.chain([condition.alias(CHANGED)]).collect();
    let with_condition = LogicalPlan::Projection(Projection::try_new(all, Arc::new(rows))?);
    let Some(values) = values else {
        return Ok(with_condition);
    };
    let changed = Expr::Column(datafusion::common::Column::new_unqualified(CHANGED));
    let values = columns.into_iter().zip(values).map(|(column, value)| {
        let name = column.name.clone();
        let old = Expr::Column(column);
        Ok(match value.unalias() {
            value if value == old => value,
            value => when(changed.clone(), value).otherwise(old)?.alias(name),
        })
    });
    let mut values = values.collect::<Result<Vec<_>>>()?;
    values.push(changed.clone());
    Ok(LogicalPlan::Projection(Projection::try_new(
        values,
        Arc::new(with_condition),
    )?))
}

/// Whether the condition or a value has a subquery.
///
/// # Errors
/// Those of DataFusion when it traverses the plan.
pub(crate) fn has_subqueries(input: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    input.apply(|node| {
        node.apply_expressions(|expression| {
            found |= expression.exists(|part| {
                Ok(matches!(
                    part,
                    Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
                ))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Checks that a statement reads no other table outside of subqueries, and that its condition and values have
/// no aggregate or window functions.
///
/// # Errors
/// [`ChangeError::Clause`].
pub(crate) fn check_input(change: Change, input: &LogicalPlan) -> Result<()> {
    let (expressions, input) = match (change, input) {
        (Change::Truncate, _) => return Ok(()),
        // The scan of an optimised plan may lack rows or columns, and is refused.
        (_, LogicalPlan::TableScan(scan))
            if scan.filters.is_empty() && scan.projection.is_none() && scan.fetch.is_none() =>
        {
            return Ok(());
        }
        (Change::Update, LogicalPlan::Projection(projection)) => (&projection.expr[..], &projection.input),
        (_, LogicalPlan::Filter(filter)) => (std::slice::from_ref(&filter.predicate), &filter.input),
        (_, LogicalPlan::SubqueryAlias(alias)) => (&[][..], &alias.input),
        _ => {
            let hint = "read other tables in subqueries, and use a condition in WHERE";
            return Err(refused(change, "of other rows than those of one table", hint));
        }
    };
    for expression in expressions {
        let of_rows = |part: &Expr| matches!(part, Expr::AggregateFunction(_) | Expr::WindowFunction(_));
        if expression.exists(|part| Ok(of_rows(part)))? {
            let hint = "compute it in a subquery: SET b = (SELECT sum(b) FROM t)";
            return Err(refused(change, "with an aggregate or window function", hint));
        }
    }
    check_input(change, input)
}

fn refused(change: Change, clause: &'static str, hint: &'static str) -> DataFusionError {
    let statement = change.to_string();
    ChangeError::Clause {
        statement,
        clause,
        hint,
    }
    .into()
}
