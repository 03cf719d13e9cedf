//! `DELETE`, `UPDATE` and `TRUNCATE`: a plan node that changes a stored table when it is executed.
//!
//! Planning only creates physical expressions. An execution decodes the current rows, applies the change to
//! all of them, encodes the result and replaces the table's snapshot at the end. An error on the way, or a
//! stream that is dropped, therefore changes nothing. Each execution is a statement of its own: it changes
//! the rows that the table has when the execution begins.

use std::fmt::Formatter;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{filter_record_batch, not, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, conjunction_opt};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, apply_expression_roots,
};

use crate::error::StoreError;
use crate::pool::{Cancellation, on_pool};
use crate::source::TableId;
use crate::table::StoredTable;

/// The change of the rows for which the condition is true.
#[derive(Debug, Clone)]
enum Change {
    Delete,
    /// The new value of each column of the table; none for columns that remain unchanged.
    Update(Vec<Option<Arc<dyn PhysicalExpr>>>),
}

/// Changes a stored table, and returns one row: the number of changed rows.
#[derive(Debug)]
pub(crate) struct StoreChangeExec {
    table: StoredTable,
    change: Change,
    /// The condition of changed rows; without one, all rows are changed.
    condition: Option<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
}

impl StoreChangeExec {
    /// Deletes the rows that pass all filters.
    ///
    /// # Errors
    /// A filter has no physical expression.
    pub(crate) fn delete(table: &StoredTable, state: &dyn Session, filters: Vec<Expr>) -> Result<Self> {
        Self::new(table, Change::Delete, state, filters)
    }

    /// Assigns to columns of the rows that pass all filters.
    ///
    /// # Errors
    /// A column that the table does not have, or an expression without a physical one.
    pub(crate) fn update(
        table: &StoredTable,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Self> {
        let schema = table.table_schema();
        let logical = DFSchema::try_from(Arc::clone(schema))?;
        let mut values = vec![None; schema.fields().len()];
        for (name, value) in assignments {
            let Some((column, _)) = schema.column_with_name(&name) else {
                let names: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                return plan_err!(
                    "table {} has no column {name}, its columns are: {}",
                    table.name(),
                    names.join(", ")
                );
            };
            values[column] = Some(state.create_physical_expr(value, &logical)?);
        }
        Self::new(table, Change::Update(values), state, filters)
    }

    fn new(table: &StoredTable, change: Change, state: &dyn Session, filters: Vec<Expr>) -> Result<Self> {
        let schema = DFSchema::try_from(Arc::clone(table.table_schema()))?;
        let filters = filters
            .into_iter()
            .map(|filter| state.create_physical_expr(filter, &schema))
            .collect::<Result<Vec<_>>>()?;
        let count = Schema::new(vec![Field::new("count", DataType::UInt64, false)]);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(count)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Self {
            table: table.clone(),
            change,
            condition: conjunction_opt(filters),
            properties: Arc::new(properties),
        })
    }
}

impl Change {
    /// The batch after the change, and the number of its rows that were changed.
    fn apply(
        &self,
        condition: Option<&Arc<dyn PhysicalExpr>>,
        batch: &RecordBatch,
    ) -> Result<(RecordBatch, u64)> {
        let rows = batch.num_rows();
        let affected = match condition {
            Some(condition) => selected(&condition.evaluate(batch)?.into_array(rows)?)?,
            None => BooleanArray::from(vec![true; rows]),
        };
        let count = affected.true_count() as u64;
        if count == 0 {
            return Ok((batch.clone(), 0));
        }
        let changed = match self {
            Self::Delete => filter_record_batch(batch, &not(&affected)?)?,
            Self::Update(values) => {
                let columns = batch.columns().iter().zip(values);
                let columns =
                    columns.map(|(column, value)| assigned(batch, &affected, column, value.as_ref()));
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                RecordBatch::try_new_with_options(batch.schema(), columns.collect::<Result<_>>()?, &options)?
            }
        };
        Ok((changed, count))
    }
}

