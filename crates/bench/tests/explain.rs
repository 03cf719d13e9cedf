//! Snapshots of EXPLAIN for TPC-H 1, 3 and 6 and query 2.1 of the Star Schema Benchmark, in all forms, and of
//! a generated kernel of each sink, as files for reading and comparison. `INSTA_UPDATE=always cargo test
//! --workspace --test explain` writes them anew.

use arrow::array::AsArray;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use galatea::EmulatorOptions;
use galatea_bench::workload::Workload;
use galatea_bench::workload::generate::{GenerateOptions, NoProgress, generate};
use galatea_bench::workload::tables::Tables;
use galatea_device::{Architecture, Nvrtc, Program, compile_for, testing};
use galatea_engine::nodes::GpuExec;
use galatea_engine::report::RunReport;
use galatea_kernels::headers;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SCALE: f64 = 0.005;

/// A session with the workload's tables. Its plans are equal on every machine.
async fn session(workload: Workload, root: &Path) -> SessionContext {
    let directory = root.join(workload.to_string());
    let options = GenerateOptions::new(workload, SCALE, &directory);
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("generated");
    let ctx = emulated();
    let tables = Tables::find(workload, &directory).expect("tables");
    tables.register(&ctx).await.expect("registered");
    ctx
}

fn emulated() -> SessionContext {
    galatea::session()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .build()
        .expect("a session")
}

async fn run(ctx: &SessionContext, sql: &str) {
    ctx.sql(sql).await.expect("plans").collect().await.expect("runs");
}

async fn explained(ctx: &SessionContext, format: &str, sql: &str) -> String {
    let frame = ctx
        .sql(&format!("EXPLAIN FORMAT {format} {sql}"))
        .await
        .expect("plans");
    let batches = frame.collect().await.expect("explains");
    let rows = batches.iter().flat_map(|batch| {
        let (kinds, plans) = (
            batch.column(0).as_string::<i32>(),
            batch.column(1).as_string::<i32>(),
        );
        kinds
            .iter()
            .zip(plans)
            .map(|(kind, plan)| (kind.unwrap_or(""), plan.unwrap_or("").to_string()))
    });
    let physical = rows
        .filter(|(kind, _)| *kind == "physical_plan")
        .map(|(_, plan)| plan);
    physical.collect::<Vec<_>>().join("\n").replace(" \n", "\n")
}

async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect("plans");
    frame.create_physical_plan().await.expect("a plan")
}

#[tokio::test]
async fn snapshot_of_explain_formats() {
    let root = tempfile::tempdir().expect("a folder");
    for (workload, names) in [(Workload::Tpch, &["1", "3", "6"][..]), (Workload::Ssb, &["2.1"])] {
        let ctx = session(workload, root.path()).await;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        for query in workload.select(SCALE, &names).expect("queries") {
            let title = format!("{workload}-{}", query.name);
            let plan = planned(&ctx, &query.sql).await;
            let texts = [
                ("indent", explained(&ctx, "indent", &query.sql).await),
                ("tree", explained(&ctx, "tree", &query.sql).await),
                ("outline", galatea::outline(&plan, false)),
            ];
            for (format, text) in texts {
                // Paths of local files have no leading slash in plans.
                let folder = root.path().to_string_lossy().trim_start_matches('/').to_string();
                insta::with_settings!({omit_expression => true, description => &query.title}, {
                    insta::assert_snapshot!(format!("{title}-{format}"), text.replace(&folder, "<root>"));
                });
            }
        }
    }
}

/// Plans on the CPU have the form of those on the device.
#[tokio::test]
async fn snapshot_of_cpu_plans() {
    let root = tempfile::tempdir().expect("a folder");
    let ctx = session(Workload::Tpch, root.path()).await;
    run(&ctx, "SET galatea.device = 'cpu'").await;
    let names = ["1", "3", "4", "13"].map(str::to_string);
    let mut queries: Vec<(String, String)> = Vec::new();
    for query in Workload::Tpch.select(SCALE, &names).expect("queries") {
        queries.push((format!("tpch-{}", query.name), query.sql.clone()));
    }
    let table = "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, value % 1000 AS v FROM generate_series(1, 5000)";
    run(&ctx, table).await;
    queries.push(("window".to_string(), WINDOW.to_string()));
    let sets =
        "SELECT g, v, count(DISTINCT k) FROM t GROUP BY ROLLUP (g, v) ORDER BY 1 DESC LIMIT 3 OFFSET 2";
    queries.push(("sets".to_string(), sets.to_string()));
    for (title, sql) in queries {
        let outline = galatea::outline(&planned(&ctx, &sql).await, false);
        insta::with_settings!({omit_expression => true, description => &sql}, {
            insta::assert_snapshot!(format!("{title}-cpu"), outline);
        });
    }
}

