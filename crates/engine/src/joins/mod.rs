//! Join algorithms: the condition of each, and the modules that implement it.
//!
//! A join is never an operator of its own. The rows of the *probe side* pass through a pipeline. Each row
//! looks up its matches in the *build side*, which another pipeline or the host has built before. Therefore
//! the operators above a join compute with columns of both sides in the same kernel.
//!
//! ```text
//! probe side ── filter ── look up the build side ── look up another build side ── aggregate       one kernel
//!                              │                         └── rows of CPU operators, arranged on the host
//!                              └── pipeline over another table, before it
//! ```
//!
//! | algorithm | used if | chosen by |
//! | --- | --- | --- |
//! | [`HostLookup`](JoinAlgorithm::HostLookup) | CPU operators produce the build rows, or the build side is small and its keys are unique | no pipeline builds the side: `PipelineRef::build` returns `None` |
//! | [`DeviceLookup`](JoinAlgorithm::DeviceLookup) | a pipeline produces the build rows, and each probe row has at most one match | [`SinkPlan::Build`] or [`SinkPlan::BuildGroups`] of that pipeline |
//! | [`Multimap`](JoinAlgorithm::Multimap) | build keys repeat | [`SinkPlan::Multimap`] of that pipeline |
//! | [`OutOfCore`](JoinAlgorithm::OutOfCore) | the build side is predicted to exceed device memory, or did so in a run | `choose`, which sets `BuildSide::exceeds_memory`; a run selects it in `in_parts_after` (`execution/join_run.rs`) |
//!
//! A run decides two more properties of a join from the data. EXPLAIN ANALYZE shows both. If the build side
//! exceeds the L2 cache, rows are partitioned before they probe it (`galatea.join.partitions`). The range of
//! the keys selects arrays by key or a hash table.
//!
//! A new algorithm with a new variant of [`SinkPlan`] needs a sink, too: see the recipe "A sink" in
//! CONTRIBUTING.md.
//!
//! | step | module |
//! | --- | --- |
//! | the sides and keys of a join in DataFusion's plan | `placement/joins/` |
//! | the choice of the algorithm: host or device | `placement/assessment.rs` (`choose_builds`) |
//! | the choice of the algorithm: lookup or multimap | `placement/joins/`, `placement/chain/buildable.rs` |
//! | the choice of the algorithm: in memory or out of core | `choose`, in this module |
//! | predicted times of all algorithms | `joins/costs.rs` |
//! | the algorithm of a join in a graph, for EXPLAIN | [`JoinAlgorithm::of`], in this module |
//! | selection of the out-of-core joins and groups of a pipeline, and its restriction to one partition | `joins/out_of_core.rs`, `graph/partition.rs` |
//! | partitions of an out-of-core join: ranges of the key, or of its hash | `execution/cut.rs` |
//! | kernels of build tables, multimaps and probes | `crates/codegen/src/sink/{build,multimap,probe}.rs` |
//! | build tables and multimaps on the device | `joins/{build_table,pairs}.rs` |
//! | runs of each algorithm, and the algorithm after a failed run | `execution/join_run.rs` |
//! | runs of out-of-core joins | `execution/triton.rs`, if each side is partitioned once; else `execution/parts.rs` |
//! | runs with partitions that fit the L2 cache | `execution/partition_run.rs` |
//!
//! References: C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, chapters 3 (hash
//! joins) and 4 (partitioned joins).

pub(crate) mod build_table;
pub(crate) mod costs;
pub(crate) mod out_of_core;
pub(crate) mod pairs;

use crate::graph::{PipelineGraph, PipelineId, PipelineRef};
use costs::{DeviceRates, costs};
use galatea_codegen::SinkPlan;
use out_of_core::PartitionedState;

/// The algorithm that finds the matches of rows in a build side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAlgorithm {
    /// `host lookup`: the host arranges the build rows by key. Each block copies them to shared memory if
    /// they fit. Each probe row looks up one build row. This is used if CPU operators produce the build rows,
    /// or if the build side is a table of fewer rows than `galatea.tuning.build_rows`.
    HostLookup,
    /// `device lookup`: a pipeline arranges the build rows on the device. It uses arrays by key (perfect
    /// hashing) if the key range is at most 64 times the number of rows plus 4 Mi, else a hash table (open
    /// addressing). Each probe row looks up one build row. This is used for unique keys, and for semijoins
    /// and antijoins.
    DeviceLookup,
    /// `multimap`: a pipeline builds a multimap of the build side by key, each row of the probe side finds
    /// its matches, and the matches are numbered: they are the rows of the next pipeline.
    Multimap,
    /// `out of core`: a device lookup or a multimap, one partition of the keys at a time. A partition is a
    /// range of the key if a side is in its order, else of a hash of the key. Its build side fits device
    /// memory.
    OutOfCore,
}

impl JoinAlgorithm {
    /// The algorithm of one join, as placement has recorded it in the graph. `pipeline` probes the build side
    /// with number `side`.
    pub fn of(pipeline: PipelineRef<'_>, side: usize) -> Self {
        let Some(build) = pipeline.build(side) else {
            return Self::HostLookup;
        };
        match build.plan.sink {
            _ if pipeline.build_sides[side].exceeds_memory => Self::OutOfCore,
            SinkPlan::Multimap { .. } => Self::Multimap,
            _ => Self::DeviceLookup,
        }
    }

    /// The algorithm of the join that produces the pairs which a pipeline scans; `None` for another source.
    pub fn of_pairs(pipeline: PipelineRef<'_>) -> Option<Self> {
        let (probe, side) = PartitionedState::Pairs.probe(pipeline)?;
        Some(Self::of(probe, side))
    }

    /// Its name in EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostLookup => "host lookup",
            Self::DeviceLookup => "device lookup",
            Self::Multimap => "multimap",
            Self::OutOfCore => "out of core",
        }
    }
}

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![costs::AccessCosts::listed(), costs::OutOfCoreCosts::listed()]
}

/// Chooses between the algorithms for build side number `side` of a pipeline, which another pipeline builds
/// with `rows` predicted rows: [`JoinAlgorithm::OutOfCore`] if it exceeds device memory. The size of a row is
/// a lower bound. If the prediction is too low, a run fails for lack of memory and is repeated in partitions.
pub(crate) fn choose(
    graph: &mut PipelineGraph,
    (id, side): (PipelineId, usize),
    rows: f64,
    rates: &DeviceRates,
) {
    let Some(build) = graph.pipeline(id).build(side) else {
        return;
    };
    let least = rows * out_of_core::least_row_bytes(&build.plan.sink) as f64;
    let costs = costs(graph.pipeline(id), side, rows, rates);
    let side = &mut graph.pipeline_mut(id).build_sides[side];
    side.exceeds_memory = least > rates.memory as f64;
    side.costs = costs;
}