/// The rows for which a condition is true: neither false nor NULL.
fn selected(condition: &ArrayRef) -> Result<BooleanArray> {
    let Some(condition) = condition.as_boolean_opt() else {
        return plan_err!("a condition must be boolean, but it is {}", condition.data_type());
    };
    Ok(match condition.null_count() {
        0 => condition.clone(),
        _ => prep_null_mask_filter(condition),
    })
}

/// The column with new values in the affected rows. Values are evaluated for these rows only, so that other
/// rows cannot raise errors.
fn assigned(
    batch: &RecordBatch,
    affected: &BooleanArray,
    column: &ArrayRef,
    value: Option<&Arc<dyn PhysicalExpr>>,
) -> Result<ArrayRef> {
    let Some(value) = value else {
        return Ok(Arc::clone(column));
    };
    let new = value
        .evaluate_selection(batch, affected)?
        .into_array(batch.num_rows())?;
    Ok(arrow::compute::kernels::zip::zip(affected, &new, column)?)
}

impl DisplayAs for StoreChangeExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreChangeExec: table={}", self.table.name())?;
        match &self.change {
            Change::Delete => write!(f, ", delete")?,
            Change::Update(values) => {
                let fields = self.table.table_schema().fields();
                let assignments = fields.iter().zip(values).filter_map(|(field, value)| {
                    value.as_ref().map(|value| format!("{} = {value}", field.name()))
                });
                write!(f, ", update=[{}]", assignments.collect::<Vec<_>>().join(", "))?;
            }
        }
        match &self.condition {
            Some(condition) => write!(f, ", where={condition}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for StoreChangeExec {
    fn name(&self) -> &'static str {
        "StoreChangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::no_children!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let values = match &self.change {
            Change::Delete => [].iter(),
            Change::Update(values) => values.iter(),
        };
        apply_expression_roots(values.flatten().chain(&self.condition), f)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        crate::check_partition(self, partition)?;
        let (table, change, condition) = (self.table.clone(), self.change.clone(), self.condition.clone());
        let schema = self.schema();
        let counted = Arc::clone(&schema);
        let changed = async move {
            let count = table
                .rewrite(move |batch| change.apply(condition.as_ref(), batch))
                .await?;
            count_batch(counted, count)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::once(changed),
        )))
    }
}

fn count_batch(schema: SchemaRef, count: u64) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(
        schema,
        vec![Arc::new(UInt64Array::from(vec![count]))],
    )?)
}

impl StoredTable {
    /// Atomically replaces all rows, if the table still has the version `read`. Returns whether it had.
    ///
    /// # Errors
    /// As [`Self::from_batches`]; the table is then unchanged.
    pub async fn replace_version(
        &self,
        read: TableId,
        batches: Vec<RecordBatch>,
    ) -> Result<bool, StoreError> {
        let change = self.lock_changes().await;
        let table = self.clone();
        on_pool(move || {
            // Held until the work is done, even if the caller stops waiting.
            let _change = change;
            let is_current = table.version().0 == read;
            if is_current {
                table.replace(batches)?;
            }
            Ok(is_current)
        })
        .await
    }

    /// Atomically replaces every batch of rows by the result of `edit`, and returns the sum of the counts
    /// that it returns. If the sum is 0, or an edit fails, nothing is replaced.
    async fn rewrite(
        &self,
        edit: impl Fn(&RecordBatch) -> Result<(RecordBatch, u64)> + Send + 'static,
    ) -> Result<u64, StoreError> {
        let change = self.lock_changes().await;
        let table = self.clone();
        let cancellation = Cancellation::default();
        let _cancel = cancellation.on_drop();
        on_pool(move || {
            // Held until the work is done, even if the caller stops waiting.
            let _change = change;
            let mut changed = Vec::new();
            let mut count = 0;
            for batch in table.snapshot().decode()? {
                cancellation.check()?;
                let (batch, counted) = edit(&batch)?;
                changed.push(batch);
                count += counted;
            }
            if count > 0 {
                table.replace(changed)?;
            }
            Ok(count)
        })
        .await
    }
}
