//! Runs and times one query.
//!
//! | mode | measured |
//! | --- | --- |
//! | hot | columns in device memory, kernels compiled: warm-up runs first, then the measured ones |
//! | host | encoded columns in host memory, nothing kept in device memory: every byte crosses the link |
//! | parquet | the first run of a new session: files are read, decoded, encoded; kernels are loaded from the disk cache |
//! | cpu | DataFusion's CPU operators over the files, in the same binary and a session that has read them before |
//! | cpu-first | the same in the first run of a new session: the baseline of parquet |
//! | memory | DataFusion's CPU operators over its own in-memory tables |
//!
//! Time is measured from the SQL text to the last row of the result in this process. Results of the first run
//! of every mode are returned, so that a caller can compare them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use galatea::QueryReport;
use galatea_device::Device;

use crate::Result;
use crate::machine::Machine;
use crate::result::{Engine, ResultRow};
use crate::workload::tables::Tables;
use crate::workload::{Query, Workload};

/// Residency of the data when a query begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In device memory.
    Hot,
    /// Encoded in host memory.
    Host,
    /// In Parquet files, nothing loaded.
    Parquet,
    /// In Parquet files, for Galatea on the CPU: its own plans and DataFusion's operators.
    Cpu,
    /// The same in a session that has not read the files.
    CpuFirst,
    /// In Parquet files, for DataFusion: joins in the order of its plans.
    DataFusion,
    /// The same in a session that has not read the files.
    DataFusionFirst,
    /// In Arrow batches in memory, for DataFusion's CPU operators.
    Memory,
}

impl Mode {
    /// All, by name.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("hot", Self::Hot),
        ("host", Self::Host),
        ("parquet", Self::Parquet),
        ("cpu", Self::Cpu),
        ("cpu-first", Self::CpuFirst),
        ("datafusion", Self::DataFusion),
        ("datafusion-first", Self::DataFusionFirst),
        ("memory", Self::Memory),
    ];

    /// The number of warm-up runs of a query if `asked` are requested. On the CPU, earlier runs affect only
    /// the page cache.
    fn warmups(self, asked: u32) -> u32 {
        match self {
            Self::Hot | Self::Host => asked,
            Self::Cpu | Self::DataFusion | Self::Memory => asked.min(1),
            Self::Parquet | Self::CpuFirst | Self::DataFusionFirst => 0,
        }
    }

    /// The settings of the mode.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Hot | Self::Parquet => &[],
            Self::Host => &[("galatea.cache.device", "false")],
            Self::Cpu | Self::CpuFirst => &[("galatea.device", "cpu")],
            Self::DataFusion | Self::DataFusionFirst | Self::Memory => {
                &[("galatea.device", "cpu"), ("galatea.join.order", "written")]
            }
        }
    }

    /// Whether each run is the first of its session.
    fn measures_first_runs(self) -> bool {
        matches!(self, Self::Parquet | Self::CpuFirst | Self::DataFusionFirst)
    }

    fn engine(self) -> Engine {
        match self {
            Self::Hot | Self::Host | Self::Parquet | Self::Cpu | Self::CpuFirst => Engine::Galatea,
            Self::DataFusion | Self::DataFusionFirst | Self::Memory => Engine::DataFusion,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            Self::NAMES
                .iter()
                .find(|(_, mode)| mode == self)
                .map_or("", |(name, _)| *name),
        )
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, mode)| *mode);
        found.ok_or_else(|| format!("modes are {}", Self::NAMES.map(|(name, _)| name).join(", ")))
    }
}

/// A timed run of a query.
#[derive(Debug, Clone)]
pub struct Run {
    /// The result.
    pub batches: Vec<RecordBatch>,
    /// Time from the SQL text to the physical plan.
    pub planning: Duration,
    /// Time from the SQL text to the last row.
    pub total: Duration,
    /// The engine's report.
    pub report: Option<QueryReport>,
}

impl Run {
    /// Number of rows of the result.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

/// Runs `sql` to its last row.
pub async fn run(ctx: &SessionContext, sql: &str) -> Result<Run> {
    if let Some(reports) = galatea::reports(ctx) {
        reports.clear();
    }
    let start = Instant::now();
    let plan = galatea::physical_plan(ctx, sql).await?;
    let planning = start.elapsed();
    let batches = collect(plan, ctx.task_ctx()).await?;
    let total = start.elapsed();
    Ok(Run {
        batches,
        planning,
        total,
        report: galatea::last_query_report(ctx),
    })
}

/// Measured rates that bound a query, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceilings {
    /// Reading device memory: bounds the kernels of hot queries.
    pub device: f64,
    /// Copying from pinned host memory to the device: bounds host-resident queries.
    pub link: f64,
}

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The tables.
    pub tables: Tables,
    /// The queries.
    pub queries: Vec<Query>,
    /// Number of measured runs of each query.
    pub iterations: u32,
    /// Number of warm-up runs before them. Modes that measure first runs have none, those of the CPU have
    /// one.
    pub warmups: u32,
    /// Settings of the sessions, by full name.
    pub settings: Vec<(String, String)>,
    /// The machine to record.
    pub machine: Machine,
    /// The bounding rates; `None` without a GPU.
    pub ceilings: Option<Ceilings>,
}

