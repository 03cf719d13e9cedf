//! The plan node that draws rows.
//!
//! It reads the partitions of its input one after the other, so that the number of a row is its position in
//! the table, for any partitioning. For a fixed number of rows, those with the lowest words are kept.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::draw::{BLOCK, Draw, Lots, Sample, bound};

/// Maximum rows of a table for computing all words while planning: a second of one core.
const COUNTED: usize = 1 << 28;

/// Rows that are kept beyond the requested ones before the surplus is dropped.
const SLACK: usize = 8192;

/// Draws rows of its input; has one partition.
#[derive(Debug)]
pub struct SampleExec {
    sample: Sample,
    seed: u64,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// See [`Self::bound`]: the words of all rows are computed once, also if the plan is analysed several
    /// times.
    bound: OnceLock<Option<u128>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SampleExec {
    /// Draws a sample of the rows of `input`, which are those of a table in their order.
    pub fn new(sample: Sample, seed: u64, input: Arc<dyn ExecutionPlan>) -> Self {
        let emission = match sample.draw {
            Draw::Rows(_) => EmissionType::Final,
            Draw::Each(_) | Draw::Blocks(_) => EmissionType::Incremental,
        };
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            emission,
            input.boundedness(),
        ));
        Self {
            sample,
            seed,
            input,
            properties,
            bound: OnceLock::new(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The plan that returns the rows to draw from.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The lowest word of the rows, or blocks of rows, that are not drawn; 2^64 if all are drawn, and `None`
    /// if the number of rows is not known.
    pub(crate) fn bound(&self) -> Option<u128> {
        *self.bound.get_or_init(|| self.least_undrawn())
    }

    fn least_undrawn(&self) -> Option<u128> {
        let wanted = match self.sample.draw {
            Draw::Each(share) | Draw::Blocks(share) => return Some(bound(share)),
            Draw::Rows(wanted) => wanted,
        };
        let statistics = StatisticsContext::new().compute(self.input.as_ref(), &StatisticsArgs::new());
        match statistics.ok()?.num_rows {
            Precision::Exact(rows) if rows <= COUNTED => {
                Some(Lots::new(self.seed).bound_of(wanted, rows as u64))
            }
            _ => None,
        }
    }

    /// The number of rows that share a word, as a power of two, and the state of the words.
    pub(crate) fn words(&self) -> (u32, u64) {
        let shift = match self.sample.draw {
            Draw::Blocks(_) => BLOCK.trailing_zeros(),
            Draw::Each(_) | Draw::Rows(_) => 0,
        };
        (shift, Lots::new(self.seed).state())
    }

    /// The rows of all partitions, in order.
    fn rows(&self, context: &Arc<TaskContext>) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let (input, context) = (Arc::clone(&self.input), Arc::clone(context));
        let partitions = input.output_partitioning().partition_count();
        let partitions = stream::iter(0..partitions);
        partitions
            .map(move |partition| input.execute(partition, Arc::clone(&context)))
            .try_flatten()
    }
}

impl DisplayAs for SampleExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SampleExec: {}", self.sample)
    }
}

impl ExecutionPlan for SampleExec {
    fn name(&self) -> &str {
        "SampleExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// More partitions would also be read one after the other.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    galatea_store::one_child!(self.input, |input| Arc::new(Self::new(
        self.sample,
        self.seed,
        input
    )));
    galatea_store::no_expressions!();

    /// The statistics of all partitions of the input, with the expected number of rows.
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let Some(input) = inputs.first() else {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema())));
        };
        let rows = input.num_rows.get_value().map(|rows| match self.sample.draw {
            Draw::Each(share) | Draw::Blocks(share) => (*rows as f64 * share) as usize,
            Draw::Rows(wanted) => usize::try_from(wanted).unwrap_or(usize::MAX).min(*rows),
        });
        let mut statistics = input.as_ref().clone().to_inexact();
        statistics.num_rows = rows.map_or(Precision::Absent, Precision::Inexact);
        statistics.total_byte_size = Precision::Absent;
        Ok(Arc::new(statistics))
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let lots = Lots::new(self.seed);
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(0);
        let rows = self.rows(&context);
        let batches = match self.sample.draw {
            Draw::Each(share) => drawn(rows, move |row| lots.wins(row, share)).boxed(),
            Draw::Blocks(share) => drawn(rows, move |row| lots.wins(row / BLOCK, share)).boxed(),
            Draw::Rows(wanted) => {
                let memory = MemoryConsumer::new("TABLESAMPLE").register(context.memory_pool());
                let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
                let batches = async move {
                    let batches = least(rows, lots, wanted, &memory).await?;
                    // The memory stays reserved until all of them have been returned.
                    let given = move |batch| {
                        let _ = &memory;
                        Ok(batch)
                    };
                    Ok::<_, datafusion::error::DataFusionError>(stream::iter(batches).map(given))
                };
                stream::once(batches).try_flatten().boxed()
            }
        };
        let counted = batches.inspect_ok(move |batch: &RecordBatch| output_rows.add(batch.num_rows()));
        let adapter = RecordBatchStreamAdapter::new(self.schema(), counted);
        Ok(Box::pin(adapter))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows with words below the bound.
