//! DELETE, UPDATE and TRUNCATE of tables in memory, and their errors for views and files.
//!
//! Tables in memory are those of DataFusion or, in sessions with a device, encoded ones of the store. Stored
//! tables evaluate conditions and values themselves, unless these have subqueries or an UPDATE changes a
//! table with a NOT NULL column.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::{DefaultTableSource, MemTable, TableType, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, TableSource};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use galatea_store::{StoredTable, TableId};
use parking_lot::Mutex;

use super::{Change, ChangeError, check_input, has_subqueries, replacing};

/// The statement as a plan that replaces the rows of a table in memory; `None` for tables that execute it
/// themselves.
///
/// # Errors
/// [`ChangeError`].
pub(crate) fn of_memory(change: Change, statement: &DmlStatement) -> Result<Option<LogicalPlan>> {
    let Some(source) = statement.target.downcast_ref::<DefaultTableSource>() else {
        return Ok(None);
    };
    let table = &source.table_provider;
    check_kind(&change, table, &statement.table_name)?;
    check_input(change, &statement.input)?;
    let is_required = table.schema().fields().iter().any(|field| !field.is_nullable());
    let replaces = match table.is::<StoredTable>() {
        // The store's error for NULL in a NOT NULL column does not contain the name of the table.
        true => has_subqueries(&statement.input)? || change == Change::Update && is_required,
        false => table.is::<MemTable>(),
    };
    if !replaces {
        return Ok(None);
    }
    let target: Arc<dyn TableSource> = provider_as_source(Arc::new(Target {
        table: Arc::clone(table),
        name: statement.table_name.clone(),
        change,
        read: Mutex::default(),
    }));
    let is_target = |scanned: &Arc<dyn TableSource>, _: &TableReference| {
        let scanned = scanned.downcast_ref::<DefaultTableSource>();
        scanned.is_some_and(|scanned| Arc::ptr_eq(&scanned.table_provider, table))
    };
    replacing(change, statement, &target, is_target).map(Some)
}

/// Checks that the name in a prepared statement still refers to the table in memory that it was planned for.
///
/// # Errors
/// [`ChangeError::Replaced`].
pub(crate) async fn check_name(ctx: &SessionContext, plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(statement) = plan else {
        return Ok(());
    };
    let Some(source) = statement.target.downcast_ref::<DefaultTableSource>() else {
        return Ok(());
    };
    let planned = &source.table_provider;
    if !planned.is::<MemTable>() && !planned.is::<StoredTable>() {
        return Ok(());
    }
    let name = &statement.table_name;
    let current = ctx.table_provider(name.clone()).await;
    match current.is_ok_and(|current| Arc::ptr_eq(&current, planned)) {
        true => Ok(()),
        false => Err(ChangeError::Replaced {
            table: name.to_string(),
        }
        .into()),
    }
}

/// Checks that a statement may change a table that is not of a database.
///
/// # Errors
/// [`ChangeError::Kind`] for views and tables of files.
pub(crate) fn check_kind(
    statement: &dyn fmt::Display,
    table: &Arc<dyn TableProvider>,
    name: &TableReference,
) -> Result<(), ChangeError> {
    let (kind, hint) = if table.table_type() == TableType::View {
        ("the view", "change the tables of the view")
    } else if table.is::<ListingTable>() {
        (
            "the table of files",
            "copy the rows: CREATE TABLE copy AS SELECT ... FROM t WHERE ...",
        )
    } else {
        return Ok(());
    };
    Err(ChangeError::Kind {
        statement: statement.to_string(),
        kind,
        table: name.to_string(),
        hint,
    })
}

/// The contents of a table that a statement reads.
#[derive(Debug, Clone)]
enum Version {
    /// The batches of each partition.
    Batches(Vec<Vec<RecordBatch>>),
    /// The version of a table of the store, and its number of rows.
    Stored(TableId, u64),
}

impl Version {
    /// The current version of the table.
    async fn of(table: &dyn TableProvider) -> Self {
        if let Some(table) = table.downcast_ref::<StoredTable>() {
            let snapshot = table.snapshot();
            return Self::Stored(snapshot.id, snapshot.rows());
        }
        let mut all = Vec::new();
        if let Some(table) = table.downcast_ref::<MemTable>() {
            for partition in &table.batches {
                all.push(partition.read().await.clone());
            }
        }
        Self::Batches(all)
    }

    fn rows(&self) -> u64 {
        match self {
            Self::Batches(partitions) => {
                let batches = partitions.iter().flatten();
                batches.map(|batch| batch.num_rows() as u64).sum()
            }
            Self::Stored(_, rows) => *rows,
        }
    }
}

