//! Metrics of the engine, for the recorder that the program installs (crate `metrics`). Without a recorder,
//! recording does nothing. The library itself exports nothing.
//!
//! | name | kind | unit | labels | meaning |
//! | --- | --- | --- | --- | --- |
//! | `galatea_pipelines_total` | counter | pipelines | `outcome`: `device`, `fell_back`, `cancelled`, `failed` | placed subtrees that ended |
//! | `galatea_wait_seconds` | histogram | seconds | | from the request for the device to the admission of the pipeline |
//! | `galatea_kernel_seconds` | histogram | seconds | | from the first to the last of a pipeline's work on the device |
//! | `galatea_run_seconds` | histogram | seconds | | run time of a pipeline on the device, without the wait for admission |
//! | `galatea_launches_total` | counter | launches | | launches of pipeline kernels |
//! | `galatea_scanned_rows_total` | counter | rows | | rows of chunks that pipelines read |
//! | `galatea_device_bytes` | gauge | bytes | `kind`: `columns`, `working`, `limit` | device memory: copies of columns, all else in use, the maximum in use |
//! | `galatea_evicted_pages_total` | counter | pages | | copies of chunks that were evicted from device memory |
//! | `galatea_link_bytes_total` | counter | bytes | `direction`: `to_device`, `to_host` | bytes copied over the link, for any purpose |
//! | `galatea_column_chunks_total` | counter | column chunks | `decoded`: `device`, `host` | columns of chunks that were loaded from Parquet files, by the side that decoded them |
//! | `galatea_file_bytes_total` | counter | bytes | | bytes that loads read from Parquet files |
//! | `galatea_cached_columns_total` | counter | columns | | columns that loads read from the column cache on disk |
//! | `galatea_cached_bytes_total` | counter | bytes | | bytes of these columns |
//! | `galatea_plans_total` | counter | plans | `outcome`: `reused`, `made`, `not_kept` | planned queries: with a cached plan, with a new plan, and with a new plan that was not cached |
//! | `galatea_shared_results_total` | counter | queries | | queries with the result of an equal one that ran at the same time |
//!
//! The metrics of the link, evictions and device memory are those of the device, and are recorded when a
//! pipeline ends. Each pipeline that ends is also an event of `tracing`, of level debug and target
//! `galatea::pipeline`, with the same figures.

use crate::report::RunReport;
use galatea_store::LoadReport;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::time::Duration;

pub(crate) const PIPELINES: &str = "galatea_pipelines_total";
pub(crate) const WAIT: &str = "galatea_wait_seconds";
pub(crate) const KERNEL: &str = "galatea_kernel_seconds";
pub(crate) const RUN: &str = "galatea_run_seconds";
pub(crate) const LAUNCHES: &str = "galatea_launches_total";
pub(crate) const ROWS: &str = "galatea_scanned_rows_total";
pub(crate) const DEVICE_BYTES: &str = "galatea_device_bytes";
pub(crate) const EVICTED: &str = "galatea_evicted_pages_total";
pub(crate) const LINK: &str = "galatea_link_bytes_total";
pub(crate) const COLUMN_CHUNKS: &str = "galatea_column_chunks_total";
pub(crate) const FILE_BYTES: &str = "galatea_file_bytes_total";
pub(crate) const CACHED_COLUMNS: &str = "galatea_cached_columns_total";
pub(crate) const CACHED_BYTES: &str = "galatea_cached_bytes_total";
pub(crate) const PLANS: &str = "galatea_plans_total";
pub(crate) const SHARED: &str = "galatea_shared_results_total";

/// How a placed subtree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipelineOutcome {
    /// It ran on the device.
    Device,
    /// It fell back to the CPU.
    FellBack,
    /// Its query was cancelled.
    Cancelled,
    /// It failed with an error.
    Failed,
}

impl PipelineOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::FellBack => "fell_back",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// Source of a query's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanOutcome {
    /// The plan of an earlier query was reused.
    Reused,
    /// It was created and cached.
    Made,
    /// It was created, but later queries cannot use it.
    NotKept,
}

impl PlanOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Reused => "reused",
            Self::Made => "made",
            Self::NotKept => "not_kept",
        }
    }
}

