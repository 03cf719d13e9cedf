//! The join of one partition: in memory, or bucket by bucket.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatchOptions;
use datafusion::common::{JoinType, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::{ExecutionPlan, SpillManager};
use futures::StreamExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc::Sender;

use super::SpillPolicy;
use super::buckets::{Bucket, Buckets, Side};
use super::collect::{Collected, Held, Rest, TableSize, collect};
use super::lent::lending;
use super::source::{InputExec, held_rows, partitions};

/// The channel for batches of the join.
pub(super) type Output = Sender<Result<RecordBatch>>;

/// A hash join that spills, for one partition of its probe side.
pub(super) struct GraceJoin {
    pub(super) join: Arc<HashJoinExec>,
    pub(super) context: Arc<TaskContext>,
    pub(super) build: Side,
    pub(super) probe: Side,
    pub(super) table: TableSize,
    partition: usize,
    least: usize,
}

/// A build side in memory that joins may read, one after another.
pub(super) struct Lent {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) context: Arc<TaskContext>,
}

/// The join of a build side in memory: a hash join of that kind, with the output columns of the whole join or
/// all of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) join_type: JoinType,
    pub(super) projected: bool,
}

impl Kind {
    /// A join with the output columns of the whole join.
    pub(super) fn whole(join_type: JoinType) -> Self {
        Self {
            join_type,
            projected: true,
        }
    }
}

impl GraceJoin {
    pub(super) fn new(
        join: &Arc<HashJoinExec>,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Self {
        let spilled = SpillMetrics::new(metrics, partition);
        let compression = context.session_config().spill_compression();
        let side = |plan: &Arc<dyn ExecutionPlan>, keys| Side {
            keys,
            files: SpillManager::new(context.runtime_env(), spilled.clone(), plan.schema())
                .with_compression_type(compression),
        };
        let (left, right) = join.on().iter().cloned().unzip();
        Self {
            build: side(join.left(), left),
            probe: side(join.right(), right),
            table: TableSize::of(join, context.session_config().options()),
            least: least_bytes(context, partitions(join.right())),
            join: Arc::clone(join),
            context: Arc::clone(context),
            partition,
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.join.schema()
    }

    /// Reads the part of a build side that fits into memory.
    pub(super) async fn collect(&self, build: SendableRecordBatchStream) -> Result<Collected> {
        let consumer = MemoryConsumer::new(format!("SpillingJoin[{}]", self.partition));
        let reservation = consumer.with_can_spill(true).register(self.context.memory_pool());
        collect(build, reservation, self.table, self.least).await
    }

    /// Joins a partition of both sides, in memory if its build side fits.
    pub(super) async fn run(
        self: Arc<Self>,
        build: SendableRecordBatchStream,
        probe: SendableRecordBatchStream,
    ) -> Result<Joined> {
        match self.collect(build).await? {
            Collected::Whole(held) => {
                let kind = Kind::whole(*self.join.join_type());
                Ok(Joined::InOrder(self.in_memory(&self.lend(held), probe, kind)?))
            }
            Collected::Part(held, rest) => {
                let rows = self.spilled(move |join, output| {
                    Box::pin(async move { join.join_part(held, rest, probe, 0, &output).await })
                });
                Ok(Joined::Spilled(rows))
            }
        }
    }

    /// The rows that a task sends.
    pub(super) fn spilled(
        self: &Arc<Self>,
        task: impl FnOnce(Arc<Self>, Output) -> BoxFuture<'static, Result<()>> + Send + 'static,
    ) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema(), 2);
        let output = builder.tx();
        builder.spawn(task(Arc::clone(self), output));
        builder.build()
    }

    /// Joins a build side that does not fit.
    async fn join_part(
        &self,
        held: Held,
        rest: Rest,
        probe: SendableRecordBatchStream,
        level: u64,
        output: &Output,
    ) -> Result<()> {
        let build = self.divide_build(held, rest, level).await?;
        let probe = self.probe.divide(probe, level).await?;
        self.join_buckets(&build, &probe, level, output).await
    }

    /// Partitions a build side that is partly in memory.
    pub(super) async fn divide_build(&self, held: Held, rest: Rest, level: u64) -> Result<Buckets> {
        let Held {
            batches, reservation, ..
        } = held;
        // The held rows are written first, which releases their memory.
        let held = held_rows(batches, Arc::clone(self.build.schema()));
        let given_back = futures::stream::once(async move {
            drop(reservation);
            futures::stream::empty()
        });
        let rows = held.chain(given_back.flatten()).chain(rest.rows());
        let schema = Arc::clone(self.build.schema());
        let rows = RecordBatchStreamAdapter::new(schema, rows);
        self.build.divide(Box::pin(rows), level).await
    }

