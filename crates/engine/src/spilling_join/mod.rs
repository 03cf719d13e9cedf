//! Hash joins on the CPU that spill both sides to disk if the build side exceeds the memory pool.
//!
//! DataFusion's `HashJoinExec` holds the build side in memory and fails when the pool is exhausted. If a
//! session's pool has a limit, [`SpillJoins`] puts a [`SpillingJoinExec`] above each hash join of a finished
//! plan, which executes the join in its place:
//!
//! ```text
//! collect     reads the build side under a reservation, which also covers the hash table
//!   fits      the hash join runs as it is; it uses the memory of that reservation (lent)
//!   does not  both sides are written to spill files by a hash of the keys (buckets); buckets of equal hashes
//!             are joined one pair after another, each again by `collect` (join), with another seed per level
//! pieces      a bucket that no hash divides, of one key, is joined in pieces of its build side that fit
//! ```
//!
//! It is a Grace hash join that uses DataFusion's operator in memory, so join types, filters and equality of
//! NULLs are the same. Limits: a join that runs this way updates no dynamic filter for scans of its probe
//! side. Null-aware anti joins (NOT IN) do not spill: a NULL of the probe side affects all buckets. Each
//! bucket that is being written buffers up to `buffered_rows` rows outside the reservation.
//!
//! Nested loop joins other than inner ones spill wrongly in DataFusion, so they fail instead
//! ([`UnspilledJoinExec`]).
//!
//! Needed while DataFusion's hash join does not spill (apache/datafusion#24768).

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
mod unspilled;

use galatea_base::policy::{Policy, policy};

pub use exec::SpillingJoinExec;
pub use rule::SpillJoins;
pub(crate) use rule::{with_bounded_memory, with_spilling_joins};
pub use unspilled::UnspilledJoinExec;

policy! {
    /// The parameters of spilling.
    struct SpillPolicy {
        /// Buckets into which a side is partitioned at a time.
        buckets: usize = 16,
        /// Rows of a bucket that are written at once.
        buffered_rows: usize = 1024,
        /// Maximum number of times that a bucket is partitioned again, before it is joined in pieces.
        levels: u64 = 5,
        /// Share of the memory pool that a join may use when the pool is exhausted, divided by partitions.
        least_share: f64 = 0.125,
        /// Minimum bytes that a join may use when the pool is exhausted.
        least_bytes: usize = 64 << 10,
        /// Bytes of the hash table beside its buckets.
        fixed_table_bytes: usize = 512,
    }
}

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<Policy> {
    vec![SpillPolicy::listed()]
}
