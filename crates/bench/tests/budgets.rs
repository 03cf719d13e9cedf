//! TPC-H queries 1 and 6 and the 13 of the Star Schema Benchmark on the emulated device: 1, 4 and 32
//! concurrent clients under small limits on device memory, with every admission policy and every replacement
//! policy. Each answer is the CPU's, nothing fails or falls back, and memory use stays below the limit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, GalateaConfig, QueryDevice};
use galatea_bench::compare::{RowOrder, compare};
use galatea_bench::workload::generate::{GenerateOptions, NoProgress, generate};
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};
use galatea_engine::device::DeviceRuntime;
use galatea_engine::engine::Engine;
use galatea_engine::session::Session;

/// 30,000 rows in each of the large tables.
const SCALE: f64 = 0.005;

/// The time limit for all clients of one case on two cores.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Less than any query but the smallest reads, but enough for their working memory.
const SMALL: &str = "640 KiB";

struct Case {
    limit: &'static str,
    clients: usize,
    /// Number of queries of each client. Together, the clients run all queries.
    each: usize,
    admission: &'static str,
    replacement: &'static str,
}

const fn case(
    limit: &'static str,
    (clients, each): (usize, usize),
    admission: &'static str,
    replacement: &'static str,
) -> Case {
    Case {
        limit,
        clients,
        each,
        admission,
        replacement,
    }
}

const CASES: &[Case] = &[
    case("64 MiB", (1, 15), "auto", "frequency"),
    case(SMALL, (1, 15), "weight", "lru"),
    case(SMALL, (4, 8), "peak", "mru"),
    case(SMALL, (4, 8), "fix-1", "lfu"),
    case("64 MiB", (4, 8), "fix-2", "random"),
    case(SMALL, (4, 8), "fix-3", "cost"),
    case(SMALL, (4, 8), "working", "random"),
    case("64 MiB", (32, 2), "weight", "cost"),
    case(SMALL, (32, 2), "auto", "frequency"),
    case(SMALL, (32, 2), "fix-3", "lru"),
];

async fn tables(ctx: &SessionContext, root: &Path) {
    for workload in [Workload::Tpch, Workload::Ssb] {
        let directory = root.join(workload.to_string());
        let tables = Tables::find(workload, &directory).expect("tables");
        let schema = workload.to_string();
        ctx.sql(&format!("CREATE SCHEMA {schema}"))
            .await
            .expect("a new schema");
        for (name, location) in &tables.locations {
            let options = datafusion::prelude::ParquetReadOptions::default();
            let name = format!("{schema}.\"{name}\"");
            ctx.register_parquet(name, location, options)
                .await
                .expect("a table");
        }
    }
}

/// A client: a separate session over the shared tables, store and device. It looks up names in one schema.
fn client(ctx: &SessionContext, workload: Workload) -> SessionContext {
    let ctx = SessionContext::new_with_state(ctx.state());
    let state = ctx.state_ref();
    state.write().config_mut().options_mut().catalog.default_schema = workload.to_string();
    ctx
}

fn engine(ctx: &SessionContext) -> Arc<Engine> {
    let session: Option<Arc<Session>> = ctx.state().config().get_extension();
    Arc::clone(session.expect("a Galatea session").engine())
}

fn device(ctx: &SessionContext) -> Arc<DeviceRuntime> {
    let state = ctx.state();
    let config = GalateaConfig::of(state.config_options());
    engine(ctx).device(&config).expect("the emulated device")
}

/// Runs a query and compares its answer. It must have run on the device.
async fn check(ctx: SessionContext, query: &Query, expected: &[RecordBatch], context: &str) {
    let name = format!("{context}, query {}", query.name);
    let frame = ctx.sql(&query.sql).await.expect("a plan");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await;
    let rows = rows.unwrap_or_else(|error| panic!("{name}: {error}"));
    compare(expected, &rows, RowOrder::Any).unwrap_or_else(|difference| panic!("{name}: {difference}"));
    let report = galatea::query_report(&plan).expect("a report");
    assert!(
        report.device == QueryDevice::Emulated && report.fell_back == 0,
        "{name}: {:?}",
        report.reasons
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_policy_matches_the_cpu() {
    let root = tempfile::tempdir().expect("a directory");
    for workload in [Workload::Tpch, Workload::Ssb] {
        let directory = root.path().join(workload.to_string());
        let mut options = GenerateOptions::new(workload, SCALE, &directory);
        // Row groups are cached as a whole. They are small, so that some can be evicted.
        options.parts = 12;
        generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
    }
    let mut queries: Vec<(Workload, Query)> = Vec::new();
    let two = ["1", "6"].map(String::from);
    for (workload, names) in [(Workload::Tpch, &two[..]), (Workload::Ssb, &[])] {
        let selected = workload.select(SCALE, names).expect("queries");
        queries.extend(selected.into_iter().map(|query| (workload, query)));
    }
    assert_eq!(queries.len(), 15);
    let ctx = galatea::session()
        .with_file_queries(true)
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "cpu")
        .with_setting("galatea.tuning.min_rows", "0")
        .build()
        .expect("a session");
    tables(&ctx, root.path()).await;
    let mut known = Vec::new();
    for (workload, query) in queries {
        let frame = client(&ctx, workload).sql(&query.sql).await.expect("a plan");
        known.push((workload, query, frame.collect().await.expect("the CPU's answer")));
    }
    let known = Arc::new(known);
    let device_setting = "SET galatea.device = 'emulated'";
    ctx.sql(device_setting).await.expect("a setting");
    for case in CASES {
        for (name, value) in [
            ("galatea.memory.gpu_limit", case.limit),
            ("galatea.memory.admission", case.admission),
            ("galatea.memory.replacement", case.replacement),
        ] {
            engine(&ctx).set(name, value).expect("a setting of the engine");
        }
        let context = format!(
            "{}, {} clients, {}, {}",
            case.limit, case.clients, case.admission, case.replacement
        );
        let start = std::time::Instant::now();
        let runtime = device(&ctx);
        runtime.clear().expect("evicted");
        runtime.device().budget().reset_peak();
        let evicted = runtime.memory().evicted();
        let clients = (0..case.clients).map(|number| {
            let (ctx, known, context) = (ctx.clone(), Arc::clone(&known), context.clone());
            let each = case.each;
            tokio::spawn(async move {
                for turn in 0..each {
                    let (workload, query, expected) = &known[(number * each + turn) % known.len()];
                    check(client(&ctx, *workload), query, expected, &context).await;
                }
            })
        });
        let all = futures::future::join_all(clients.collect::<Vec<_>>());
        let ended = tokio::time::timeout(WATCHDOG, all).await;
        for client in ended.unwrap_or_else(|_| panic!("{context}: a client hangs")) {
            client.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let budget = runtime.device().budget();
        let evicted = runtime.memory().evicted() - evicted;
        println!("{context}: {:?}, {evicted} pages evicted", start.elapsed());
        assert!(budget.peak() <= budget.limit(), "{context}: {} B", budget.peak());
        assert!(
            case.limit != SMALL || evicted > 0,
            "{context}: the limit does not matter"
        );
        assert!(runtime.memory().admission().queries().is_empty(), "{context}");
        runtime.clear().expect("evicted");
        assert_eq!(budget.used(), 0, "{context}");
    }
}
