//! A cache of launch inputs: a repeated query over the same pages starts at once.

use super::chunk_table::LaunchInputs;
use super::prepared::Prepared;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Maximum number of cached launches. Each uses a few kilobytes of device memory.
const KEPT: usize = 1024;

/// Inputs of a launch besides resident pages: they are the same for every run of a pipeline over the same
/// pages.
#[derive(Debug)]
struct Launch {
    pipeline: Weak<Prepared>,
    /// The state of the regions' addresses, see
    /// [`Scan::addresses`](galatea_memory::regions::Scan::addresses).
    addresses: Vec<(usize, u64)>,
    chunks: Vec<usize>,
    inputs: Arc<LaunchInputs>,
}

/// The cached launches of a device, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<Vec<Launch>>);

impl Launches {
    /// The cached inputs of an earlier launch of `pipeline` over these chunks, if their pages have not moved.
    pub(crate) fn find(
        &self,
        pipeline: &Arc<Prepared>,
        addresses: &[(usize, u64)],
        chunks: &[usize],
    ) -> Option<Arc<LaunchInputs>> {
        let launches = self.0.lock();
        let found = launches.iter().find(|launch| {
            std::ptr::eq(launch.pipeline.as_ptr(), Arc::as_ptr(pipeline))
                && launch.addresses == addresses
                && launch.chunks == chunks
        });
        found.map(|launch| Arc::clone(&launch.inputs))
    }

    /// Caches the inputs of a launch over resident pages. The inputs must be in device memory as well,
    /// because the next run's stream does not wait for this one's.
    pub(crate) fn keep(
        &self,
        pipeline: &Arc<Prepared>,
        addresses: &[(usize, u64)],
        chunks: &[usize],
        inputs: Arc<LaunchInputs>,
    ) {
        let mut launches = self.0.lock();
        // A pipeline is dropped with its columns. Addresses that are no longer valid are never looked up
        // again.
        launches.retain(|launch| {
            launch.pipeline.strong_count() > 0
                && !(std::ptr::eq(launch.pipeline.as_ptr(), Arc::as_ptr(pipeline)) && launch.chunks == chunks)
        });
        if launches.len() == KEPT {
            launches.remove(0);
        }
        launches.push(Launch {
            pipeline: Arc::downgrade(pipeline),
            addresses: addresses.to_vec(),
            chunks: chunks.to_vec(),
            inputs,
        });
    }

    /// Clears the cache. Returns whether it had entries.
    pub(crate) fn clear(&self) -> bool {
        let forgotten = std::mem::take(&mut *self.0.lock());
        !forgotten.is_empty()
    }
}