/// An executed CPU operator shows the number of rows that it returned, and its time.
#[tokio::test]
async fn cpu_operators_show_rows_and_time() {
    let ctx = emulated();
    run(&ctx, "SET galatea.device = 'cpu'").await;
    run(
        &ctx,
        "CREATE TABLE t AS SELECT value AS k, value % 7 AS g FROM generate_series(1, 5000)",
    )
    .await;
    let plan = planned(&ctx, "SELECT g, count(*) FROM t WHERE k > 10 GROUP BY g").await;
    collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("runs");
    let outline = galatea::outline(&plan, true);
    let of = |operator: &str| {
        let line = outline.lines().find(|line| line.contains(operator));
        line.unwrap_or_else(|| panic!("no {operator} in\n{outline}"))
            .to_string()
    };
    assert!(
        of("AggregateExec").contains("AggregateExec  (7 rows, CPU "),
        "{outline}"
    );
    assert!(of("FilterExec").contains("(4.99 K rows, CPU "), "{outline}");
    assert!(outline.contains("filters       k > 10"), "{outline}");
}

/// An executed plan shows its strategy, its time and the bytes that it read.
#[tokio::test]
async fn snapshot_of_explain_analyze() {
    let root = tempfile::tempdir().expect("a folder");
    let ctx = session(Workload::Tpch, root.path()).await;
    let sql = &Workload::Tpch.select(SCALE, &["6".to_string()]).expect("a query")[0].sql;
    let plan = planned(&ctx, sql).await;
    collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("runs");
    let outline = galatea::outline(&plan, true);
    let fact = |name: &str| {
        let line = outline
            .lines()
            .find_map(|line| line.trim_start_matches(['│', ' ']).strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{outline}"))
            .trim()
            .to_string()
    };
    assert_eq!(fact("strategy"), "scalar");
    assert_eq!(fact("source"), "file lineitem.parquet");
    assert!(fact("rows").contains(" passed the filters"), "{outline}");
    for phase in ["generate", "compile", "transfer", "kernel"] {
        assert!(fact("time").contains(&format!("{phase} ")), "{outline}");
    }
    assert!(
        fact("read").contains("KiB at ") && fact("read").contains("GB/s"),
        "{outline}"
    );
    assert!(fact("over the link").ends_with("KiB"), "{outline}");
}

/// A share of a range of numbers, and a join by a key, which statistics estimate exactly.
#[tokio::test]
async fn explain_analyze_shows_estimated_and_actual_rows() {
    let root = tempfile::tempdir().expect("a folder");
    let ctx = session(Workload::Tpch, root.path()).await;
    for (sql, expected) in [
        (
            "SELECT count(*), sum(p_size) FROM part WHERE p_partkey <= 250",
            "250 passed the filters (250 expected)",
        ),
        (
            "SELECT sum(o_totalprice) FROM customer JOIN orders ON c_custkey = o_custkey",
            "7.50 K passed the filters (7.50 K expected)",
        ),
    ] {
        let plan = planned(&ctx, sql).await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("runs");
        let outline = galatea::outline(&plan, true);
        assert!(outline.contains(expected), "{outline}");
    }
}

/// The GPU subtree of a plan.
fn gpu(plan: &Arc<dyn ExecutionPlan>) -> Option<&GpuExec> {
    plan.downcast_ref::<GpuExec>()
        .or_else(|| plan.children().into_iter().find_map(gpu))
}

/// An ORDER BY that the device sorts.
const ORDER: &str = "SELECT k, v FROM t WHERE g = 3 ORDER BY v DESC, k";

/// Rows that are sorted on the device are not sorted again.
#[tokio::test]
async fn snapshot_of_sort_plan() {
    let ctx = emulated();
    let table = "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, value % 1000 AS v FROM generate_series(1, 5000)";
    run(&ctx, table).await;
    let text = explained(&ctx, "indent", ORDER).await;
    insta::with_settings!({omit_expression => true, description => ORDER}, {
        insta::assert_snapshot!("order-indent", text);
    });
}

/// The first rows of each group in an order, and running sums.
const WINDOW: &str = "SELECT * FROM (SELECT g, k, v, rank() OVER (PARTITION BY g ORDER BY v DESC) AS place, \
     sum(v) OVER (PARTITION BY g ORDER BY v DESC) AS so_far FROM t) WHERE place <= 3";

/// The plan names the functions and the order of a window. Its rows are those of another pipeline.
#[tokio::test]
async fn snapshot_of_window_plan() {
    let ctx = emulated();
    let table = "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, value % 1000 AS v FROM generate_series(1, 5000)";
    run(&ctx, table).await;
    let text = explained(&ctx, "indent", WINDOW).await;
    insta::with_settings!({omit_expression => true, description => WINDOW}, {
        insta::assert_snapshot!("window-indent", text);
    });
}

/// Every function over every kind of frame compiles for a GPU, if NVRTC is found.
#[tokio::test]
async fn windows_compile_for_a_gpu() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let ctx = emulated();
    let table = "CREATE TABLE t AS SELECT value AS k, arrow_cast(value % 7, 'Int32') AS g, value % 1000 AS v, \
         CASE WHEN value % 5 > 0 THEN CAST(value AS DECIMAL(30, 2)) END AS d, \
         CASE WHEN value % 3 > 0 THEN CAST(value AS DOUBLE) END AS f, CAST(value % 9 AS VARCHAR) AS s, \
         CAST(arrow_cast(value % 400, 'Int32') AS DATE) AS a FROM generate_series(1, 500)";
    run(&ctx, table).await;
    for calls in [
        "row_number() OVER w, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, ntile(4) OVER w",
        "lag(s) OVER w, lead(d, 2, 1.5) OVER w, lead(f) IGNORE NULLS OVER w, first_value(f) OVER w, last_value(s) OVER w, nth_value(d, 2) OVER w",
        "sum(v) OVER w, sum(d) OVER w, sum(f) OVER w, avg(d) OVER w, avg(f) OVER w, count(d) OVER w, count(*) OVER w",
        "min(v) OVER w, max(d) OVER w, min(f) OVER w, max(s) OVER w",
    ] {
        for window in [
            "PARTITION BY g ORDER BY s, k",
            "ORDER BY k ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING",
            "PARTITION BY s ORDER BY g DESC GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
            "ORDER BY g RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING",
            "PARTITION BY g ORDER BY d DESC NULLS LAST RANGE BETWEEN 3.00 PRECEDING AND UNBOUNDED FOLLOWING",
            "PARTITION BY g ORDER BY f RANGE BETWEEN 0.5 PRECEDING AND 2.5 FOLLOWING",
            "ORDER BY a DESC RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '3 months 2 days' FOLLOWING",
        ] {
            let columns: Vec<String> = (calls.split("w, ").enumerate())
                .map(|(number, call)| format!("{}w AS c{number}", call.trim_end_matches('w')))
                .collect();
            let sql = format!("SELECT k, {} FROM t WINDOW w AS ({window})", columns.join(", "));
            let plan = planned(&ctx, &sql).await;
            collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("runs");
            let report = gpu(&plan).and_then(GpuExec::last_report).expect("on the device");
            let sources = report.builds.iter().map(|build| &build.source);
            for source in sources.chain([&report.source]) {
                compiles(source, &nvrtc);
            }
        }
    }
}

