//! A statement: a query or an ingestion, with its bound batches.

use std::str::FromStr;
use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, Statement};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use galatea::schema_without_views;

use crate::failure::{of_statement, unsupported, wrong_state};
use crate::ingest::{Target, ingest};
use crate::operation::Operation;
use crate::option::{self, Preferences};
use crate::parameters::Bound;
use crate::planning::{self, Parameters};
use crate::reader::{Query, count_batch};
use crate::running::Running;
use crate::shared::Shared;

/// Options of an ingestion.
#[derive(Debug, Default, Clone)]
struct Ingestion {
    catalog: Option<String>,
    schema: Option<String>,
    table: Option<String>,
    mode: Option<IngestMode>,
}

/// A statement of a connection. Several may run at once.
pub struct GalateaStatement {
    ctx: SessionContext,
    running: Running,
    preferences: Preferences,
    query: Option<Arc<str>>,
    /// Those of a prepared query.
    parameters: Option<Parameters>,
    ingestion: Ingestion,
    bound: Option<Bound>,
    // Its threads end after the session.
    shared: Arc<Shared>,
}

impl std::fmt::Debug for GalateaStatement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GalateaStatement")
            .field("query", &self.query)
            .field("ingestion", &self.ingestion)
            .finish_non_exhaustive()
    }
}

/// The work of a statement.
enum Work {
    Query(Query),
    Ingestion(Target, Bound),
}

impl GalateaStatement {
    pub(crate) fn new(
        shared: Arc<Shared>,
        ctx: SessionContext,
        running: Running,
        preferences: Preferences,
    ) -> Self {
        Self {
            ctx,
            running,
            preferences,
            query: None,
            parameters: None,
            ingestion: Ingestion::default(),
            bound: None,
            shared,
        }
    }

    fn begin(&self) -> Arc<Operation> {
        self.running.begin(&self.shared.threads, self.preferences.timeout)
    }

    fn query(&self) -> Result<&Arc<str>> {
        self.query
            .as_ref()
            .ok_or_else(|| wrong_state("the statement has no query\nhint: set one with StatementSetSqlQuery"))
    }

    /// The work to execute. It takes the bound batches.
    fn work(&mut self) -> Result<Work> {
        let Some(table) = &self.ingestion.table else {
            let text = Arc::clone(self.query()?);
            return Ok(Work::Query(Query {
                ctx: self.ctx.clone(),
                text,
                bound: self.bound.take(),
                views: self.preferences.string_views,
            }));
        };
        let catalog = self.ctx.copied_config().options().catalog.clone();
        let target = Target {
            table: TableReference::full(
                self.ingestion.catalog.clone().unwrap_or(catalog.default_catalog),
                self.ingestion.schema.clone().unwrap_or(catalog.default_schema),
                table.clone(),
            ),
            mode: self.ingestion.mode.unwrap_or(IngestMode::Create),
        };
        let bound = self.bound.take().ok_or_else(|| {
            wrong_state("an ingestion has no rows\nhint: bind a batch or a stream before it is executed")
        })?;
        Ok(Work::Ingestion(target, bound))
    }

    fn set_ingestion(&mut self, key: &OptionStatement, value: &OptionValue) -> Result<()> {
        let text = option::text(key.as_ref(), value)?;
        // An empty name is that of the current catalog or schema.
        let name = (!text.is_empty()).then(|| text.clone());
        match key {
            OptionStatement::TargetTable => {
                self.ingestion.table = Some(text);
                self.query = None;
                self.parameters = None;
            }
            OptionStatement::TargetCatalog => self.ingestion.catalog = name,
            OptionStatement::TargetDbSchema => self.ingestion.schema = name,
            OptionStatement::IngestMode => self.ingestion.mode = Some(IngestMode::from_str(&text)?),
            _ => return Err(option::unknown("statement", key.as_ref())),
        }
        Ok(())
    }
}

impl Statement for GalateaStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bind_stream(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Box<dyn RecordBatchReader + Send + 'static>> {
        let work = self.work()?;
        let operation = self.begin();
        match work {
            Work::Query(query) => Ok(Box::new(query.start(operation)?)),
            Work::Ingestion(target, bound) => {
                let rows = operation.run(ingest(self.ctx.clone(), target, bound))?;
                let batch = count_batch(rows)?;
                let schema = batch.schema();
                Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
            }
        }
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        let work = self.work()?;
        let operation = self.begin();
        let changed = match work {
            Work::Query(query) => operation.run(query.run())?,
            Work::Ingestion(target, bound) => Some(operation.run(ingest(self.ctx.clone(), target, bound))?),
        };
        Ok(changed.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX)))
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let text = Arc::clone(self.query()?);
        let ctx = self.ctx.clone();
        let schema = self.begin().run(async move {
            match planning::columns(&ctx, &text).await {
                Ok(schema) => Ok(schema),
                Err(error) => Err(of_statement(&ctx, &text, error).await),
            }
        })?;
        Ok(match self.preferences.string_views {
            true => Schema::clone(&schema),
            false => Schema::clone(&schema_without_views(&schema)),
        })
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(unsupported(
            "results have no partitions: the engine runs in this process\nhint: use StatementExecuteQuery",
        ))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let parameters = self.parameters.as_ref().ok_or_else(|| {
            wrong_state("the parameters of the statement are not known\nhint: prepare it first")
        })?;
        let fields = parameters.iter().map(|(name, data_type)| {
            let data_type = data_type.clone().unwrap_or(DataType::Null);
            Field::new(name, data_type, true)
        });
        Ok(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn prepare(&mut self) -> Result<()> {
        let text = Arc::clone(self.query()?);
        let ctx = self.ctx.clone();
        let parameters = self.begin().run(async move {
            match planning::parameters(&ctx, &text).await {
                Ok(parameters) => Ok(parameters),
                Err(error) => Err(of_statement(&ctx, &text, error).await),
            }
        })?;
        self.parameters = Some(parameters);
        Ok(())
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.query = Some(Arc::from(query.as_ref()));
        self.parameters = None;
        self.ingestion = Ingestion::default();
        self.bound = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _plan: impl AsRef<[u8]>) -> Result<()> {
        Err(unsupported("Substrait plans are not supported\nhint: use SQL"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.running.clone())
    }
}

impl Optionable for GalateaStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref();
        if self.preferences.set(name, &value)? {
            return Ok(());
        }
        match key {
            OptionStatement::Temporary => match option::truth(name, &value)? {
                false => Ok(()),
                true => Err(unsupported(format!(
                    "temporary tables are not supported ({name})\nhint: a database in memory, with an empty uri, \
                     has tables that end with it"
                ))),
            },
            OptionStatement::Incremental => match option::truth(name, &value)? {
                false => Ok(()),
                true => Err(unsupported(format!(
                    "results have no partitions, so {name} cannot be true"
                ))),
            },
            key => self.set_ingestion(&key, &value),
        }
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        let name = key.as_ref();
        let value = match &key {
            OptionStatement::TargetTable => self.ingestion.table.clone(),
            OptionStatement::TargetCatalog => self.ingestion.catalog.clone(),
            OptionStatement::TargetDbSchema => self.ingestion.schema.clone(),
            OptionStatement::IngestMode => self.ingestion.mode.map(String::from),
            OptionStatement::Temporary | OptionStatement::Incremental => Some("false".to_owned()),
            _ => self.preferences.get(name),
        };
        value.ok_or_else(|| option::no_value("statement", name))
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }
}
