//! Aggregation on the device: the algorithms, and the modules that implement them.
//!
//! Groups are accumulated in one pass over the rows, in the kernel that scans, filters and joins them. The
//! number of possible groups, from dictionaries and zone maps, selects the place of the accumulators
//! (`Strategy` in `crates/codegen/src/strategy.rs`):
//!
//! | strategy | accumulators | selected if |
//! | --- | --- | --- |
//! | scalar | registers, then one atomic per block | there is no GROUP BY |
//! | shared | shared memory of each block, merged at the end | all possible groups fit |
//! | dense | one array in device memory, indexed by the key | the array is small relative to the rows |
//! | hash | [`group_table`], which grows; rows of new groups overflow to heap pages meanwhile | otherwise |
//!
//! | step | module |
//! | --- | --- |
//! | aggregates and grouping sets in DataFusion's plan | `placement/aggregate/` |
//! | accumulators, keys and the choice of the strategy | `crates/codegen/src/{accumulators,group_key,strategy}.rs` |
//! | the kernels | `crates/codegen/src/sink/`, `crates/kernels/cuda/galatea/` |
//! | growth of the table | [`group_table`], `crates/kernels` (`HashRehash`) |
//! | groups beyond device memory, in partitions | [`partitions`], `execution/{cut,parts}.rs` |
//! | groups to Arrow arrays | `results/groups.rs` |

pub(crate) mod group_table;
pub(crate) mod partitions;
