//! Execution: computes record batches from a pipeline plan and data, on a device.
//!
//! ```text
//! GpuExec ── source: load encoded columns (store) ── zone maps skip chunks
//!    └─ run ── bind ── generate ── compile (cached) ── one launch over all chunks with pages in device memory, and one for each
//!                                                      other chunk, as it arrives: in pages, or through slots
//!              ── results: words of groups, or rows ── Arrow arrays
//! ```
//!
//! A pipeline that turns out not to run (a range too wide for 128 bits, a full device) runs on DataFusion's
//! CPU operators, with the reason in the query report. With `galatea.fallback = 'error'` it fails; only a
//! sort and a doubted error of a row still use the CPU (`LastStep` in `attempt.rs`). A result that fits
//! `galatea.memory.result_buffer` is returned when its run has ended, so nothing is lost or repeated. A
//! larger result is returned while the run continues, and a failure after its first rows fails the query.

mod admission;
pub(crate) mod attempt;
mod build_sides;
mod chunk_order;
mod compile;
mod counting;
mod cut;
pub(crate) mod error;
pub(crate) mod executor;
mod follow;
mod gathered;
mod graph_cache;
mod hash_ranges;
mod join_run;
mod key_partitions;
mod key_ranges;
mod key_scans;
mod launch_loop;
mod part_run;
mod part_runs;
mod partition_choice;
mod partition_run;
mod parts;
mod pipeline_run;
pub(crate) mod shared_builds;
mod sinks;
mod slice_marks;
mod sort_ranges;
pub(crate) mod source;
mod top;
mod top_sample;
mod triton;
mod triton_groups;
mod triton_pairs;

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![
        sinks::FinishPolicy::listed(),
        pipeline_run::BriefPolicy::listed(),
        partition_choice::PartitionPolicy::listed(),
        parts::PartPolicy::listed(),
        sort_ranges::RangePolicy::listed(),
        top_sample::TopPolicy::listed(),
    ]
}
