//! Memory that was reserved for a hash join before it runs.
//!
//! The join reserves memory itself, batch by batch. If the reservation of its rows were released first,
//! another operator could take the memory in between, and the join would fail. So the join runs with a pool
//! of its own, which provides the memory of the reservation and grows it only beyond that.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

/// Bytes of buffers that the estimate of a hash join's memory leaves out.
const SLACK: usize = 4 << 10;

/// A memory pool that provides the memory of a reservation of another pool. The reservation ends with the
/// last user.
#[derive(Debug)]
struct LentPool {
    reservation: MemoryReservation,
    /// Bytes of the reservation, with an allowance for the error of its estimate.
    allowed: usize,
    used: Mutex<usize>,
}

impl fmt::Display for LentPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}(used: {}, reserved: {})",
            self.name(),
            self.used.lock(),
            self.reservation.size()
        )
    }
}

impl MemoryPool for LentPool {
    fn name(&self) -> &str {
        "lent"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        let mut used = self.used.lock();
        *used += additional;
        let beyond = used.saturating_sub(self.reservation.size());
        self.reservation.grow(beyond);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        let mut used = self.used.lock();
        *used = used.saturating_sub(shrink);
    }

    fn try_grow(&self, _reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut used = self.used.lock();
        let wanted = *used + additional;
        let beyond = wanted.saturating_sub(self.reservation.size());
        // An overdrawn pool also refuses to grow by zero bytes.
        if beyond > 0 && wanted <= self.allowed {
            self.reservation.grow(beyond);
        } else if beyond > 0 {
            self.reservation.try_grow(beyond)?;
        }
        *used = wanted;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reservation.size()
    }
}

/// The context with a memory pool that provides the memory of a reservation.
pub(super) fn lending(context: &TaskContext, reservation: MemoryReservation) -> Arc<TaskContext> {
    let size = reservation.size();
    let pool = LentPool {
        reservation,
        allowed: size + size / 16 + SLACK,
        used: Mutex::new(0),
    };
    let environment = RuntimeEnv {
        memory_pool: Arc::new(pool),
        ..context.runtime_env().as_ref().clone()
    };
    changed(context, context.session_config().clone(), Arc::new(environment))
}

/// The context for a sort of a join's rows. A sort keeps memory for merging its spilled runs, which may be
/// more than a small pool has.
pub(super) fn sorting(context: &TaskContext) -> Arc<TaskContext> {
    let mut config = context.session_config().clone();
    if let MemoryLimit::Finite(limit) = context.memory_pool().memory_limit() {
        let kept = config.options().execution.sort_spill_reservation_bytes;
        config = config.with_sort_spill_reservation_bytes(kept.min(limit / 16));
    }
    changed(context, config, context.runtime_env())
}

fn changed(context: &TaskContext, config: SessionConfig, environment: Arc<RuntimeEnv>) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        environment,
    ))
}

/// Whether a memory pool has a limit.
pub(super) fn is_bounded(pool: &dyn MemoryPool) -> bool {
    matches!(pool.memory_limit(), MemoryLimit::Finite(_))
}