fn drawn(
    rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    wins: impl Fn(u64) -> bool + Send + 'static,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let mut first = 0;
    rows.map(move |batch| {
        let batch = batch?;
        let numbers = first..first + batch.num_rows() as u64;
        first = numbers.end;
        let mask: BooleanArray = numbers.map(|row| Some(wins(row))).collect();
        Ok(filter_record_batch(&batch, &mask)?)
    })
    .try_filter(|batch| std::future::ready(batch.num_rows() > 0))
}

/// Kept rows, and their words.
#[derive(Debug)]
struct Kept {
    rows: RecordBatch,
    lots: Vec<u64>,
}

impl Kept {
    /// The rows with words that are not above a bound.
    fn below(&self, bound: u64) -> Result<Self> {
        let mask: BooleanArray = self.lots.iter().map(|lot| Some(*lot <= bound)).collect();
        let lots = self.lots.iter().copied().filter(|lot| *lot <= bound);
        Ok(Self {
            rows: filter_record_batch(&self.rows, &mask)?,
            lots: lots.collect(),
        })
    }
}

/// The `wanted` rows with the lowest words, in the order of the table.
async fn least(
    rows: impl Stream<Item = Result<RecordBatch>> + Send,
    lots: Lots,
    wanted: usize,
    memory: &MemoryReservation,
) -> Result<Vec<RecordBatch>> {
    let mut rows = std::pin::pin!(rows);
    let (mut kept, mut count): (Vec<Kept>, usize) = (Vec::new(), 0);
    let (mut first, mut bound) = (0_u64, u64::MAX);
    while wanted > 0
        && let Some(batch) = rows.next().await
    {
        let batch = batch?;
        let numbers = first..first + batch.num_rows() as u64;
        first = numbers.end;
        let all = Kept {
            rows: batch,
            lots: numbers.map(|row| lots.of(row)).collect(),
        };
        let found = all.below(bound)?;
        if found.lots.is_empty() {
            continue;
        }
        memory.try_grow(get_record_batch_memory_size(&found.rows))?;
        count += found.lots.len();
        kept.push(found);
        if count > wanted.saturating_mul(2).saturating_add(SLACK) {
            bound = cut(&mut kept, wanted)?;
            count = wanted;
            memory.try_resize(
                kept.iter()
                    .map(|kept| get_record_batch_memory_size(&kept.rows))
                    .sum(),
            )?;
        }
    }
    if count > wanted {
        cut(&mut kept, wanted)?;
    }
    Ok(kept.into_iter().map(|kept| kept.rows).collect())
}

/// Drops all but the `wanted` rows with the lowest words, where more are kept; returns the greatest of these
/// words.
fn cut(kept: &mut Vec<Kept>, wanted: usize) -> Result<u64> {
    let mut lots: Vec<u64> = kept.iter().flat_map(|kept| kept.lots.iter().copied()).collect();
    let (_, bound, _) = lots.select_nth_unstable(wanted - 1);
    let bound = *bound;
    for some in kept.iter_mut() {
        *some = some.below(bound)?;
    }
    kept.retain(|kept| !kept.lots.is_empty());
    Ok(bound)
}
