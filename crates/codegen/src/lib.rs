//! Pipelines: what one generated kernel computes, from plan to CUDA C++.
//!
//! A pipeline is `scan → filters and lookups → sink`. Every projection below the sink has been substituted
//! into the expressions, so all of them speak of source columns. It exists in two forms; binding also
//! generates the kernel's text:
//!
//! ```text
//! PipelinePlan      planning: typed expressions, no data, no GPU        (plan.rs, aggregate.rs)
//!     │ bind        execution: encodings, ranges and row count known    (bind.rs, sink_choice.rs)
//! BoundPipeline     chosen strategy (group_choice.rs, dimension_memory.rs), accumulators, literals
//!     │ generate    CUDA C++ text, the same for equal shapes            (generate.rs, rows.rs, sink/*.rs)
//! BoundPipeline::source, compiled in device/prepared.rs
//! ```
//!
//! Binding is where the interval of every expression is known: it picks 32-, 64- or 128-bit arithmetic,
//! proves sums to fit 64 bits, and turns group keys into dense numbers. Literals stay parameters, so two
//! queries that differ only in them share one compiled kernel.

#![forbid(unsafe_code)]

pub mod accumulators;
pub mod aggregate;
pub mod bind;
pub mod bound;
pub mod build_plan;
pub mod choices;
pub mod column_access;
mod dimension_memory;
mod generate;
mod group_choice;
pub mod group_key;
pub mod group_layout;
pub mod kept_groups;
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

pub use partition::{Halves, Meeting};
pub use plan::looked_up;
pub use plan::{Marking, Partitioning, PipelinePlan, RowOrder, SinkPlan, TopRows, WindowInput};

/// Its tuning policies.
pub fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![
        sink_choice::SinkPolicy::listed(),
        group_choice::GroupPolicy::listed(),
        sample::SamplePolicy::listed(),
        dimension_memory::DimensionPolicy::listed(),
        stages::LoadPolicy::listed(),
        sink::partition::StagingPolicy::listed(),
    ]
}
