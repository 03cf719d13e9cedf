//! A stored table as DataFusion's table provider: scans, statistics, and changes.
//!
//! `INSERT INTO` appends. `DELETE`, `UPDATE` and `TRUNCATE` decode the table, change its rows and encode them
//! again ([`StoreChangeExec`]). That is correct, and as slow as encoding the table.

use std::fmt::Formatter;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, SchemaExt, Statistics, not_impl_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::TryStreamExt;

use crate::change::StoreChangeExec;
use crate::pool::on_pool;
use crate::scan::{StoreScanExec, column_statistics};
use crate::table::StoredTable;

/// Whether a filter depends on nothing but the columns of a row, so that a scan can evaluate it. A subquery
/// has to stay where DataFusion makes it a join.
#[must_use]
pub fn is_of_row(filter: &Expr) -> bool {
    let other = |part: &Expr| {
        matches!(
            part,
            Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        )
    };
    !filter.exists(|part| Ok(other(part))).unwrap_or(true)
}

/// The filters that a scan may use and DataFusion evaluates again: those of a row.
#[must_use]
pub fn inexact(filters: &[&Expr]) -> Vec<TableProviderFilterPushDown> {
    let kind = |filter: &&Expr| match is_of_row(filter) {
        true => TableProviderFilterPushDown::Inexact,
        false => TableProviderFilterPushDown::Unsupported,
    };
    filters.iter().map(kind).collect()
}

#[async_trait]
impl TableProvider for StoredTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.default_of(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = DFSchema::try_from(Arc::clone(self.table_schema()))?;
        // Filters without a physical expression are left to the filter above the scan.
        let filters = filters
            .iter()
            .filter_map(|filter| state.create_physical_expr(filter.clone(), &schema).ok());
        let partitions = state.config().target_partitions();
        let projection = projection.map(Vec::as_slice);
        Ok(Arc::new(StoreScanExec::try_new(
            self.snapshot(),
            projection,
            filters.collect(),
            limit,
            partitions,
        )?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(inexact(filters))
    }

    fn statistics(&self) -> Option<Statistics> {
        let snapshot = self.snapshot();
        let mut statistics = Statistics::new_unknown(self.table_schema());
        statistics.num_rows = datafusion::common::stats::Precision::Exact(snapshot.rows() as usize);
        statistics.column_statistics = snapshot
            .columns
            .iter()
            .map(|column| column_statistics(column))
            .collect();
        Some(statistics)
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table_schema()
            .logically_equivalent_names_and_types(&input.schema())?;
        let replace = match insert_op {
            InsertOp::Append => false,
            InsertOp::Overwrite => true,
            InsertOp::Replace => return not_impl_err!("REPLACE INTO is not implemented for stored tables"),
        };
        let sink = StoreSink {
            table: self.clone(),
            replace,
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }

    async fn delete_from(&self, state: &dyn Session, filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(StoreChangeExec::delete(self, state, filters)?))
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(StoreChangeExec::update(
            self,
            state,
            assignments,
            filters,
        )?))
    }

    async fn truncate(&self, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.delete_from(state, Vec::new()).await
    }
}

/// Writes the rows of an `INSERT`.
#[derive(Debug)]
struct StoreSink {
    table: StoredTable,
    replace: bool,
}

impl DisplayAs for StoreSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreSink(table={})", self.table.name())
    }
}

#[async_trait]
impl DataSink for StoreSink {
    fn schema(&self) -> &SchemaRef {
        self.table.table_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, _context: &Arc<TaskContext>) -> Result<u64> {
        let batches: Vec<RecordBatch> = data.try_collect().await?;
        if !self.replace {
            return Ok(self.table.append(batches).await?);
        }
        let change = self.table.lock_changes().await;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let table = self.table.clone();
        on_pool(move || {
            let _change = change;
            table.replace(batches)
        })
        .await?;
        Ok(rows)
    }
}
