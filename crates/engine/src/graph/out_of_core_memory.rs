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
    /// Bytes per partition in the last run with this limit of device memory; `None` if it was not
    /// partitioned, or had another limit.
    pub(crate) fn bytes(&self, limit: u64) -> Option<u64> {
        let last = (*self.0.lock())?;
        (last.limit == limit).then_some(last.bytes)
    }

    /// Records a run with `bytes` bytes per partition; `None`: a run over all rows.
    pub(crate) fn ran(&self, limit: u64, bytes: Option<u64>) {
        *self.0.lock() = bytes.map(|bytes| Partitioned { limit, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_repeated_under_the_same_limit_only() {
        let memory = OutOfCoreMemory::default();
        assert_eq!(memory.bytes(8), None);
        let copy = memory.clone();
        memory.ran(8, Some(2));
        assert_eq!((copy.bytes(8), copy.bytes(16)), (Some(2), None));
        copy.ran(8, None);
        assert_eq!(memory.bytes(8), None);
    }
}