/// Whether the columns of the batches are the same objects.
fn are_same(current: &[RecordBatch], read: &[RecordBatch]) -> bool {
    let same = |(one, other): (&RecordBatch, &RecordBatch)| {
        let mut columns = one.columns().iter().zip(other.columns());
        one.num_rows() == other.num_rows() && columns.all(|(one, other)| Arc::ptr_eq(one, other))
    };
    current.len() == read.len() && current.iter().zip(read).all(same)
}

/// Replaces the rows of a table in memory, if it still has the version `read`. Returns whether it had.
async fn replace(table: &dyn TableProvider, read: &Version, mut rows: Vec<RecordBatch>) -> Result<bool> {
    match read {
        Version::Stored(read, _) => match table.downcast_ref::<StoredTable>() {
            Some(table) => Ok(table.replace_version(*read, rows).await?),
            None => Ok(false),
        },
        Version::Batches(read) => {
            let Some(table) = table.downcast_ref::<MemTable>() else {
                return Ok(false);
            };
            // All partitions are locked, in one order for all statements.
            let mut partitions = Vec::new();
            for partition in &table.batches {
                partitions.push(partition.write().await);
            }
            if !partitions.iter().zip(read).all(|(now, read)| are_same(now, read)) {
                return Ok(false);
            }
            // The rows may have another order now.
            table.sort_order.lock().clear();
            for partition in &mut partitions {
                **partition = std::mem::take(&mut rows);
            }
            Ok(true)
        }
    }
}

/// A table in memory as the source and the target of a statement.
#[derive(Debug)]
struct Target {
    table: Arc<dyn TableProvider>,
    name: TableReference,
    change: Change,
    /// The version that the statement reads: set by the first scan, taken when the sink is planned.
    read: Mutex<Option<Version>>,
}

impl Target {
    /// Checks that the name still refers to the table.
    async fn check_name(&self, state: &dyn Session) -> Result<()> {
        let catalog = &state.config_options().catalog;
        let name = self.name.clone();
        let name = name.resolve(&catalog.default_catalog, &catalog.default_schema);
        let schema = state.catalog_list().catalog(&name.catalog);
        let schema = schema.and_then(|catalog| catalog.schema(&name.schema));
        let current = match schema {
            Some(schema) => schema.table(&name.table).await?,
            None => None,
        };
        match current {
            Some(current) if Arc::ptr_eq(&current, &self.table) => Ok(()),
            _ => {
                let table = self.name.to_string();
                Err(ChangeError::Replaced { table }.into())
            }
        }
    }
}

#[async_trait]
impl TableProvider for Target {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // The version precedes the scan, so that rows which are added in between are a conflict.
        let current = Version::of(self.table.as_ref()).await;
        self.read.lock().get_or_insert(current);
        self.table.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let read = self.read.lock().take();
        self.check_name(state).await?;
        let sink = Rows {
            table: Arc::clone(&self.table),
            name: self.name.to_string(),
            change: self.change,
            input: input.schema(),
            read,
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Replaces the rows of a table in memory.
#[derive(Debug)]
struct Rows {
    table: Arc<dyn TableProvider>,
    name: String,
    change: Change,
    /// The columns of the input: those of the table, and the condition.
    input: SchemaRef,
    /// The version that the statement reads; TRUNCATE reads none.
    read: Option<Version>,
}

impl DisplayAs for Rows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.change, self.name)
    }
}

#[async_trait]
impl DataSink for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.input
    }

    async fn write_all(&self, mut data: SendableRecordBatchStream, _: &Arc<TaskContext>) -> Result<u64> {
        let schema = self.table.schema();
        let (mut rows, mut count) = (Vec::new(), 0);
        let mut read = self.read.clone();
        if self.change == Change::Truncate {
            let current = Version::of(self.table.as_ref()).await;
            count = current.rows();
            read = Some(current);
        } else {
            while let Some(batch) = data.next().await {
                let (batch, changed) = self.change.remaining(&batch?, &schema, &self.name)?;
                count += changed;
                if batch.num_rows() > 0 {
                    rows.push(batch);
                }
            }
        }
        if count == 0 {
            return Ok(0);
        }
        let replaced = match read {
            Some(read) => replace(self.table.as_ref(), &read, rows).await?,
            None => false,
        };
        match replaced {
            true => Ok(count),
            false => Err(ChangeError::Conflict {
                table: self.name.clone(),
            }
            .into()),
        }
    }
}
