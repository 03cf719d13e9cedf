use super::*;
use crate::config::SettingValue;
use crate::engine::Engine;
use crate::history::RunKind;
use crate::placement::pending_warmup::forgone;
use crate::placement::timing::Timing;
use crate::placement::{AnnotatePlacement, PlaceOnDevice, PlacementExec, query_report};
use crate::report::QueryDevice;
use crate::report::QueryReports;
use crate::stream::{Channel, GpuStreamExec};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use std::time::Duration;

/// A session without our rules over a file of 200,000 rows in the folder, and its DataFusion context.
async fn session(folder: &tempfile::TempDir) -> (Arc<Session>, SessionContext) {
    let path = folder.path().join("t.parquet");
    let path = path.to_str().expect("a path of text");
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_physical_optimizer_rules(vec![])
        .build();
    let ctx = SessionContext::new_with_state(state);
    let v: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
    let batch = RecordBatch::try_from_iter([("v", v)]).expect("one column");
    let frame = ctx.read_batch(batch).expect("a frame");
    frame
        .write_parquet(path, DataFrameWriteOptions::new(), None)
        .await
        .expect("written");
    ctx.register_parquet("t", path, ParquetReadOptions::default())
        .await
        .expect("a table");
    let engine = Engine::builder().build().expect("an engine");
    let session = Session::new(engine, QueryReports::default()).with_environment(ctx.runtime_env());
    (Arc::new(session), ctx)
}

/// The plan of a query as passed to the early rule.
async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect("valid");
    frame.create_physical_plan().await.expect("a plan")
}

/// The session and the plan of one query.
async fn plan(folder: &tempfile::TempDir, sql: &str) -> (Arc<Session>, Arc<dyn ExecutionPlan>) {
    let (session, ctx) = session(folder).await;
    let plan = planned(&ctx, sql).await;
    (session, plan)
}

/// Settings under which queries wait until runs on the CPU have paid for missing columns and kernels.
fn auto() -> GalateaConfig {
    GalateaConfig {
        min_rows: SettingValue::parse("0").expect("a number"),
        warmup: SettingValue::parse("false").expect("a switch"),
        ..GalateaConfig::default()
    }
}

/// Repeats runs on the CPU until loading is paid for.
fn pay(session: &Arc<Session>, plan: &Arc<dyn ExecutionPlan>) {
    for _ in 0..20_000 {
        let (placed, decision) = decide(session, plan);
        if placed {
            return;
        }
        session.engine().history().forgo(&forgone(&decision.waiting));
    }
    panic!("the query never comes to the device");
}

fn has_gpu(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<GpuExec>() || plan.children().into_iter().any(has_gpu)
}

/// Whether the query is placed, and the decision.
fn decide(session: &Arc<Session>, plan: &Arc<dyn ExecutionPlan>) -> (bool, Decision) {
    let mut decision = Decision::default();
    let placed = place(session, &auto(), CORES, Arc::clone(plan), &mut decision).expect("placed or not");
    (has_gpu(&placed), decision)
}

/// Number of cores of the CPU in the comparison, on any machine.
const CORES: usize = 1;

const QUERY: &str = "SELECT sum(v) FROM t WHERE v % 3 = 1";

/// A statement in which [`QUERY`] is a tenth at most; the rest has no device version.
fn small_part() -> String {
    let numbered = " UNION ALL SELECT sum(n) FROM (SELECT median(v) OVER (ORDER BY v % 17) AS n FROM t)";
    format!("{QUERY}{}", numbered.repeat(8))
}

#[tokio::test]
async fn single_row_group_scan_is_predicted_on_one_core() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, plan) = plan(&folder, QUERY).await;
    let (one, many) = (Estimator::new(1), Estimator::new(16));
    assert!(many.host_seconds(&plan) > 0.9 * one.host_seconds(&plan));
}

