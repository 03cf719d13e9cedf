//! Execution: a pipeline plan, data and a device make record batches.
//!
//! ```text
//! GpuExec ── source: load encoded columns (store) ── zone maps drop chunks
//!    └─ run ── bind ── generate ── compile (cached) ── one launch over all chunks whose pages are in device memory, and one for
//!                                                      each chunk that is not, as it arrives: in pages, or through slots
//!              ── results: words of groups, or rows ── Arrow arrays
//! ```
//!
//! A pipeline that turns out not to run (a range too wide for 128 bits, a full device) runs on DataFusion's
//! CPU operators, with the reason in the query report, unless `galatea.fallback = 'error'`. A result that
//! fits `galatea.result_buffer` leaves when its run has ended, so nothing is lost or repeated; a larger one
//! flows to its reader while the run goes on, and a failure after its first rows fails the query.

mod ahead;
pub(crate) mod attempt;
mod chunk_order;
mod dimensions;
mod drive;
pub(crate) mod error;
pub(crate) mod executor;
mod key_ranges;
mod part_run;
mod partition_choice;
mod partition_run;
mod parts;
mod pass;
mod ready;
mod run;
mod sinks;
mod sort_ranges;
pub(crate) mod source;
mod top;
mod top_sample;

/// Its tuning policies.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![
        sinks::FinishPolicy::listed(),
        run::BriefPolicy::listed(),
        partition_choice::PartitionPolicy::listed(),
        parts::PartPolicy::listed(),
        sort_ranges::RangePolicy::listed(),
        top_sample::TopPolicy::listed(),
    ]
}
