//! The memory of a pipeline's partitions, which executions of one cached plan share.

use parking_lot::Mutex;
use std::sync::Arc;

/// The memory that state of a pipeline used per partition in its last run, if that run was partitioned. Later
/// runs begin in partitions, instead of an attempt over all rows that fails.
#[derive(Debug, Clone, Default)]
pub struct OutOfCoreMemory(Arc<Mutex<Option<Partitioned>>>);

#[derive(Debug, Clone, Copy)]
struct Partitioned {
    /// The limit of device memory at that time.
    limit: u64,
    /// Bytes per partition.
    bytes: u64,
}

impl OutOfCoreMemory {
    /// Bytes per partition in the last run; `None` if it was not partitioned, or had another limit of device
    /// memory than `limit` returns now.
    pub(crate) fn bytes(&self, limit: impl FnOnce() -> u64) -> Option<u64> {
        let last = (*self.0.lock())?;
        (last.limit == limit()).then_some(last.bytes)
    }

    /// Records a run with `bytes` bytes per partition, under this limit of device memory.
    pub(crate) fn ran_in_parts(&self, bytes: u64, limit: u64) {
        *self.0.lock() = Some(Partitioned { limit, bytes });
    }

    /// Records a run over all rows.
    pub(crate) fn ran_whole(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_repeated_under_the_same_limit_only() {
        let memory = OutOfCoreMemory::default();
        assert_eq!(memory.bytes(|| unreachable!("no run was partitioned")), None);
        let copy = memory.clone();
        memory.ran_in_parts(2, 8);
        assert_eq!((copy.bytes(|| 8), copy.bytes(|| 16)), (Some(2), None));
        copy.ran_whole();
        assert_eq!(memory.bytes(|| 8), None);
    }
}