    /// Joins the buckets of both sides pair by pair.
    pub(super) async fn join_buckets(
        &self,
        build: &Buckets,
        probe: &Buckets,
        level: u64,
        output: &Output,
    ) -> Result<()> {
        let all: usize = build.iter().flatten().map(|bucket| bucket.rows).sum();
        for (build, probe) in build.iter().zip(probe) {
            let divided = build.as_ref().is_none_or(|bucket| bucket.rows < all);
            let divides = divided && level + 1 < SpillPolicy::DEFAULT.levels;
            let next = divides.then_some(level + 1);
            self.join_pair(build.as_ref(), probe.as_ref(), next, output)
                .await?;
        }
        Ok(())
    }

    /// Joins a bucket of each side. `level` is that of further partitioning, if it helps.
    fn join_pair<'a>(
        &'a self,
        build: Option<&'a Bucket>,
        probe: Option<&'a Bucket>,
        level: Option<u64>,
        output: &'a Output,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let join_type = *self.join.join_type();
            if (build.is_none() && !keeps_probe(join_type)) || (probe.is_none() && !keeps_build(join_type)) {
                return Ok(());
            }
            match (self.collect(self.build.read(build)?).await?, level) {
                (Collected::Whole(held), _) => {
                    let kind = Kind::whole(join_type);
                    let lent = self.lend(held);
                    let rows = self.in_memory(&lent, self.probe.read(probe)?, kind)?;
                    drop(lent);
                    self.send(rows, output).await
                }
                (Collected::Part(held, rest), Some(level)) => {
                    let probe = self.probe.read(probe)?;
                    self.join_part(held, rest, probe, level, output).await
                }
                (Collected::Part(held, rest), None) => self.join_pieces(held, rest, probe, output).await,
            }
        })
    }

    /// Transfers the memory of held rows to joins over them.
    pub(super) fn lend(&self, held: Held) -> Lent {
        Lent {
            batches: held.batches,
            context: lending(&self.context, held.reservation),
        }
    }

    /// A hash join of rows in memory and rows of the probe side.
    pub(super) fn in_memory(
        &self,
        build: &Lent,
        probe: SendableRecordBatchStream,
        kind: Kind,
    ) -> Result<SendableRecordBatchStream> {
        let left = InputExec::held(build.batches.clone(), Arc::clone(self.build.schema()));
        let order = EquivalenceProperties::new(Arc::clone(self.probe.schema()));
        let right = InputExec::once(probe, order);
        let builder = self.join.builder().with_new_children(vec![left, right])?;
        let builder = builder
            .with_partition_mode(PartitionMode::Partitioned)
            .with_type(kind.join_type)
            .with_fetch(None);
        let builder = match kind.projected {
            true => builder,
            false => builder.with_projection(None),
        };
        builder.build()?.execute(0, Arc::clone(&build.context))
    }

    /// Sends rows of a join, with the columns of the whole join.
    pub(super) async fn send(&self, mut rows: SendableRecordBatchStream, output: &Output) -> Result<()> {
        let schema = self.schema();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &count)?;
            if output.send(Ok(batch)).await.is_err() {
                // The receiver reads no more rows.
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The rows of a partition of a join.
pub(super) enum Joined {
    /// In the order of the hash join.
    InOrder(SendableRecordBatchStream),
    /// In the order of buckets.
    Spilled(SendableRecordBatchStream),
}

/// Whether a join returns rows of its build side that have no match.
fn keeps_build(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Left | JoinType::Full | JoinType::LeftAnti | JoinType::LeftMark
    )
}

/// Whether a join returns rows of its probe side that have no match.
fn keeps_probe(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
    )
}

/// Bytes that a join may use in any case.
fn least_bytes(context: &TaskContext, partitions: usize) -> usize {
    let policy = SpillPolicy::DEFAULT;
    let share = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(limit) => limit as f64 * policy.least_share / partitions.max(1) as f64,
        MemoryLimit::Infinite | MemoryLimit::Unknown => 0.0,
    };
    (share as usize).max(policy.least_bytes)
}