/// The time of a group-by on the device depends on the rows that it reads, not on those of the table.
#[tokio::test]
async fn aggregate_cost_uses_rows_after_filters() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, ctx) = session(&folder).await;
    let grouped = async |sql: &str| {
        let plan = planned(&ctx, sql).await;
        Estimator::new(1).grouped_rows(&plan)
    };
    let all = grouped("SELECT v % 7, count(*) FROM t GROUP BY v % 7").await;
    assert_eq!(all, Some(200_000.0));
    let few = grouped("SELECT v % 7, count(*) FROM t WHERE v < 2000 GROUP BY v % 7 ORDER BY 1").await;
    assert!(
        few.is_some_and(|rows| (1000.0..4000.0).contains(&rows)),
        "{few:?}"
    );
    // The topmost of two aggregates counts.
    let outer = "SELECT max(n) FROM (SELECT v % 7 AS n FROM t GROUP BY v % 7 LIMIT 10)";
    assert_eq!(grouped(outer).await, Some(10.0));
    assert_eq!(grouped("SELECT v FROM t WHERE v < 2000").await, None);
}

#[tokio::test]
async fn cpu_runs_pay_for_loading_until_subtree_is_placed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, QUERY).await;
    // The device is not open and no column was read: the warm-up takes longer than the query on the CPU.
    let (placed, decision) = decide(&session, &plan);
    assert!(!placed);
    assert!(
        decision.reasons.texts[0].contains("predicted, with loading"),
        "{:?}",
        decision.reasons.texts
    );
    let all: f64 = forgone(&decision.waiting).iter().map(|one| one.seconds).sum();
    assert!(all > 0.0 && decision.made.is_empty());
    pay(&session, &plan);
    let (placed, decision) = decide(&session, &plan);
    assert!(placed, "a query that keeps coming is worth it");
    assert!(forgone(&decision.waiting).is_empty() && !decision.made.is_empty());
    // If the loaded columns are evicted again, queries wait again.
    session.engine().history().made(&decision.made);
    assert!(!decide(&session, &plan).0);
}

#[tokio::test]
async fn queries_share_the_cost_of_loading_a_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session(&folder).await;
    pay(&session, &planned(&ctx, QUERY).await);
    let second = planned(&ctx, "SELECT sum(v) FROM t WHERE v % 3 = 2").await;
    assert!(decide(&session, &second).0, "same kernels, same column");
    let third = planned(&ctx, "SELECT max(v) FROM t WHERE v % 5 > 2").await;
    let (placed, decision) = decide(&session, &third);
    assert!(!placed, "its kernels were never compiled");
    let shares = || forgone(&decision.waiting).into_iter().map(|one| one.seconds);
    let largest = shares().fold(0.0, f64::max);
    assert!(
        largest > 0.99 * shares().sum::<f64>(),
        "{:?}",
        forgone(&decision.waiting)
    );
}

#[tokio::test]
async fn measured_times_override_predicted_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, QUERY).await;
    pay(&session, &plan);
    let query = decide(&session, &plan).1.query.expect("its runs are counted");
    let (history, ms) = (session.engine().history(), Duration::from_millis);
    history.ran(query, RunKind::Cold, ms(900));
    assert!(
        decide(&session, &plan).0,
        "the first run has loaded; the next ones tell"
    );
    history.ran(query, RunKind::Cold, ms(900));
    assert!(
        !decide(&session, &plan).0,
        "far beyond the prediction for the CPU"
    );
    history.ran(query, RunKind::Host, ms(800));
    assert!(
        decide(&session, &plan).0,
        "900 ms is near 800 ms, and part of the second run may be warm-up"
    );
    history.ran(query, RunKind::Cold, ms(950));
    let (placed, decision) = decide(&session, &plan);
    assert!(!placed && decision.query == Some(query));
    assert!(
        decision.reasons.texts[0].contains("900 ms on the device (measured)"),
        "{:?}",
        decision.reasons.texts
    );
    history.ran(query, RunKind::Cold, ms(700));
    assert!(decide(&session, &plan).0, "the device was faster once");
}

