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
mod arrivals;
pub(crate) mod attempt;
mod built;
mod chunk_link;
mod chunk_order;
mod chunks;
mod device_columns;
mod dimensions;
mod drive;
pub(crate) mod error;
pub(crate) mod executor;
mod group_table;
mod interned;
mod key_ranges;
mod pairs;
mod part_run;
mod partition_choice;
mod partition_rows;
mod partition_run;
mod parts;
mod pass;
mod ready;
pub(crate) mod result_queue;
pub(crate) mod results;
mod row_heap;
mod run;
mod sinks;
mod slot_ring;
mod sort;
mod sort_ranges;
pub(crate) mod source;
mod stored_rows;
mod text_order;
mod text_rows;
mod top;
mod top_sample;
mod windows;
mod working;

/// Its tuning policies.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![
        arrivals::ArrivalPolicy::listed(),
        chunks::LaunchPolicy::listed(),
        interned::InternedPolicy::listed(),
        sinks::FinishPolicy::listed(),
        row_heap::RowHeapPolicy::listed(),
        run::BriefPolicy::listed(),
        results::ResultPolicy::listed(),
        partition_choice::PartitionPolicy::listed(),
        parts::PartPolicy::listed(),
        sort_ranges::RangePolicy::listed(),
        results::text_gather::GatherPolicy::listed(),
        top_sample::TopPolicy::listed(),
    ]
}
