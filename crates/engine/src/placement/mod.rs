//! Placement: chooses the parts of a physical plan that run as GPU pipelines.
//!
//! Rules of one session's physical optimizer (`rules.rs`). [`PlaceOnDevice`] runs early, while the plan
//! is still plain: after DataFusion has used statistics, before it adds repartitioning. It replaces each
//! maximal supported subtree by one [`GpuExec`](crate::nodes::GpuExec), so that DataFusion later sees a leaf
//! and arranges the rest around it. The plan's root becomes a [`PlacementExec`], which holds the decision and
//! shows it in EXPLAIN, with the reasons for the CPU. [`AnnotatePlacement`] runs last and completes it, and
//! the session's query report.
//!
//! Planning checks support first (`Result<_, Reason>`) and never tries and catches. It needs no GPU.

mod aggregate;
mod assessment;
mod chain;
mod cost;
mod decide;
mod decision;
mod find;
mod functions;
mod joins;
mod nodes;
mod pending_warmup;
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
mod window;

pub use placement_exec::{PlacementExec, query_report};
pub use rules::{AnnotatePlacement, PlaceOnDevice, RefuseEndless};

pub(crate) use decision::PlacementInputs;

/// The tuning policies of placement.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    let mut all = vec![
        decide::PlacementPolicy::listed(),
        aggregate::determined::DeterminedPolicy::listed(),
        sort::SortPolicy::listed(),
        stream::StreamCosts::listed(),
    ];
    all.extend(cost::policies());
    all
}