#[tokio::test]
async fn slow_warm_runs_are_retried_before_rejection() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, QUERY).await;
    pay(&session, &plan);
    let query = decide(&session, &plan).1.query.expect("its runs are counted");
    let (history, ms) = (session.engine().history(), Duration::from_millis);
    history.ran(query, RunKind::Host, ms(800));
    for _ in 0..POLICY.warm_trials {
        assert!(decide(&session, &plan).0);
        history.ran(query, RunKind::Warm, ms(900));
        assert!(!decide(&session, &plan).0);
        (0..POLICY.retry).for_each(|_| history.ran(query, RunKind::Host, ms(800)));
    }
    assert!(!decide(&session, &plan).0, "it was slower three times");
}

/// The queries of the session leave the cores no idle time, so that the background does nothing.
#[tokio::test]
async fn cpu_runs_increase_paid_share_of_warm_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, QUERY).await;
    let config = GalateaConfig {
        warmup: SettingValue::parse("true").expect("a switch"),
        ..auto()
    };
    let mut shares = Vec::new();
    for _ in 0..100_000 {
        let mut decision = Decision::default();
        let found = place(&session, &config, 1, Arc::clone(&plan), &mut decision).expect("decided");
        if !Arc::ptr_eq(&found, &plan) {
            assert!(shares.windows(2).all(|two| two[0] <= two[1]), "{shares:?}");
            assert!(shares.len() > 1, "one run does not pay for the start of a GPU");
            return;
        }
        let text = decision.reasons.texts.join("; ");
        let share = text
            .split(" % paid")
            .next()
            .and_then(|head| head.rsplit(' ').next());
        shares.push(
            share
                .and_then(|share| share.parse::<u32>().ok())
                .expect("a share"),
        );
        session.engine().history().forgo(&forgone(&decision.waiting));
    }
    panic!("never placed: {:?}", shares.last());
}

#[tokio::test]
async fn share_of_the_warm_up_that_a_run_pays_follows_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, QUERY).await;
    let (_, decision) = decide(&session, &plan);
    let host = decision.host.expect("all rows are computed").compared;
    let timing = Timing::new(&session, &decision).expect("its runs are counted");
    let paid = |took: f64| timing.forgone(took).iter().map(|one| one.seconds).sum::<f64>();
    assert!(paid(host) > 0.0);
    for factor in [1.0 / 3.0, 3.0] {
        assert!((paid(factor * host) / paid(host) - factor).abs() < 1e-6);
    }
}

#[tokio::test]
async fn small_subtree_of_large_query_is_not_placed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session(&folder).await;
    // Another query has paid for the column and the kernel.
    pay(&session, &planned(&ctx, QUERY).await);
    let plan = planned(&ctx, &small_part()).await;
    let (placed, decision) = decide(&session, &plan);
    assert!(!placed);
    assert!(
        decision.reasons.texts[0].contains("is expected to save"),
        "{:?}",
        decision.reasons.texts
    );
    // A short run shows that the number of rows was overestimated, for the part as well.
    let query = decision.query.expect("its runs are counted");
    session
        .engine()
        .history()
        .ran(query, RunKind::Host, Duration::from_millis(2));
    assert!(!decide(&session, &plan).0);
}

/// The reason why nothing of a query over `t`, and over a table `s` of 10 rows, is placed.
async fn reason(sql: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session(&folder).await;
    let path = folder.path().join("s.parquet").display().to_string();
    let small = ctx.sql("SELECT v AS k FROM t WHERE v < 10").await.expect("valid");
    small
        .write_parquet(&path, DataFrameWriteOptions::new(), None)
        .await
        .expect("written");
    ctx.register_parquet("s", &path, ParquetReadOptions::default())
        .await
        .expect("a table");
    let config = GalateaConfig {
        min_rows: SettingValue::parse("1000").expect("a number"),
        ..auto()
    };
    let (plan, mut decision) = (planned(&ctx, sql).await, Decision::default());
    let placed = place(&session, &config, CORES, plan, &mut decision).expect("placed or not");
    assert!(!has_gpu(&placed), "the device is cold");
    decision.reasons.texts.join("; ")
}

