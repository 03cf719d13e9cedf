//! Placement: which part of a physical plan runs as GPU pipelines.
//!
//! Two rules of one session's physical optimizer (`rules.rs`). [`PlaceOnDevice`] runs early, while the plan
//! is still plain (right after DataFusion answered what it can from statistics, before it adds
//! repartitioning): it replaces each maximal supported subtree by one [`GpuExec`](crate::nodes::GpuExec),
//! so DataFusion later sees a leaf and arranges the rest around it. The plan's root becomes a
//! [`PlacementExec`], which keeps the decision and shows in EXPLAIN where everything runs and why not on the
//! device. [`AnnotatePlacement`] runs last and completes it, and the session's query report.
//!
//! Planning asks (`Result<_, Reason>`), it never tries and catches, and it needs no GPU.

mod aggregate;
mod assessment;
mod chain;
mod cost;
mod decide;
mod decision;
mod find;
mod joins;
mod nodes;
mod placement_exec;
mod placer;
mod plan_node;
mod reasons;
mod rules;
mod sort;
mod stream;
mod timing;
mod union;
mod unshare;
mod waiting;
mod window;

pub use placement_exec::{PlacementExec, query_report};
pub use rules::{AnnotatePlacement, PlaceOnDevice};

pub(crate) use decision::Grounds;

/// Its tuning policies.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    let mut all = vec![
        decide::PlacementPolicy::listed(),
        sort::SortPolicy::listed(),
        stream::StreamCosts::listed(),
    ];
    all.extend(cost::policies());
    all
}
