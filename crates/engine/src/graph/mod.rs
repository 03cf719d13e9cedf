//! The pipelines of a GPU subtree, and the plans that feed them. Placement builds them, execution and streams
//! run them, EXPLAIN describes them.
//!
//! ```text
//! pipeline_graph the pipelines of a subtree, and the edges between them
//! sharing        pipelines that several others read, found by comparing plans (same_plan)
//! pipeline       a pipeline: its source, its build sides and its plan
//! by_node        a cache of values of plan nodes
//! key            fingerprints of queries, subtrees and build sides (plan_key)
//! partition      partitions of state that is computed out of core, and the bounds of their keys (key_bounds)
//! match_bounds   the bounds of columns that the keys of build sides imply (key_scan, keys of sides on the device)
//! pruned_chunks  chunks left by zone maps         \
//! shared_rows    rows of small build sides         \ shared by executions of one cached plan
//! kept_counts    row counts of partitions          / (and out_of_core_memory, the memory of partitions)
//! input          plans of CPU operators that feed a pipeline
//! copy           copies of plans, one for each execution
//! ```

mod by_node;
pub(crate) mod copy;
mod input;
mod kept_counts;
pub(crate) mod key;
mod key_bounds;
mod key_scan;
mod match_bounds;
mod out_of_core_memory;
mod partition;
mod pipeline;
mod pipeline_graph;
mod plan_key;
mod pruned_chunks;
mod same_plan;
mod shared_rows;
mod sharing;

pub(crate) use by_node::ByNode;
pub(crate) use copy::renewed_host;
pub use input::InputPlan;
pub(crate) use kept_counts::CountInputs;
pub use kept_counts::KeptCounts;
pub use key_bounds::KeyBounds;
pub use key_scan::KeyScan;
pub use out_of_core_memory::OutOfCoreMemory;
pub(crate) use partition::{Buckets, HASH_SHIFT, Partition, ROW_COLUMNS, Slices, counting, in_slice};
pub(crate) use pipeline::key_name;
pub use pipeline::{Build, BuildSide, JoinCosts, Pipeline, PipelineSource, Prediction, ScannedTable};
pub use pipeline_graph::{Edge, PipelineGraph, PipelineId, PipelineRef};
pub use plan_key::PlanKey;
pub use pruned_chunks::PrunedChunks;
pub(crate) use same_plan::gives_same_rows;
pub use shared_rows::SharedRows;
