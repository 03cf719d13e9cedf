//! Rows of a file in the order of some of its columns.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Column;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::source::Source;

/// Batches that are read ahead.
const AHEAD: usize = 2;

/// A range of a source's rows.
#[derive(Debug)]
struct Part {
    source: Source,
    rows: Range<usize>,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        self.source.schema()
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(self.source.schema()), AHEAD);
        let (sender, source, rows) = (builder.tx(), self.source.clone(), self.rows.clone());
        builder.spawn_blocking(move || {
            let external = |error| DataFusionError::External(Box::new(error));
            for batch in source.read(rows).map_err(external)? {
                if sender.blocking_send(batch.map_err(external)).is_err() {
                    // The sort has ended.
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

/// Sorts the rows of a source by columns, ascending with NULLs last. The sort uses the memory and the
/// temporary files of `runtime`.
pub(super) async fn sorted(
    source: &Source,
    columns: &[String],
    threads: usize,
    runtime: &Arc<RuntimeEnv>,
) -> Result<SendableRecordBatchStream> {
    let rows = source.rows();
    let step = rows.div_ceil(threads).max(1);
    let parts = (0..rows.max(1)).step_by(step).map(|begin| {
        let rows = begin..(begin + step).min(rows);
        let source = source.clone();
        Arc::new(Part { source, rows }) as Arc<dyn PartitionStream>
    });
    let table = StreamingTable::try_new(Arc::clone(source.schema()), parts.collect())?;
    let config = SessionConfig::new().with_target_partitions(threads);
    let ctx = SessionContext::new_with_config_rt(config, Arc::clone(runtime));
    let keys = columns
        .iter()
        .map(|name| Expr::Column(Column::from_name(name)).sort(true, false));
    ctx.read_table(Arc::new(table))?
        .sort(keys.collect())?
        .execute_stream()
        .await
}
