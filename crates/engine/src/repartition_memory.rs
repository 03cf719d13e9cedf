//! A memory pool that lets repartitions grow.
//!
//! If the pool has no memory for a batch, DataFusion's `RepartitionExec` writes the batch to a temporary
//! file. In version 55 such a query may wait for ever: its reader waits for the oldest file while the batch
//! that it needs is in another (apache/datafusion#24883, mended in a later version). With this pool,
//! repartitions always get memory, which counts as used, and operators that need memory beyond the limit
//! spill or fail. Repartitions hold few batches: their channels close while each has one.

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use std::fmt;
use std::sync::Arc;

/// The beginning of the name of a repartition's reservation.
const REPARTITION: &str = "RepartitionExec[";

#[derive(Debug)]
struct RepartitionsGrow(Arc<dyn MemoryPool>);

/// The environment, with a pool that lets repartitions grow if its pool has a limit.
pub fn with_growing_repartitions(environment: Arc<RuntimeEnv>) -> Arc<RuntimeEnv> {
    let pool = &environment.memory_pool;
    let has_limit = matches!(pool.memory_limit(), MemoryLimit::Finite(_));
    if !has_limit || pool.is::<RepartitionsGrow>() {
        return environment;
    }
    Arc::new(RuntimeEnv {
        memory_pool: Arc::new(RepartitionsGrow(Arc::clone(pool))),
        ..environment.as_ref().clone()
    })
}

impl fmt::Display for RepartitionsGrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MemoryPool for RepartitionsGrow {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.0.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if reservation.consumer().name().starts_with(REPARTITION) {
            self.0.grow(reservation, additional);
            return Ok(());
        }
        // DataFusion's pools refuse it once repartitions use more than the limit.
        if additional == 0 {
            return Ok(());
        }
        self.0.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::metrics::MetricValue;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::{ExecutionPlan, Partitioning, collect_partitioned};
    use datafusion::prelude::{SessionConfig, SessionContext};

    #[test]
    fn other_operators_are_limited() {
        let pool: Arc<dyn MemoryPool> = Arc::new(RepartitionsGrow(Arc::new(GreedyMemoryPool::new(100))));
        let repartition = MemoryConsumer::new("RepartitionExec[3]").register(&pool);
        let merge = MemoryConsumer::new("Merge").register(&pool);
        assert!(merge.try_grow(90).is_ok());
        assert!(repartition.try_grow(90).is_ok());
        assert_eq!(pool.reserved(), 180);
        assert!(merge.try_grow(1).is_err());
        assert!(merge.try_grow(0).is_ok());
        assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(100)));
    }

    /// The name of the reservation is DataFusion's.
    #[tokio::test]
    async fn repartitions_do_not_spill() -> Result<()> {
        let limited = || RuntimeEnvBuilder::new().with_memory_limit(1000, 1.0).build_arc();
        for (environment, spills) in [(limited()?, true), (with_growing_repartitions(limited()?), false)] {
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
            let batch = RecordBatch::try_from_iter([("v", values)])?;
            let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), environment);
            let rows = ctx.read_batch(batch.clone())?.create_physical_plan().await?;
            let hash = Partitioning::Hash(vec![col("v", &batch.schema())?], 2);
            let plan: Arc<dyn ExecutionPlan> = Arc::new(RepartitionExec::try_new(rows, hash)?);
            let read = collect_partitioned(Arc::clone(&plan), ctx.task_ctx()).await?;
            assert_eq!(
                read.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(),
                10_000
            );
            let spilled = plan.metrics().and_then(|metrics| {
                metrics.sum(|metric| matches!(metric.value(), MetricValue::SpillCount(_)))
            });
            assert_eq!(spilled.is_some_and(|spilled| spilled.as_usize() > 0), spills);
        }
        Ok(())
    }
}
