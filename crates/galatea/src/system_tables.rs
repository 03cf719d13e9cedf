//! Contents and activity of the device as tables: `SELECT * FROM galatea_memory()` and `SELECT * FROM
//! galatea_queries()`.
//!
//! They are read when a query over them runs. Without an open device, they have no rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, DurationMillisecondArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{self, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::plan_err;
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use galatea_engine::graph::PipelineId;
use galatea_engine::session::Session;
use galatea_memory::regions::RegionKind;

/// The two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemTable {
    /// One row per column that has, or had, pages in device memory, and per working region of a query.
    Memory,
    /// One row per pipeline that runs on the device or waits for it.
    Queries,
}

impl SystemTable {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "galatea_memory",
            Self::Queries => "galatea_queries",
        }
    }

    fn schema(self) -> SchemaRef {
        let number = |name: &str| Field::new(name, DataType::UInt64, false);
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        Arc::new(Schema::new(match self {
            Self::Memory => vec![
                text("region"),
                text("kind"),
                Field::new("query", DataType::UInt64, true),
                number("bytes"),
                number("device_bytes"),
                number("pages"),
                number("pages_device"),
                number("pages_host"),
                number("pages_both"),
                number("pages_loading"),
                number("uses"),
                number("scans_since"),
            ],
            Self::Queries => vec![
                number("query"),
                text("pipeline"),
                text("work"),
                text("state"),
                number("demand_bytes"),
                Field::new("age", DataType::Duration(TimeUnit::Millisecond), false),
            ],
        }))
    }

    fn rows(self, session: &Session) -> Result<RecordBatch> {
        let devices = session.engine().devices();
        let columns: Vec<ArrayRef> = match self {
            Self::Memory => {
                let regions: Vec<_> = devices.iter().flat_map(|d| d.memory().regions()).collect();
                let numbers = |of: fn(&galatea_memory::regions::RegionInfo) -> u64| -> ArrayRef {
                    Arc::new(UInt64Array::from_iter_values(regions.iter().map(of)))
                };
                vec![
                    Arc::new(StringArray::from_iter_values(regions.iter().map(|r| &r.name))),
                    Arc::new(StringArray::from_iter_values(regions.iter().map(
                        |r| match r.kind {
                            RegionKind::Cached => "column",
                            RegionKind::Working => "working memory",
                        },
                    ))),
                    Arc::new(regions.iter().map(|r| r.owner).collect::<UInt64Array>()),
                    numbers(|r| r.bytes),
                    numbers(|r| r.device_bytes),
                    numbers(|r| r.pages as u64),
                    numbers(|r| r.pages_device as u64),
                    numbers(|r| r.pages_host as u64),
                    numbers(|r| r.pages_both as u64),
                    numbers(|r| r.pages_loading as u64),
                    numbers(|r| r.uses),
                    numbers(|r| r.idle),
                ]
            }
            Self::Queries => {
                let queries: Vec<_> = (devices.iter())
                    .flat_map(|device| device.memory().admission().queries())
                    .collect();
                let age = |age: std::time::Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                vec![
                    Arc::new(UInt64Array::from_iter_values(queries.iter().map(|q| q.number))),
                    Arc::new(StringArray::from_iter_values(
                        queries
                            .iter()
                            .map(|q| PipelineId::new(q.pipeline.number).to_string()),
                    )),
                    Arc::new(StringArray::from_iter_values(
                        queries.iter().map(|q| &q.pipeline.name),
                    )),
                    Arc::new(StringArray::from_iter_values(queries.iter().map(|q| q.state))),
                    Arc::new(UInt64Array::from_iter_values(queries.iter().map(|q| q.demand))),
                    Arc::new(DurationMillisecondArray::from_iter_values(
                        queries.iter().map(|q| age(q.age)),
                    )),
                ]
            }
        };
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}

/// A system table of one session: the function, and the table that it returns.
#[derive(Debug, Clone)]
struct Of {
    table: SystemTable,
    session: Arc<Session>,
}

impl TableFunctionImpl for Of {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("{}() takes no arguments", self.table.name());
        }
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl TableProvider for Of {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn catalog::Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.table.rows(&self.session)?;
        let plan = MemorySourceConfig::try_new_exec(&[vec![rows]], self.schema(), projection.cloned())?;
        Ok(plan)
    }
}

/// Adds the system tables to a session, unless their names are used.
pub(crate) fn register(state: &mut SessionState, session: &Arc<Session>) {
    for table in [SystemTable::Memory, SystemTable::Queries] {
        if !state.table_functions().contains_key(table.name()) {
            let session = Arc::clone(session);
            state.register_udtf(table.name(), Arc::new(Of { table, session }));
        }
    }
}