/// Computed strings, as conditions and as keys of groups and joins, compile for a GPU, if NVRTC is found.
#[tokio::test]
async fn computed_strings_compile_for_a_gpu() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let ctx = emulated();
    let table = "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, CAST(value AS VARCHAR) AS s, \
         CAST(value % 9 AS VARCHAR) AS w FROM generate_series(1, 500)";
    run(&ctx, table).await;
    run(&ctx, "SET galatea.tuning.build_rows = '1'").await;
    for sql in [
        "SELECT concat(s, '-', w, g), count(*) FROM t WHERE upper(s || w) LIKE '%1%' GROUP BY 1",
        "SELECT length(u), count(*) FROM (SELECT DISTINCT lower(concat_ws('/', s, k, w)) AS u FROM t) GROUP BY 1",
        "SELECT count(*) FROM t JOIN t AS u ON t.s || t.w = u.w || u.s AND to_hex(t.k) = u.s WHERE left(t.s || t.w, 2) ~ '1'",
    ] {
        let plan = planned(&ctx, sql).await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("runs");
        let report = gpu(&plan).and_then(GpuExec::last_report).expect("on the device");
        let sources = report.builds.iter().map(|build| &build.source);
        for source in sources.chain([&report.source]) {
            compiles(source, &nvrtc);
        }
    }
}

