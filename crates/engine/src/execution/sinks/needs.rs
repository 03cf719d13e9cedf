//! Inputs of the size of a sink.

use crate::joins::pairs::PairSizes;
use crate::string::interned::InternedWords;

/// Inputs of the size of a sink's memory.
#[derive(Debug, Clone)]
pub(in crate::execution) struct SinkNeeds {
    /// Number of the query, which owns the memory.
    pub owner: u64,
    /// Maximum number of rows that the sink receives: those that the run scans, or all runs that fill it.
    pub rows: u64,
    /// Minimum number of slots of a group table, unless fewer groups are possible.
    pub hash_slots: u64,
    /// Number of groups in an earlier run of the same pipeline.
    pub groups: Option<u64>,
    /// Number of result rows, if an earlier pass has counted them.
    pub counted: Option<u64>,
    /// Number of rows in each partition, if an earlier pass has counted them.
    pub partitions: Option<Vec<u64>>,
    /// Row counts of the join that has its rows marked.
    pub pairs: Option<PairSizes>,
    /// Number of rows after which the run stops.
    pub fetch: Option<u64>,
    /// Memory for strings without a dictionary, if keys of groups or of the order are such strings.
    pub texts: Option<InternedWords>,
    /// Whether groups stay on the device, for another pipeline.
    pub keep: bool,
}