/// The rows of one mode, and the result of each query's first run.
#[derive(Debug)]
pub struct Measured {
    /// One row per run.
    pub rows: Vec<ResultRow>,
    /// By query, in the plan's order.
    pub results: Vec<Vec<RecordBatch>>,
}

impl Plan {
    /// Runs all queries in `mode`. `done` is called after each.
    pub async fn measure(&self, mode: Mode, mut done: impl FnMut(&Query)) -> Result<Measured> {
        let mut measured = Measured {
            rows: Vec::new(),
            results: Vec::new(),
        };
        let mut shared = None;
        for query in &self.queries {
            let warmups = mode.warmups(self.warmups);
            for run_number in 0..warmups + self.iterations.max(1) {
                if run_number > 0 && run_number == warmups {
                    Device::finish_compiling();
                }
                // A first run needs a session that has read nothing. The other modes share one session.
                let ctx = match &shared {
                    Some(ctx) if !mode.measures_first_runs() => ctx,
                    _ => shared.insert(self.session(mode).await?),
                };
                let run = run(ctx, &query.sql).await?;
                match mode.measures_first_runs() {
                    // The warm-up must not disturb the next session.
                    true => _ = galatea::cancel_background(ctx),
                    // The next run uses the columns and kernels of the warm-up.
                    false => galatea::finish_background(ctx).await,
                }
                measured
                    .rows
                    .push(self.row(mode, query, run_number, warmups, &run));
                if run_number == 0 {
                    measured.results.push(run.batches);
                }
            }
            done(query);
        }
        Ok(measured)
    }

    pub(crate) async fn session(&self, mode: Mode) -> Result<SessionContext> {
        let mut builder = galatea::session();
        for (name, value) in &self.settings {
            builder = builder.with_trusted_setting(name, value);
        }
        for (name, value) in mode.settings() {
            builder = builder.with_setting(*name, *value);
        }
        let ctx = builder.build()?;
        self.tables.register(&ctx).await?;
        if mode == Mode::Memory {
            for (name, _) in &self.tables.locations {
                let quoted = format!("\"{name}\"");
                let table = ctx.table(quoted.as_str()).await?;
                let schema = Arc::clone(table.schema().inner());
                let batches = table.collect_partitioned().await?;
                ctx.deregister_table(quoted.as_str())?;
                ctx.register_table(quoted.as_str(), Arc::new(MemTable::try_new(schema, batches)?))?;
            }
        }
        Ok(ctx)
    }

    pub(crate) fn row(&self, mode: Mode, query: &Query, number: u32, warmups: u32, run: &Run) -> ResultRow {
        let mut parameters: BTreeMap<String, String> = self.settings.iter().cloned().collect();
        parameters.insert("data".to_string(), self.tables.directory.display().to_string());
        let mut row = ResultRow {
            benchmark: self.tables.workload.to_string(),
            query: query.name.clone(),
            engine: mode.engine(),
            mode: mode.to_string(),
            device: String::new(),
            reasons: String::new(),
            iteration: number.saturating_sub(warmups),
            warmup: number < warmups,
            scale: self.tables.scale,
            seed: seed(self.tables.workload),
            parameters,
            rows: run.rows(),
            planning_s: 0.0,
            compile_s: 0.0,
            load_s: 0.0,
            transfer_s: 0.0,
            kernel_s: 0.0,
            total_s: 0.0,
            device_bytes: 0,
            link_bytes: 0,
            ceiling: None,
            fraction: None,
            machine: self.machine.clone(),
        };
        row.observe(run.report.as_ref(), run.planning, run.total);
        match (self.ceilings, mode) {
            (Some(ceilings), Mode::Hot) => row.set_ceiling(ceilings.device, row.device_bytes, row.kernel_s),
            (Some(ceilings), Mode::Host) => row.set_ceiling(ceilings.link, row.link_bytes, row.total_s),
            _ => {}
        }
        row
    }
}

/// The seed of a workload's data. TPC's generators have their own.
fn seed(workload: Workload) -> u64 {
    match workload {
        Workload::Tpch | Workload::Tpcds => 0,
        Workload::Ssb => crate::workload::ssb::SEED,
        Workload::Micro => crate::workload::micro::SEED,
        Workload::Hits => crate::workload::hits::SEED,
        Workload::H2o => crate::workload::h2o::SEED,
        Workload::Events => crate::workload::events::SEED,
    }
}
