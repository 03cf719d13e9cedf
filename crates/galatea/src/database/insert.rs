//! INSERT into tables of a database.
//!
//! The rows become one new file. When it is complete, a new catalog names it. A table with many small files
//! has their rows copied to the new file, so single rows do not become files for ever.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraints, SchemaExt};
use datafusion::datasource::TableType;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use super::change::current;
use super::error::DatabaseError;
use super::files::{self, TableWriter};
use super::{Database, MANY_FILES, Name};
use crate::changes::in_table;

/// Rows of a file that is not merged again.
const LARGE: u64 = 1 << 20;

/// A table of a database as the target of INSERT; reads go to the table of its files.
#[derive(Debug)]
pub(super) struct InsertTarget {
    pub(super) database: Arc<Database>,
    pub(super) name: Name,
    pub(super) files: Arc<dyn TableProvider>,
}

#[async_trait]
impl TableProvider for InsertTarget {
    fn schema(&self) -> SchemaRef {
        self.files.schema()
    }

    fn table_type(&self) -> TableType {
        self.files.table_type()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.files.constraints()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.files.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.files.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.schema();
        schema.logically_equivalent_names_and_types(&input.schema())?;
        let sink = Rows {
            database: Arc::clone(&self.database),
            name: self.name.clone(),
            replaces: match insert_op {
                InsertOp::Append => false,
                InsertOp::Overwrite | InsertOp::Replace => true,
            },
            columns: schema,
            schema: input.schema(),
        };
        if insert_op == InsertOp::Replace {
            return Err(DatabaseError::Schema("INSERT OR REPLACE is not supported".to_owned()).into());
        }
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Writes rows to a table.
#[derive(Debug)]
struct Rows {
    database: Arc<Database>,
    name: Name,
    /// The columns of the table.
    columns: SchemaRef,
    /// The columns of the input, which may all be nullable.
    schema: SchemaRef,
    replaces: bool,
}

impl DisplayAs for Rows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseTable({}.{})", self.name.0, self.name.1)
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
        let mut rows = 0;
        while let Some(batch) = data.next().await {
            let batch = batch?;
            let added = batch.num_rows();
            let batch = in_table("INSERT", batch.columns(), added, &self.columns, &self.name.1)?;
            rows += added as u64;
            writer.write(&batch)?;
        }
        // Other statements that change the database wait from here on.
        let _turn = self.database.writer.lock().await;
        let entry = current(&self.database, &self.name, &self.columns)?;
        let mut kept = entry.files.clone();
        if self.replaces {
            kept.clear();
        } else if rows == 0 {
            return Ok(0);
        } else if kept.len() >= MANY_FILES {
            for small in kept.extract_if(.., |file| file.rows < LARGE) {
                for batch in files::rows(&self.name.1, &files::path(folder, small.number))? {
                    writer.write(&batch?)?;
                }
            }
        }
        // An empty file has the schema of the table.
        kept.retain(|file| file.rows > 0);
        kept.push(writer.finish()?);
        self.database.replace_files(&self.name, &entry, kept)?;
        Ok(rows)
    }
}
