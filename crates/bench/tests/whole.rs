//! TPC-H's 22 queries, the 13 of the Star Schema Benchmark and ClickBench's 43 on the emulated device, over
//! small generated Parquet files. All of their work runs there under all settings, and each answer equals
//! that of DataFusion's CPU operators, in the first run and with the cached plan.

mod plans;

use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, SessionBuilder};
use galatea_bench::workload::generate::{GenerateOptions, NoProgress, generate};
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};
use tempfile::TempDir;

/// Settings of a session.
type Settings = &'static [(&'static str, &'static str)];

/// Little memory, small tiles, colliding hashes, and every strategy that can be forced.
const HOSTILE: &[Settings] = &[
    &[
        ("galatea.memory.gpu_limit", "64 MiB"),
        ("galatea.cache.device", "false"),
    ],
    &[
        ("galatea.tuning.rows_per_thread", "1"),
        ("galatea.tuning.block_threads", "32"),
    ],
    &[
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.debug.collide_hashes", "true"),
        ("galatea.tuning.hash_slots", "2"),
    ],
    &[
        ("galatea.tuning.build_rows", "0"),
        ("galatea.join.partitions", "4"),
    ],
    &[
        ("galatea.tuning.row_output", "heap"),
        ("galatea.tuning.build_rows", "0"),
    ],
    &[
        ("galatea.join.order", "written"),
        ("galatea.tuning.chunk_rows", "1000"),
    ],
];

/// A workload's tables, and its queries.
struct Generated {
    workload: Workload,
    queries: Vec<Query>,
    /// Queries that statistics of the files answer before placement.
    by_statistics: &'static [&'static str],
    /// Queries that may return no row at this scale.
    empty: &'static [&'static str],
    tables: Tables,
    _root: TempDir,
}

impl Generated {
    fn new(workload: Workload, scale: f64) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let options = GenerateOptions::new(workload, scale, root.path());
        generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
        let mut queries = workload.select(scale, &[]).expect("all queries");
        for query in &mut queries {
            // Constants that select rows of small tables.
            for (large, small) in [
                ("> 100000", "> 20"),
                (" OFFSET 10000", ""),
                (" OFFSET 1000", ""),
                (" OFFSET 100", ""),
            ] {
                query.sql = query.sql.replace(large, small);
            }
        }
        Self {
            workload,
            queries,
            by_statistics: &[],
            empty: &[],
            tables: Tables::find(workload, root.path()).expect("tables"),
            _root: root,
        }
    }

    async fn session(&self, builder: SessionBuilder, settings: Settings) -> SessionContext {
        let builder = settings.iter().fold(builder, |builder, (name, value)| {
            builder.with_setting(*name, *value)
        });
        let ctx = builder.with_file_queries(true).build().expect("a session");
        self.tables.register(&ctx).await.expect("tables");
        ctx
    }

    /// Runs all queries, with default settings and others, and reports all problems.
    async fn check(&self, others: &[Settings]) {
        let cpu: Settings = &[("galatea.device", "cpu"), ("galatea.join.order", "written")];
        let cpu = self.session(galatea::session(), cpu).await;
        let mut devices = Vec::new();
        for settings in [&[] as Settings].iter().chain(others) {
            // Anything that would run on the CPU is an error, except the final order of few rows.
            let device = galatea::session()
                .with_emulated_device(EmulatorOptions::default())
                .with_setting("galatea.device", "emulated")
                .with_setting("galatea.fallback", "error");
            devices.push((settings, self.session(device, settings).await));
        }
        let mut problems = Vec::new();
        for query in &self.queries {
            let name = &query.name;
            let expected = answer(&cpu, &query.sql).await.expect("the CPU's answer");
            let finds = expected.iter().any(|batch| batch.num_rows() > 0);
            if !finds && !self.empty.contains(&name.as_str()) {
                problems.push(format!("query {name} finds nothing"));
            }
            // Nothing remains for the CPU, not even what `galatea.fallback` allows.
            for (settings, device) in &devices {
                let work = plans::work_on_cpu(device, &query.sql).await;
                if !work.is_empty() && !self.by_statistics.contains(&name.as_str()) {
                    problems.push(format!("query {name}, {settings:?}: {work:?} on the CPU"));
                }
            }
            for (run, (settings, device)) in ["first run", "kept plan"]
                .into_iter()
                .flat_map(|run| devices.iter().map(move |device| (run, device)))
            {
                let outcome = match answer(device, &query.sql).await {
                    Ok(actual) => query.compare(&expected, &actual).err().map(|e| e.to_string()),
                    Err(error) => Some(error),
                };
                let report = galatea::last_query_report(device).expect("a report");
                let stays = self.by_statistics.contains(&name.as_str());
                let elsewhere = report.fell_back > 0 || (report.placed == 0) != stays;
                let elsewhere = elsewhere.then(|| format!("did not run where it should: {report:?}"));
                let context = format!("{} {name} {settings:?}, {run}", self.workload);
                problems.extend(
                    outcome
                        .or(elsewhere)
                        .map(|problem| format!("{context}: {problem}")),
                );
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}

async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_runs_on_the_device_under_all_settings() {
    Generated::new(Workload::Tpch, 0.01).check(HOSTILE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_runs_on_the_device_under_all_settings() {
    let mut ssb = Generated::new(Workload::Ssb, 0.01);
    // Two cities of a nation have few suppliers.
    ssb.empty = &["3.2", "3.3", "3.4", "4.3"];
    ssb.check(HOSTILE).await;
}

/// 20,000 rows. The statistics of the file contain the number of rows, and the range of a date.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clickbench_runs_on_the_device() {
    let mut hits = Generated::new(Workload::Hits, 0.000_2);
    hits.by_statistics = &["0", "6"];
    hits.check(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2o_runs_on_the_device() {
    Generated::new(Workload::H2o, 0.001).check(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analyses_of_events_run_on_the_device() {
    Generated::new(Workload::Events, 0.002).check(&[]).await;
}