#[tokio::test]
async fn small_tables_are_placed_with_large_ones() {
    let alone = reason("SELECT sum(k) FROM s").await;
    assert!(
        alone.contains("galatea.tuning.min_rows = 1000, the largest table has 10 rows"),
        "{alone}"
    );
    let groups = "SELECT v % 7 AS g, count(*) AS n FROM t GROUP BY v % 7";
    let joined = reason(&format!("SELECT sum(n) FROM s JOIN ({groups}) ON k = g")).await;
    assert!(
        joined.contains("with loading") && !joined.contains("min_rows"),
        "{joined}"
    );
}

#[tokio::test]
async fn limit_reduces_predicted_cpu_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, "SELECT v FROM t WHERE v % 3 = 1 LIMIT 10").await;
    let (placed, decision) = decide(&session, &plan);
    assert!(!placed && !decision.reasons.texts.is_empty());
}

#[tokio::test]
async fn query_key_depends_on_data_and_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, first) = plan(&folder, QUERY).await;
    let same = key::query(&first, &auto());
    assert_eq!(same, key::query(&first, &auto()));
    assert_ne!(same, key::query(&first, &GalateaConfig::default()));
    std::thread::sleep(Duration::from_millis(20));
    let (_, rewritten) = plan(&folder, QUERY).await;
    assert_ne!(same, key::query(&rewritten, &auto()));
    let (_, other) = plan(&folder, "SELECT sum(v) FROM t WHERE v % 3 = 2").await;
    assert_ne!(key::query(&rewritten, &auto()), key::query(&other, &auto()));
}

/// The placement inputs of a cached plan are those that would decide the next one.
#[tokio::test]
async fn placement_inputs_hold_until_decision_would_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, QUERY).await;
    let (history, ms) = (session.engine().history(), Duration::from_millis);
    let holds = |decision: &Decision| {
        let placement_inputs = decision.placement_inputs.as_ref();
        placement_inputs.map(|placement_inputs| placement_inputs.hold(&plan, &session, &auto()))
    };
    // A subtree that waits for loading waits until it is paid for; one that is placed before its columns are
    // resident is decided again each time.
    let (placed, waiting) = decide(&session, &plan);
    assert!(!placed && holds(&waiting) == Some(true));
    let query = waiting.query.expect("its runs are counted");
    pay(&session, &plan);
    assert_eq!(holds(&waiting), Some(false), "it is paid for");
    let (placed, first) = decide(&session, &plan);
    assert!(placed && holds(&first).is_none());
    for _ in 0..POLICY.trials {
        history.ran(query, RunKind::Cold, ms(900));
    }
    let (placed, slower) = decide(&session, &plan);
    assert!(!placed && holds(&slower) == Some(true));
    history.ran(query, RunKind::Host, ms(1500));
    assert_eq!(holds(&slower), Some(false), "the CPU turned out to take longer");
    let (placed, loading) = decide(&session, &plan);
    assert!(placed && holds(&loading).is_none());
    history.ran(query, RunKind::Host, ms(800));
    let (placed, settled) = decide(&session, &plan);
    assert!(!placed && holds(&settled) == Some(true));
    history.ran(query, RunKind::Host, ms(700));
    assert_eq!(holds(&settled), Some(true), "faster still on the CPU");
    history.ran(query, RunKind::Cold, ms(100));
    assert_eq!(holds(&settled), Some(false), "the device was faster");
    // A pipeline that was refused in the meantime may be part of the query.
    let (_, before) = decide(&session, &self::plan(&folder, "SELECT v FROM t LIMIT 3").await.1);
    assert_eq!(holds(&before), Some(true));
    history.refuse(PlanKey(1), Reason::EmulatedDevice);
    assert_eq!(holds(&before), Some(false));
}

#[tokio::test]
async fn query_with_small_hot_gain_has_cacheable_decision() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plan) = plan(&folder, &small_part()).await;
    let (placed, decision) = decide(&session, &plan);
    assert!(forgone(&decision.waiting).is_empty());
    let placement_inputs = decision.placement_inputs.expect("no run will change it");
    assert!(!placed && placement_inputs.hold(&plan, &session, &auto()));
}

