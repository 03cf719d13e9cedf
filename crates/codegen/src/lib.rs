//! Pipelines, from plan to CUDA C++. A pipeline is the computation of one generated kernel.
//!
//! A pipeline is `scan → filters and lookups → sink`. Every projection below the sink has been substituted
//! into the expressions, so all of them refer to source columns. A pipeline exists in two forms; binding also
//! generates the source of the kernel:
//!
//! ```text
//! PipelinePlan      planning: typed expressions, no data, no GPU        (plan.rs, aggregate.rs)
//!     │ bind        execution: with encodings, ranges and row count     (bind.rs, sink_choice.rs)
//! BoundPipeline     chosen strategy (group_choice.rs, lookup_memory.rs), accumulators, literals
//!     │ generate    CUDA C++ source, the same for equal shapes          (generate.rs, rows.rs, sink/*.rs)
//! BoundPipeline::source, compiled in device/prepared.rs
//! ```
//!
//! Binding derives the interval of every expression: it picks 32-, 64- or 128-bit arithmetic, proves that
//! sums fit 64 bits, and turns group keys into dense numbers. Literals stay parameters, so two queries that
//! differ only in them share one compiled kernel.

#![forbid(unsafe_code)]

pub mod accumulators;
pub mod aggregate;
pub mod bind;
pub mod bound;
pub mod build_plan;
pub mod choices;
pub mod column_access;
mod generate;
mod group_choice;
pub mod group_key;
pub mod group_layout;
pub mod kept_groups;
mod lookup_memory;
pub mod moments;
pub mod options;
pub mod output;
mod partition;
mod plan;
mod rows;
mod sample;
mod shared_sums;
pub mod sink;
mod sink_choice;
mod stages;
pub mod strategy;
mod used_headers;

pub use partition::{AlignedSide, PartitionPasses};
pub use plan::looked_up;
pub use plan::{Marking, Partitioning, PipelinePlan, RowOrder, SinkPlan, TopRows, WindowInput};

/// The tuning policies of code generation.
pub fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![
        sink_choice::SinkPolicy::listed(),
        group_choice::GroupPolicy::listed(),
        sample::SamplePolicy::listed(),
        lookup_memory::LookupPolicy::listed(),
        stages::LoadPolicy::listed(),
        sink::partition::StagingPolicy::listed(),
    ]
}
