//! A metric that counts bytes. DataFusion prints its own counters as plain numbers: 6000000000 bytes would
//! read `6.00 B`.

use datafusion::physical_plan::metrics::CustomMetricValue;
use galatea_base::reason::size;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes, as a value of a plan node's metrics.
#[derive(Debug, Default)]
pub(crate) struct ByteCount(AtomicUsize);

impl ByteCount {
    /// A count of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(AtomicUsize::new(usize::try_from(bytes).unwrap_or(usize::MAX)))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size(self.as_usize() as u64))
    }
}

impl CustomMetricValue for ByteCount {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        self.0.fetch_add(other.as_usize(), Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().is::<Self>() && other.as_usize() == self.as_usize()
    }
}
