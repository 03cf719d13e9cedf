//! The CPU's scan of a stored table: chunks decoded to record batches.
//!
//! The scan reads one [`Snapshot`]. Chunks are skipped if their zones exclude the pushed-down filters. The
//! rest is split into partitions of consecutive rows of about equal size, so a table of one chunk still uses
//! all cores. Filters are inexact: DataFusion keeps its own filter above.

use std::fmt::Formatter;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, apply_expression_roots,
};

use crate::column::{Column, Scalar};
use crate::decode::Decoder;
use crate::error::StoreError;
use crate::prune::{ZoneStatistics, prune_with, scalar_value};
use crate::source::ColumnSource;
use crate::table::Snapshot;

/// Minimum rows of a partition: fewer are not worth a task.
const MIN_PARTITION_ROWS: usize = 1 << 15;

/// Consecutive rows of a chunk.
type Rows = (usize, Range<usize>);

/// Decodes a snapshot of a stored table.
#[derive(Debug, Clone)]
pub struct StoreScanExec {
    snapshot: Arc<Snapshot>,
    projection: Arc<[usize]>,
    filters: Arc<[Arc<dyn PhysicalExpr>]>,
    limit: Option<usize>,
    chunks_kept: usize,
    partitions: Vec<Vec<Rows>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl StoreScanExec {
    /// Scans the columns `projection` (all if `None`) with up to `partitions` partitions. `filters` are over
    /// the table's whole schema, and only select chunks.
    ///
    /// # Errors
    /// The projection has a column that the table does not have.
    pub fn try_new(
        snapshot: Arc<Snapshot>,
        projection: Option<&[usize]>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        partitions: usize,
    ) -> Result<Self> {
        let table_schema = ColumnSource::schema(snapshot.as_ref());
        let all: Vec<usize> = (0..table_schema.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        let schema = Arc::new(table_schema.project(projection)?);
        let keep = prune_with(
            &table_schema,
            &ZoneStatistics {
                chunk_rows: &snapshot.chunk_rows,
                columns: &snapshot.columns,
            },
            &filters,
        );
        let chunks = snapshot.chunk_rows.iter().map(|rows| *rows as usize).enumerate();
        let rows: Vec<Rows> = chunks
            .zip(&keep)
            .filter(|(_, keep)| **keep)
            .map(|((chunk, rows), _)| (chunk, 0..rows))
            .collect();
        let rows = if let (Some(limit), true) = (limit, filters.is_empty()) {
            first_rows(rows, limit)
        } else {
            rows
        };
        let chunks_kept = keep.iter().filter(|keep| **keep).count();
        let partitions = split(&rows, partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            snapshot,
            projection: projection.into(),
            filters: filters.into(),
            limit,
            chunks_kept,
            partitions,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The table version that is scanned, as a source of encoded columns.
    pub fn source(&self) -> Arc<dyn ColumnSource> {
        Arc::clone(&self.snapshot) as Arc<dyn ColumnSource>
    }

    /// The table version that is scanned.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Indices into the table's schema of the columns produced.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The pushed-down filters, over the table's whole schema. The scan skips chunks by them and does not
    /// apply them to rows.
    pub fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// The limit: the scan may end after this number of rows.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    fn with_partitions(&self, partitions: usize) -> Result<Self> {
        Self::try_new(
            Arc::clone(&self.snapshot),
            Some(&self.projection),
            self.filters.to_vec(),
            self.limit,
            partitions,
        )
    }

    /// Statistics over some partitions. The bounds are of the whole table, and exact only if all of it is
    /// read.
    fn statistics(&self, partitions: &[Vec<Rows>]) -> Statistics {
        let rows: usize = partitions.iter().flatten().map(|(_, rows)| rows.len()).sum();
        let all = rows as u64 == self.snapshot.rows();
        let columns = self.projection.iter().map(|index| {
            let statistics = column_statistics(&self.snapshot.columns[*index]);
            if all { statistics } else { statistics.to_inexact() }
        });
        let column_statistics: Vec<ColumnStatistics> = columns.collect();
        Statistics {
            num_rows: Precision::Exact(rows),
            total_byte_size: Precision::Absent,
            column_statistics,
        }
        .calculate_total_byte_size_of(&self.schema())
    }
}

trait TotalByteSize {
    fn calculate_total_byte_size_of(self, schema: &SchemaRef) -> Self;
}

impl TotalByteSize for Statistics {
    fn calculate_total_byte_size_of(mut self, schema: &SchemaRef) -> Self {
        self.calculate_total_byte_size(schema);
        self
    }
}

/// The statistics of a whole column, from its zones.
pub(crate) fn column_statistics(column: &Column) -> ColumnStatistics {
    let bound = |side: fn(&crate::column::ScalarRange) -> &Scalar| {
        let Some(range) = &column.range else {
            return Precision::Absent;
        };
        let Some(value) = scalar_value(column, side(range)) else {
            return Precision::Absent;
        };
        // In SQL, NaN is above all numbers and both zeros are equal, so float bounds are for estimates only.
        match side(range) {
            Scalar::Float(_) => Precision::Inexact(value),
            _ if range.exact => Precision::Exact(value),
            _ => Precision::Inexact(value),
        }
    };
    let distinct_count = column.dictionary();
    let distinct_count = distinct_count.map_or(Precision::Absent, |values| Precision::Inexact(values.len()));
    ColumnStatistics {
        null_count: Precision::Exact(column.null_count as usize),
        min_value: bound(|range| &range.min),
        max_value: bound(|range| &range.max),
        sum_value: Precision::Absent,
        distinct_count,
        byte_size: Precision::Absent,
    }
}

/// The first `limit` of these rows.
fn first_rows(rows: Vec<Rows>, mut limit: usize) -> Vec<Rows> {
    let cut = rows.into_iter().map(|(chunk, rows)| {
        let taken = rows.len().min(limit);
        limit -= taken;
        (chunk, rows.start..rows.start + taken)
    });
    cut.filter(|(_, rows)| !rows.is_empty()).collect()
}

/// Splits rows into at most `partitions` runs of about equal length, and at least one, which may be empty.
fn split(rows: &[Rows], partitions: usize) -> Vec<Vec<Rows>> {
    let total: usize = rows.iter().map(|(_, rows)| rows.len()).sum();
    let target = total.div_ceil(partitions.max(1)).max(MIN_PARTITION_ROWS);
    let mut split = vec![Vec::new()];
    let mut room = target;
    for (chunk, rows) in rows {
        let mut start = rows.start;
        while start < rows.end {
            if room == 0 {
                split.push(Vec::new());
                room = target;
            }
            let end = rows.end.min(start + room);
            room -= end - start;
            if let Some(last) = split.last_mut() {
                last.push((*chunk, start..end));
            }
            start = end;
        }
    }
    split
}

/// Decodes one partition, batch by batch.
struct Reader {
    schema: SchemaRef,
    decoders: Vec<Decoder>,
    rows: std::vec::IntoIter<Rows>,
    current: Option<Rows>,
    batch_rows: usize,
    metrics: BaselineMetrics,
}

impl Reader {
    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let (chunk, rows) = self
            .current
            .take()
            .filter(|(_, rows)| !rows.is_empty())
            .or_else(|| self.rows.next())?;
        let _timer = self.metrics.elapsed_compute().timer();
        let wanted = rows.len().min(self.batch_rows);
        let fitting = self
            .decoders
            .iter()
            .map(|decoder| decoder.batch_rows(chunk, rows.start, wanted))
            .min();
        let end = rows.start + fitting.unwrap_or(wanted);
        self.current = Some((chunk, end..rows.end));
        Some(self.decode(chunk, rows.start..end))
    }

    fn decode(&self, chunk: usize, rows: Range<usize>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let arrays = self
            .decoders
            .iter()
            .map(|decoder| decoder.decode(chunk, rows.clone()));
        let arrays = arrays.collect::<Result<Vec<_>, StoreError>>()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        self.metrics.output_rows().add(batch.num_rows());
        Ok(batch)
    }
}

impl DisplayAs for StoreScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> std::fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let chunks = self.snapshot.chunk_rows.len();
        match format {
            DisplayFormatType::TreeRender => {
                writeln!(f, "table={}", self.snapshot.name())?;
                write!(f, "chunks={}/{chunks}", self.chunks_kept)
            }
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "StoreScanExec: table={}, projection=[{}]",
                    self.snapshot.name(),
                    names.join(", ")
                )?;
                write!(
                    f,
                    ", chunks={}/{chunks}, partitions={}",
                    self.chunks_kept,
                    self.partitions.len()
                )?;
                if !self.filters.is_empty() {
                    let filters: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
                    write!(f, ", zones=[{}]", filters.join(", "))?;
                }
                self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
            }
        }
    }
}

