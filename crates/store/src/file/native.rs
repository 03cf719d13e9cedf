//! Columns of CSV, JSON, Arrow and Avro files, read by DataFusion.
//!
//! The scan's own source reads the whole files again: one partition per file, and large files split into
//! ordered byte ranges if the format allows. The partitions' rows are concatenated in that order. Sources of
//! CSV and JSON are created anew, so that any column can be read. Other formats provide only the columns that
//! the scan returns unchanged.

use std::sync::Arc;

use datafusion::common::config::CsvOptions;
use datafusion::datasource::physical_plan::{
    CsvSource, FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource,
};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::ExecutionPlan;

use super::load::Load;
use crate::column::Column;
use crate::error::{Result, StoreError};
use crate::ingest::{EncodedChunk, ingest_plan};
use crate::pool::on_pool;
use crate::text::{CsvFiles, JsonFiles};
use crate::version::SourceFile;

/// Number of partitions that large files are split into. It is constant, so that every load of a version has
/// the same chunks.
const PARTITIONS: usize = 16;
/// Minimum bytes of files that are split.
const MIN_BYTES_TO_CUT: usize = 16 << 20;

/// A scan of whole files by DataFusion.
#[derive(Clone)]
pub(super) struct NativeScan {
    config: FileScanConfig,
    /// Reads all columns if it can be created anew, else the columns that the scan produces.
    source: Arc<dyn FileSource>,
    /// The options of the source.
    options: String,
}

impl std::fmt::Debug for NativeScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NativeScan({})", self.describe())
    }
}

impl NativeScan {
    pub(super) fn new(scan: &FileScanConfig) -> Self {
        let source = &scan.file_source;
        let (source, options): (Arc<dyn FileSource>, String) =
            if let Some(csv) = source.downcast_ref::<CsvFiles>() {
                (Arc::new(csv.whole()), csv.describe())
            } else if let Some(json) = source.downcast_ref::<JsonFiles>() {
                (Arc::new(json.whole()), String::new())
            } else if let Some(csv) = source.downcast_ref::<CsvSource>() {
                let options = csv_options(csv);
                let whole = CsvSource::new(csv.table_schema().clone()).with_csv_options(options.clone());
                (Arc::new(whole), format!("{options:?}"))
            } else {
                (Arc::clone(source), String::new())
            };
        Self {
            config: scan.clone(),
            source,
            options,
        }
    }

    /// Distinguishes ways of reading the same files.
    pub(super) fn describe(&self) -> String {
        format!("{:?} {}", self.config.file_compression_type, self.options)
    }

    /// A plan that produces these columns of the table, in partitions in the order of the files.
    fn plan(&self, files: &[SourceFile], table: &str, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
        let source = &self.source;
        let positions = columns.iter().map(|column| match source.projection() {
            None => Some(*column),
            Some(projection) => position(projection, *column),
        });
        let positions =
            positions
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| StoreError::UnsupportedSource {
                    table: table.to_owned(),
                    reason: "its reader computes expressions instead of giving columns".to_owned(),
                })?;
        let produced = match source.projection() {
            Some(projection) => projection.project_schema(source.table_schema().table_schema())?,
            None => source.table_schema().table_schema().as_ref().clone(),
        };
        let projection = ProjectionExprs::from_indices(&positions, &produced);
        let Some(source) = source.try_pushdown_projection(&projection)? else {
            return Err(StoreError::UnsupportedSource {
                table: table.to_owned(),
                reason: "its reader cannot choose columns".to_owned(),
            });
        };
        let mut seen = std::collections::BTreeSet::new();
        let mut groups = Vec::new();
        for file in self.config.file_groups.iter().flat_map(FileGroup::iter) {
            let Some(now) = files
                .iter()
                .find(|now| now.meta.location == file.object_meta.location)
            else {
                continue;
            };
            if seen.insert(&file.object_meta.location) {
                let mut whole = file.clone();
                whole.range = None;
                whole.statistics = None;
                whole.object_meta = now.meta.clone();
                groups.push(FileGroup::new(vec![whole]));
            }
        }
        let config = FileScanConfigBuilder::new(self.config.object_store_url.clone(), source)
            .with_file_groups(groups)
            .with_file_compression_type(self.config.file_compression_type)
            .with_preserve_order(true)
            .build();
        let cut = config.repartitioned(PARTITIONS, MIN_BYTES_TO_CUT, None)?;
        Ok(Arc::new(DataSourceExec::new(
            cut.unwrap_or_else(|| Arc::new(config)),
        )))
    }

    /// Reads columns. Rows are in the order of the files.
    pub(super) async fn load(&self, load: Load<'_>) -> Result<Vec<Arc<Column>>> {
        let Load {
            files,
            version,
            columns,
            ..
        } = load;
        let known = version.chunk_rows.get();
        let encoder = load.encoder(known.map(|rows| rows.iter().map(|rows| u64::from(*rows)).sum()))?;
        let _cancel = encoder.cancellation.on_drop();
        let plan = self.plan(&files.now().await?, &files.name, columns)?;
        let context = context(&files.runtime);
        let chunks = match ingest_plan(&encoder, &plan, &context, true).await {
            Err(error @ StoreError::StoreLimit { needed, .. }) => {
                version.refuse(columns, needed);
                return Err(error);
            }
            chunks => chunks?,
        };
        let chunk_rows: Vec<u32> = chunks.iter().map(|chunk: &EncodedChunk| chunk.rows).collect();
        if version.chunk_rows.get_or_init(|| chunk_rows.clone()) != &chunk_rows {
            return Err(version.other_rows(&files.name));
        }
        on_pool(move || encoder.finish(chunks)).await
    }
}

/// The options with which a CSV source of DataFusion reads.
fn csv_options(source: &CsvSource) -> CsvOptions {
    CsvOptions {
        has_header: Some(source.has_header()),
        delimiter: source.delimiter(),
        quote: source.quote(),
        terminator: source.terminator(),
        escape: source.escape(),
        comment: source.comment(),
        truncated_rows: Some(source.truncate_rows()),
        newlines_in_values: Some(source.newlines_in_values()),
        ..CsvOptions::default()
    }
}

/// The position at which a projection returns a column of the table unchanged.
fn position(projection: &ProjectionExprs, column: usize) -> Option<usize> {
    projection.iter().position(|projected| {
        projected
            .expr
            .downcast_ref::<ColumnExpr>()
            .is_some_and(|projected| projected.index() == column)
    })
}

fn context(runtime: &Arc<RuntimeEnv>) -> Arc<TaskContext> {
    Arc::new(TaskContext::default().with_runtime(Arc::clone(runtime)))
}