/// Regardless of the time of the whole query, and also below a limit, which ends.
#[tokio::test]
async fn streams_are_decided_by_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session(&folder).await;
    let stream = |plan: &Arc<dyn ExecutionPlan>| {
        fn has_stream(plan: &Arc<dyn ExecutionPlan>) -> bool {
            plan.is::<GpuStreamExec>() || plan.children().into_iter().any(has_stream)
        }
        has_stream(plan)
    };
    let time = DataType::Timestamp(TimeUnit::Second, None);
    let fields = vec![
        Field::new("ts", time, false),
        Field::new("v", DataType::Int64, false),
    ];
    let channel = Channel::new(Arc::new(Schema::new(fields))).ordered_by(["ts"]);
    let (_, table) = channel.open().expect("a channel");
    ctx.register_table("s", table).expect("a new table");
    for (sql, expected) in [
        (
            "SELECT v * v % 7, abs(v) % 5, v / 3 FROM s WHERE abs(v) * 2 > v % 5",
            true,
        ),
        ("SELECT v FROM s WHERE v > 1", false),
        (
            "SELECT date_bin(INTERVAL '1 minute', ts) AS w, sum(v) FROM s GROUP BY w",
            true,
        ),
    ] {
        let plan = planned(&ctx, sql).await;
        let mut decision = Decision::default();
        let placed = place(&session, &auto(), CORES, plan, &mut decision).expect("placed or not");
        assert_eq!(stream(&placed), expected, "{sql}: {:?}", decision.reasons.texts);
    }
}

/// A session with our rules over the same file and with an emulated device, with this value of
/// `galatea.warmup`.
async fn session_with_device(folder: &tempfile::TempDir, warmup: bool) -> (Arc<Session>, SessionContext) {
    let (_, files) = session(folder).await;
    let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default());
    let engine = Engine::with_open_device(device.expect("always there"));
    let session = Session::new(engine, QueryReports::default()).with_environment(files.runtime_env());
    let session = Arc::new(session);
    let warmup = SettingValue::parse(&warmup.to_string()).expect("a switch");
    let mut config = SessionConfig::new().with_target_partitions(1);
    config
        .options_mut()
        .extensions
        .insert(GalateaConfig { warmup, ..auto() });
    let place: Arc<dyn PhysicalOptimizerRule + Send + Sync> =
        Arc::new(PlaceOnDevice::new(Arc::clone(&session)));
    let annotate = Arc::new(AnnotatePlacement::new(Arc::clone(&session)));
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(files.runtime_env())
        .with_physical_optimizer_rules(vec![place, annotate])
        .build();
    let ctx = SessionContext::new_with_state(state);
    let path = folder.path().join("t.parquet");
    let path = path.to_str().expect("a path of text");
    ctx.register_parquet("t", path, ParquetReadOptions::default())
        .await
        .expect("a table");
    (session, ctx)
}

/// Lets the emulated device be the faster one for the query, which it would not be by its measured times.
fn prefer_device(session: &Session, plan: &Arc<dyn ExecutionPlan>) {
    let placement = plan.downcast_ref::<PlacementExec>().expect("the root");
    let query = placement.query().expect("its runs are counted");
    session
        .engine()
        .history()
        .ran(query, RunKind::Warm, Duration::from_nanos(1));
}

/// Runs a query and returns its plan and its first column.
async fn run(ctx: &SessionContext, sql: &str) -> (Arc<dyn ExecutionPlan>, Vec<i64>) {
    let plan = planned(ctx, sql).await;
    let batches = datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx()).await;
    let batches = batches.expect("rows");
    let values = batches.iter().flat_map(|batch| {
        let column = batch.column(0).as_primitive::<Int64Type>();
        column.values().to_vec()
    });
    (plan, values.collect())
}

fn device(plan: &Arc<dyn ExecutionPlan>) -> QueryDevice {
    query_report(plan).expect("offered to the device").device
}

