//! A table with a sample of another table's rows.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use galatea_engine::sample::{Sample, SampleExec};

/// A sampled table.
#[derive(Debug)]
pub(super) struct SampledTable {
    table: Arc<dyn TableProvider>,
    sample: Sample,
    /// Generates seeds if the clause gives none.
    random: RandomState,
}

impl SampledTable {
    pub(super) fn new(table: Arc<dyn TableProvider>, sample: Sample) -> Self {
        Self {
            table,
            sample,
            random: RandomState::new(),
        }
    }
}

#[async_trait]
impl TableProvider for SampledTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    /// Filters and limits apply to the sample, so the scan below has none.
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.table.scan(state, projection, &[], None).await?;
        // All scans of a query, and all executions of its plan, use the same seed. The next query uses
        // another one.
        let query = state.execution_props().query_execution_start_time;
        let seed = self.sample.seed.unwrap_or_else(|| self.random.hash_one(query));
        Ok(Arc::new(SampleExec::new(self.sample, seed, input)))
    }
}