impl ExecutionPlan for StoreScanExec {
    fn name(&self) -> &'static str {
        "StoreScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::no_children!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.filters.iter(), f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        _config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let changed = self.with_partitions(target_partitions)?;
        let better = changed.partitions.len() != self.partitions.len();
        Ok(better.then(|| Arc::new(changed) as Arc<dyn ExecutionPlan>))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(rows) = self.partitions.get(partition) else {
            return internal_err!(
                "StoreScanExec has no partition {partition} of {}",
                self.partitions.len()
            );
        };
        let columns = self
            .projection
            .iter()
            .map(|index| Decoder::new(&self.snapshot.columns[*index]));
        let mut reader = Reader {
            schema: self.schema(),
            decoders: columns.collect::<Result<Vec<_>, StoreError>>()?,
            rows: rows.clone().into_iter(),
            current: None,
            batch_rows: context.session_config().batch_size(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::iter(std::iter::from_fn(move || reader.next()));
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        ))))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            metrics: ExecutionPlanMetricsSet::new(),
            ..Self::clone(&self)
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_statistics: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let Some(partition) = args.partition() else {
            return Ok(Arc::new(self.statistics(&self.partitions)));
        };
        match self.partitions.get(partition) {
            Some(rows) => Ok(Arc::new(self.statistics(std::slice::from_ref(rows)))),
            None => internal_err!(
                "StoreScanExec has no partition {partition} of {}",
                self.partitions.len()
            ),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let limited = Self::try_new(
            Arc::clone(&self.snapshot),
            Some(&self.projection),
            self.filters.to_vec(),
            limit,
            self.partitions.len(),
        );
        // A filter above may drop rows, so the first rows are not enough.
        limited
            .ok()
            .filter(|_| self.filters.is_empty())
            .map(|plan| Arc::new(plan) as Arc<dyn ExecutionPlan>)
    }

    fn fetch(&self) -> Option<usize> {
        self.limit.filter(|_| self.filters.is_empty())
    }
}
