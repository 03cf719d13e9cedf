//! DELETE, UPDATE and TRUNCATE of tables of a database.
//!
//! The remaining rows become one new file. When it is complete, a new catalog names it in place of the former
//! files. If another statement has changed the table in between, this one fails and changes nothing.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use parking_lot::Mutex;

use super::catalog_file::{StoredEntry, TableEntry};
use super::files::TableWriter;
use super::{Database, Name};
use crate::changes::{Change, ChangeError, check_input, replacing};

/// The statement as a plan that replaces the files of a table. `resolve` returns the table of a name.
pub(super) fn of_database(
    database: &Arc<Database>,
    name: Name,
    change: Change,
    statement: &DmlStatement,
    resolve: impl Fn(&TableReference) -> Option<Name>,
) -> Result<LogicalPlan> {
    check_input(change, &statement.input)?;
    let own = name.clone();
    let target = Target {
        database: Arc::clone(database),
        name,
        schema: statement.target.schema(),
        change,
        read: Mutex::default(),
    };
    let target = provider_as_source(Arc::new(target));
    replacing(change, statement, &target, |_, scanned| {
        resolve(scanned).as_ref() == Some(&own)
    })
}

/// A table of a database as the source and the target of a statement.
#[derive(Debug)]
struct Target {
    database: Arc<Database>,
    name: Name,
    schema: SchemaRef,
    change: Change,
    /// The files that the statement reads: set by the first scan, taken when the sink is planned.
    read: Mutex<Option<StoredEntry>>,
}

/// The current files of a table, if it still has these columns.
///
/// # Errors
/// [`ChangeError::Replaced`].
pub(super) fn current(database: &Database, name: &Name, schema: &SchemaRef) -> Result<StoredEntry> {
    if let Some(TableEntry::Table(entry)) = database.entry(name) {
        let found = database.schema(&name.1, &entry)?;
        if found.fields() == schema.fields() {
            return Ok(entry);
        }
    }
    let table = name.1.clone();
    Err(ChangeError::Replaced { table }.into())
}

#[async_trait]
impl TableProvider for Target {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
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
        let current = current(&self.database, &self.name, &self.schema)?;
        let read = self.read.lock().get_or_insert(current).clone();
        let (session, _) = self.database.session()?;
        let files = self.database.listing(&self.name.1, &read, &session)?;
        files.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let read = self.read.lock().take();
        current(&self.database, &self.name, &self.schema)?;
        let sink = Rows {
            database: Arc::clone(&self.database),
            name: self.name.clone(),
            read,
            columns: self.schema(),
            schema: input.schema(),
            change: self.change,
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Replaces the files of a table.
#[derive(Debug)]
struct Rows {
    database: Arc<Database>,
    name: Name,
    /// The files that the statement reads; TRUNCATE reads none.
    read: Option<StoredEntry>,
    /// The columns of the table.
    columns: SchemaRef,
    /// The columns of the input: those of the table, and the condition.
    schema: SchemaRef,
    change: Change,
}

impl DisplayAs for Rows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}.{}", self.change, self.name.0, self.name.1)
    }
}

#[async_trait]
impl DataSink for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, mut data: SendableRecordBatchStream, _: &Arc<TaskContext>) -> Result<u64> {
        let folder = &self.database.folder;
        let mut writer = TableWriter::new(folder, self.database.next_file(), &self.name.1, &self.columns);
        let mut count = 0;
        while let Some(batch) = data.next().await {
            let (rows, changed) = self.change.remaining(&batch?, &self.columns, &self.name.1)?;
            writer.write(&rows)?;
            count += changed;
        }
        if count == 0 && self.change != Change::Truncate {
            return Ok(0);
        }
        // Other statements that change the database wait from here on.
        let _turn = self.database.writer.lock().await;
        let current = current(&self.database, &self.name, &self.columns)?;
        if self.change == Change::Truncate {
            count = current.files.iter().map(|file| file.rows).sum();
        } else if self.read.as_ref() != Some(&current) {
            let table = self.name.1.clone();
            return Err(ChangeError::Conflict { table }.into());
        }
        if count > 0 {
            let file = writer.finish()?;
            self.database.replace_files(&self.name, &current, vec![file])?;
        }
        Ok(count)
    }
}
