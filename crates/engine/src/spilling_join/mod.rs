//! Hash joins on the CPU whose build side exceeds the memory pool: they spill both sides to disk.
//!
//! DataFusion's `HashJoinExec` holds the build side in memory and fails when the pool is exhausted. Where a
//! session's pool has a limit, [`SpillJoins`] puts a [`SpillingJoinExec`] above each hash join of a finished
//! plan, which executes the join in its place:
//!
//! ```text
//! collect     reads the build side under a reservation, which also covers the hash table
//!   fits      the hash join runs as it is; its memory comes from that reservation (lent)
//!   does not  both sides go to spill files by a hash of the keys (buckets); the buckets of equal hashes are
//!             joined one pair after another, each again by `collect` (join), with another seed per level
//! pieces      a bucket that no hash divides, of one key, is joined in pieces of its build side that fit
//! ```
//!
//! It is a Grace hash join whose in-memory part is DataFusion's operator, so join types, filters and equality
//! of NULLs are as there. Limits: a join that runs this way tightens no dynamic filter for scans of its probe
//! side. Null-aware anti joins (NOT IN) are left as they are: a NULL of the probe side concerns all buckets.
//! Each bucket that is being written buffers up to `buffered_rows` rows outside the reservation.
//!
//! Needed as long as DataFusion's hash join does not spill (apache/datafusion#24768).

mod buckets;
mod collect;
mod exec;
mod join;
mod lent;
mod pieces;
mod rule;
mod source;
#[cfg(test)]
mod tests;

use galatea_base::policy::{Policy, policy};

pub use exec::SpillingJoinExec;
pub use rule::SpillJoins;
pub(crate) use rule::{with_bounded_memory, with_spilling_joins};

policy! {
    /// How hash joins spill.
    struct SpillPolicy {
        /// Buckets that a side is divided into at a time.
        buckets: usize = 16,
        /// Rows of a bucket that are written at once.
        buffered_rows: usize = 1024,
        /// How often buckets are divided again, until they are joined in pieces.
        levels: u64 = 5,
        /// Share of the memory pool that a join may take when the pool is exhausted, divided by partitions.
        least_share: f64 = 0.125,
        /// The least bytes that a join may take when the pool is exhausted.
        least_bytes: usize = 64 << 10,
        /// Bytes of the hash table beside its buckets.
        fixed_table_bytes: usize = 512,
    }
}

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<Policy> {
    vec![SpillPolicy::listed()]
}