/// Describes the units and meanings of all metrics to the program's recorder; for programs that install one.
pub fn describe() {
    describe_counter!(PIPELINES, Unit::Count, "placed subtrees that came to an end");
    describe_histogram!(
        WAIT,
        Unit::Seconds,
        "time until a pipeline's turn on the device came"
    );
    describe_histogram!(KERNEL, Unit::Seconds, "time of a pipeline's work on the device");
    describe_histogram!(
        RUN,
        Unit::Seconds,
        "time of a pipeline on the device, without waiting"
    );
    describe_counter!(LAUNCHES, Unit::Count, "launches of pipeline kernels");
    describe_counter!(ROWS, Unit::Count, "rows of chunks that pipelines read");
    describe_gauge!(DEVICE_BYTES, Unit::Bytes, "device memory by kind");
    describe_counter!(
        EVICTED,
        Unit::Count,
        "copies of chunks that gave up device memory"
    );
    describe_counter!(LINK, Unit::Bytes, "bytes copied over the link");
    describe_counter!(
        COLUMN_CHUNKS,
        Unit::Count,
        "columns of chunks loaded from Parquet files, by the side that decoded them"
    );
    describe_counter!(
        FILE_BYTES,
        Unit::Bytes,
        "bytes that loads read from Parquet files"
    );
    describe_counter!(
        CACHED_COLUMNS,
        Unit::Count,
        "columns that loads read from the column cache on disk"
    );
    describe_counter!(
        CACHED_BYTES,
        Unit::Bytes,
        "bytes that loads read from the column cache on disk"
    );
    describe_counter!(
        PLANS,
        Unit::Count,
        "queries that were planned, by where the plan came from"
    );
    describe_counter!(
        SHARED,
        Unit::Count,
        "queries with the result of an equal one that ran at the same time"
    );
}

/// A query was planned.
pub(crate) fn planned(outcome: PlanOutcome) {
    counter!(PLANS, "outcome" => outcome.label()).increment(1);
}

/// A query got the result of an equal one.
pub(crate) fn shared() {
    counter!(SHARED).increment(1);
}

/// Columns were loaded from files.
pub(crate) fn loaded(load: &LoadReport) {
    counter!(COLUMN_CHUNKS, "decoded" => "device").increment(load.on_device);
    counter!(COLUMN_CHUNKS, "decoded" => "host").increment(load.on_host());
    counter!(FILE_BYTES).increment(load.bytes_read);
    counter!(CACHED_COLUMNS).increment(load.disk_columns);
    counter!(CACHED_BYTES).increment(load.disk_bytes);
}

/// A placed subtree ended.
pub(crate) fn ended(outcome: PipelineOutcome) {
    counter!(PIPELINES, "outcome" => outcome.label()).increment(1);
}

/// A pipeline was admitted.
pub(crate) fn waited(time: Duration) {
    histogram!(WAIT).record(time.as_secs_f64());
}

/// Memory of a device in use, and bytes transferred over its link since it was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceUse {
    /// Copies of columns.
    pub(crate) columns: u64,
    /// All device memory in use.
    pub(crate) used: u64,
    /// The budget.
    pub(crate) limit: u64,
    /// Copies of chunks that were evicted so far.
    pub(crate) evicted: u64,
    /// Bytes copied to the device, and to the host.
    pub(crate) link: (u64, u64),
}

/// A pipeline ran on a device with this use.
pub(crate) fn ran(device: &DeviceUse, report: &RunReport) {
    histogram!(KERNEL).record(report.kernel.as_secs_f64());
    histogram!(RUN).record(report.total.as_secs_f64());
    counter!(LAUNCHES).increment(report.launches as u64);
    counter!(ROWS).increment(report.rows);
    tracing::debug!(
        target: "galatea::pipeline",
        strategy = %report.strategy,
        rows = report.rows,
        rows_passed = report.rows_passed,
        launches = report.launches,
        device_bytes = report.device_bytes,
        link_bytes = report.link_bytes,
        kernel_seconds = report.kernel.as_secs_f64(),
        run_seconds = report.total.as_secs_f64(),
        "pipeline ran on the device"
    );
    for (kind, bytes) in [
        ("columns", device.columns),
        ("working", device.used.saturating_sub(device.columns)),
        ("limit", device.limit),
    ] {
        gauge!(DEVICE_BYTES, "kind" => kind).set(bytes as f64);
    }
    counter!(EVICTED).absolute(device.evicted);
    counter!(LINK, "direction" => "to_device").absolute(device.link.0);
    counter!(LINK, "direction" => "to_host").absolute(device.link.1);
}
