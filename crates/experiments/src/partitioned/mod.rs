//! Partitioned joins of relations in host memory, whose state exceeds device memory.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects* (2022), chapter 4. A tuple
//! has a key and a record number of 64 bits each. Relations are columns in pinned host memory, filled with a
//! build side of unique keys and a probe side of uniform foreign keys. The result is the sum of the payloads
//! of both sides of all matches, and their number, which every run compares with those of the generator.
//!
//! | module | has |
//! | --- | --- |
//! | `data` | relations |
//! | `rig` | the device, its rates, and the kernels of a pass |
//! | `state` | pages of rows in device and host memory |
//! | `options` | how a join runs |
//! | `triton` | the Triton join, by a first pass of copy engines, of kernels across the link, or of the CPU |
//! | `second` | the second half of the thesis' join |
//! | `host`, `histogram` | radix partitioning and histograms by the CPU |
//! | `clock`, `traffic` | phases of a join: their times, and the bytes that they move at least |
//! | `alone`, `passes` | partitioning alone: figures 4.3, 4.18 and 4.19 |
//! | `phases` | utilisation of the link, time and bound of each phase: figures 4.13 to 4.15 |
//! | `prefix` | the prefix sum by either processor: figure 4.22 |
//! | `columns`, `wide` | payload columns, and their materialisation after a join: figure 4.24 |
//! | `figure`, `scale` | the measurement of a join, and the scale of measurements |
//! | `experiments` | figures 4.12, 4.16, 4.17, 4.20, 4.21, 4.23 and 4.25, and the join by size of chunks |
//! | `findings` | the results of the thesis that hold for the rows |
//!
//! The kernels are `radix_*` of [`galatea_kernels`]. They differ from the thesis in these points:
//!
//! - Partitions are bits of *hashed* keys. The thesis' code uses bits of the keys, which balances the
//!   partitions of dense keys perfectly; perfect hashing needs that, and does so here, too.
//! - The tuples of a partition are contiguous, with those of each block one after another. A kernel of one
//!   block computes all positions. The thesis' blocks have separate regions (`RadixOrder::Blocks`), so that a
//!   partition has a slice for each block. Neither needs global atomics.
//! - A table of page addresses replaces the mapping of alternating pages into one range.
//! - Threads of a block write full buffers of `Shared` and `Hierarchical` together, between barriers. In the
//!   thesis a warp writes a buffer under a lock, and other warps wait for the lock.
//! - A few multiprocessors copy partitions of the second half from both memories, instead of a second pass
//!   that reads over the link with half of the multiprocessors.
//!
//! One skewed partition of the second pass is joined by one block: it is right, but slow.

mod alone;
mod clock;
mod columns;
mod data;
mod experiments;
mod figure;
mod findings;
mod histogram;
mod host;
mod options;
mod passes;
mod phases;
mod prefix;
mod rig;
mod row;
mod scale;
mod second;
mod state;
mod traffic;
mod triton;
mod wide;

pub use alone::Partitioned;
pub use data::{Inputs, Relation};
pub use experiments::{EXTRA, FIGURES, run};
pub use findings::findings;
pub use options::{First, Options};
pub use rig::{Bytes, Limits, Rig};
pub use row::Row;
pub use scale::Scale;
pub use triton::{Join, Joined};