/// Number of runs, at most 20, until [`QUERY`] is on the device; each waits for the background work of the
/// previous one.
async fn runs_until_placed(warmup: bool) -> Option<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session_with_device(&folder, warmup).await;
    for number in 1..=20 {
        let (plan, sum) = run(&ctx, QUERY).await;
        assert_eq!(sum, [(0..200_000).filter(|v| v % 3 == 1).sum::<i64>()]);
        if device(&plan) == QueryDevice::Gpu {
            return Some(number);
        }
        session.finish_background().await;
    }
    None
}

#[tokio::test]
async fn missing_columns_and_kernels_are_prepared_in_background() {
    let runs = runs_until_placed(true).await;
    assert_eq!(runs, Some(2), "the background has loaded and compiled");
    assert_eq!(
        runs_until_placed(false).await,
        None,
        "twenty runs have not paid for it"
    );
}

/// Pipelines of other queries may have the same kernel with other build sides.
#[tokio::test]
async fn cached_probe_kernel_does_not_imply_cached_build_sides() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session_with_device(&folder, true).await;
    let joined = |build: &str| format!("SELECT count(*) FROM t JOIN ({build}) AS d ON t.v = d.k");
    for _ in 0..2 {
        run(&ctx, &joined("SELECT v AS k FROM t WHERE v % 5 = 1")).await;
        session.finish_background().await;
    }
    let (plan, rows) = run(
        &ctx,
        &joined("SELECT v AS k FROM t WHERE v % 7 > 2 AND v < 100000"),
    )
    .await;
    assert_eq!(rows, [(0..100_000).filter(|v| v % 7 > 2).count() as i64]);
    let placement = plan.downcast_ref::<PlacementExec>().expect("the root");
    assert_eq!(device(&plan), QueryDevice::Cpu);
    let reasons = placement.reasons().join("; ");
    assert!(reasons.contains("GPU is cold"), "{reasons}");
}

/// A plan that was decided with all of its columns in device memory is decided again once one has been
/// evicted from it, or from the store.
#[tokio::test]
async fn placement_inputs_hold_until_columns_are_evicted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session_with_device(&folder, true).await;
    for _ in 0..2 {
        let (plan, _) = run(&ctx, QUERY).await;
        prefer_device(&session, &plan);
        session.finish_background().await;
    }
    let (plan, _) = run(&ctx, QUERY).await;
    let placement = plan.downcast_ref::<PlacementExec>().expect("the root");
    assert_eq!(device(&plan), QueryDevice::Gpu, "{:?}", placement.reasons());
    let placement_inputs = placement.placement_inputs().expect("nothing is left to load");
    let config = ctx.state().config_options().extensions.get().cloned();
    let config: GalateaConfig = config.expect("set");
    let holds = || placement_inputs.hold(&plan, &session, &config);
    assert!(holds() && holds());
    let [opened] = &session.engine().devices()[..] else {
        panic!("one device");
    };
    opened.memory().clear().expect("evicted");
    assert!(!holds() && !holds(), "the columns have left device memory");
    run(&ctx, QUERY).await;
    session.finish_background().await;
    run(&ctx, QUERY).await;
    assert!(holds() && holds(), "they have come back");
    session.engine().store().clear_cache();
    assert!(!holds() && !holds(), "they have left the store");
}

#[tokio::test]
async fn top_k_moves_to_device_with_measured_group_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, ctx) = session_with_device(&folder, true).await;
    let query = "SELECT v % 99991 AS k, count(*) AS c FROM t GROUP BY k ORDER BY c DESC, k LIMIT 3";
    let mut first_on_device = Vec::new();
    for _ in 0..4 {
        let (plan, keys) = run(&ctx, query).await;
        assert_eq!(keys, [0, 1, 2]);
        prefer_device(&session, &plan);
        if device(&plan) == QueryDevice::Gpu {
            let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false);
            first_on_device.push(shown.to_string().contains("first 3"));
        }
        session.finish_background().await;
    }
    let expected = [false, true, true];
    assert_eq!(
        first_on_device, expected,
        "kernels of the order are made behind the first run there"
    );
}