/// Compiles a generated kernel for a GPU.
fn compiles(source: &str, nvrtc: &Nvrtc) {
    let program = Program::new("pipeline", source)
        .headers(headers())
        .entry("pipeline");
    let image = compile_for(Architecture::SM_90, &program, nvrtc);
    assert!(image.is_ok(), "{source}\n{image:?}");
}

/// Names and values of settings under `galatea.`.
type Settings = &'static [(&'static str, &'static str)];

/// The kernel of the first pipeline with this strategy that ran before the main one.
fn side<'r>(report: &'r RunReport, strategy: &str) -> &'r str {
    let found = report.builds.iter().find(|build| build.strategy == strategy);
    let strategies: Vec<&str> = report.builds.iter().map(|build| &*build.strategy).collect();
    &found
        .unwrap_or_else(|| panic!("no {strategy} in {strategies:?}"))
        .source
}

/// A generated kernel of each sink, for reading and comparison.
#[tokio::test]
async fn snapshot_of_generated_kernels() {
    let ctx = emulated();
    let table = "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, value % 1000 AS v FROM generate_series(1, 5000)";
    run(&ctx, table).await;
    let groups = "SELECT g, sum(v), count(*) FROM t WHERE k > 10 GROUP BY g";
    let rows = "SELECT k, v FROM t WHERE g = 3";
    let join = "SELECT a.g, sum(b.v) FROM t a JOIN t b ON a.k = b.k GROUP BY a.g";
    let pairs = "SELECT a.k, b.k FROM t a LEFT JOIN t b ON a.g = b.g AND a.v + 990 < b.v WHERE a.k < 30";
    let lookup = "SELECT count(*), sum(a.v), sum(b.v) FROM t a JOIN t b ON a.k = b.k";
    let kernels: [(&str, Settings, &str); 16] = [
        ("scalar", &[], "SELECT sum(v), count(*) FROM t WHERE k > 10"),
        ("shared", &[("aggregate.strategy", "copies")], groups),
        ("dense", &[("aggregate.strategy", "dense")], groups),
        ("hash", &[("aggregate.strategy", "hash")], groups),
        ("append", &[("tuning.row_output", "direct")], rows),
        ("chains", &[("tuning.row_output", "heap")], rows),
        ("sort", &[], ORDER),
        ("windows", &[], WINDOW),
        ("window-functions", &[], WINDOW),
        ("build", &[("tuning.build_rows", "1")], join),
        ("lists", &[], pairs),
        ("probe", &[], pairs),
        ("mark", &[], pairs),
        ("lookup", &[], lookup),
        ("partition", &[("join.partitions", "16")], join),
        ("partitioned", &[], join),
    ];
    let nvrtc = testing::nvrtc();
    for (sink, settings, sql) in kernels {
        for (name, value) in settings {
            run(&ctx, &format!("SET galatea.{name} = '{value}'")).await;
        }
        let plan = planned(&ctx, sql).await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("runs");
        let report = gpu(&plan)
            .and_then(GpuExec::last_report)
            .expect("it ran on the device");
        let source = match sink {
            "build" | "windows" => &report.builds.first().expect("a build side").source,
            "lists" => side(&report, "multimap by key"),
            "probe" => side(&report, "rows with their lists"),
            "mark" => side(&report, "marks"),
            "partition" => &report.partitioning.as_ref().expect("rows in partitions").source,
            _ => &report.source,
        };
        if let Some(nvrtc) = &nvrtc {
            compiles(source, nvrtc);
        }
        insta::with_settings!({omit_expression => true, description => sql}, {
            insta::assert_snapshot!(format!("kernel-{sink}"), source);
        });
    }
}
