//! Engines and their sessions: sessions of one engine share devices, the store and the engine's settings, but
//! not their own settings. Engines share nothing.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, Engine, GalateaConfig, QueryDevice};
use galatea_engine::session::Session;
use std::sync::Arc;

const TABLE: &str =
    "CREATE TABLE t AS SELECT value % 50 AS k, value AS v FROM generate_series(1, 20000) AS g(value)";
const GROUPS: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k";

fn engine() -> Arc<Engine> {
    let builder = Engine::builder().with_emulated_device(EmulatorOptions::default());
    builder.build().expect("an engine")
}

async fn session(engine: &Arc<Engine>, settings: &[(&str, &str)]) -> SessionContext {
    let mut builder = galatea::session()
        .with_engine(engine)
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.catalog.information_schema", "true");
    for (name, value) in settings {
        builder = builder.with_setting(*name, *value);
    }
    let ctx = builder.build().expect("a session");
    text(&ctx, TABLE).await.expect("a table");
    ctx
}

async fn text(ctx: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = galatea::sql(ctx, sql).await.map_err(|error| error.to_string())?;
    let rows = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(pretty_format_batches(&rows).expect("printable").to_string())
}

/// The limit of the device's memory.
fn limit(ctx: &SessionContext) -> u64 {
    let state = ctx.state();
    let config = GalateaConfig::of(state.config_options());
    let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
    let device = session.engine().device(&config).expect("the emulated device");
    device.device().budget().limit()
}

#[test]
fn engines_and_sessions_are_shared_between_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Engine>();
    is_shared::<Session>();
    is_shared::<SessionContext>();
    fn is_sent<T: Send>(_: &T) {}
    let ctx = SessionContext::new();
    is_sent(&galatea::sql(&ctx, "SELECT 1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_one_engine_keep_separate_settings() {
    let engine = engine();
    let hash = session(
        &engine,
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.cache.device", "off"),
        ],
    )
    .await;
    let dense = session(
        &engine,
        &[
            ("galatea.aggregate.strategy", "dense"),
            ("galatea.cache.device", "on"),
        ],
    )
    .await;
    let cpu = session(
        &engine,
        &[
            ("galatea.device", "cpu"),
            ("galatea.aggregate.strategy", "copies"),
        ],
    )
    .await;
    assert_eq!(engine.sessions(), 3);
    let expected = text(&cpu, &format!("{GROUPS} ORDER BY k")).await.expect("groups");
    let runs = |ctx: SessionContext, strategy: Option<&'static str>, expected: String| {
        tokio::spawn(async move {
            for number in 0..12 {
                let rows = text(&ctx, &format!("{GROUPS} ORDER BY k")).await.expect("groups");
                assert_eq!(rows, expected, "run {number}, {strategy:?}");
                let plan = text(&ctx, &format!("EXPLAIN ANALYZE {GROUPS}"))
                    .await
                    .expect("a plan");
                match strategy {
                    Some(strategy) => assert!(plan.contains(strategy), "run {number}, {strategy}\n{plan}"),
                    None => assert!(!plan.contains("GpuExec"), "run {number}\n{plan}"),
                }
            }
        })
    };
    let all = [
        runs(hash.clone(), Some("hash table"), expected.clone()),
        runs(dense.clone(), Some("dense"), expected.clone()),
        runs(cpu.clone(), None, expected),
    ];
    for run in all {
        run.await.expect("no panic");
    }
    drop((hash, dense));
    drop(cpu);
    assert_eq!(engine.sessions(), 0);
}

#[tokio::test]
async fn engine_settings_apply_to_all_its_sessions_only() {
    let (engine, other) = (engine(), engine());
    let (first, second) = (session(&engine, &[]).await, session(&engine, &[]).await);
    let apart = session(&other, &[]).await;
    let before = limit(&apart);
    let refusal = text(&first, "SET galatea.memory.gpu_limit = '64 MiB'").await;
    let refusal = refusal.expect_err("a setting of the engine");
    assert!(
        refusal.contains("hint: ALTER SYSTEM SET galatea.memory.gpu_limit = '64 MiB'"),
        "{refusal}"
    );
    let changed = text(&first, "ALTER SYSTEM SET galatea.memory.gpu_limit = '64 MiB'").await;
    let changed = changed.expect("a limit");
    assert!(
        changed.contains("| galatea.memory.gpu_limit | 64 MiB | 2        |"),
        "{changed}"
    );
    assert_eq!(
        (limit(&first), limit(&second), limit(&apart)),
        (64 << 20, 64 << 20, before)
    );
    let shown = text(&second, "SHOW galatea.memory.gpu_limit")
        .await
        .expect("a value");
    assert!(shown.contains("64 MiB"), "{shown}");
    let shown = text(&apart, "SHOW galatea.memory.gpu_limit")
        .await
        .expect("a value");
    assert!(shown.contains("auto"), "{shown}");
    for (statement, problem) in [
        (
            "ALTER SYSTEM SET galatea.memory.gpu_limit = 'much'",
            "accepts auto, a size",
        ),
        (
            "ALTER SYSTEM SET galatea.device = 'cpu'",
            "hint: SET galatea.device = 'cpu'",
        ),
        (
            "ALTER SYSTEM SET galatea.memory = '1 GiB'",
            "unknown setting: galatea.memory",
        ),
        ("ALTER SYSTEM SET galatea.memory.admission", "Expected"),
    ] {
        let refusal = text(&second, statement).await.expect_err(statement);
        assert!(refusal.contains(problem), "{statement}\n{refusal}");
    }
    assert_eq!(limit(&first), 64 << 20);
    let reset = text(&second, "ALTER SYSTEM RESET galatea.memory.gpu_limit")
        .await
        .expect("a default");
    assert!(reset.contains("auto"), "{reset}");
    assert_eq!((limit(&first), limit(&apart)), (before, before));
}

#[tokio::test]
async fn reset_gives_settings_their_defaults() {
    let engine = engine();
    let ctx = session(&engine, &[]).await;
    for (name, value, default) in [
        ("galatea.overflow", "wrap", "error"),
        ("galatea.tuning.min_rows", "17", "100000"),
        ("datafusion.execution.batch_size", "77", "8192"),
    ] {
        for reset in [format!("RESET {name}"), format!("SET {name} = DEFAULT")] {
            text(&ctx, &format!("SET {name} = '{value}'")).await.expect(name);
            let shown = text(&ctx, &format!("SHOW {name}")).await.expect(name);
            assert!(shown.contains(&format!(" {value} ")), "{shown}");
            text(&ctx, &reset).await.expect(&reset);
            let shown = text(&ctx, &format!("SHOW {name}")).await.expect(name);
            assert!(shown.contains(&format!(" {default} ")), "{reset}\n{shown}");
        }
    }
    for (reset, problem) in [
        ("RESET galatea.nothing", "unknown setting: galatea.nothing"),
        ("RESET datafusion.nothing", "datafusion.nothing"),
        ("RESET galatea.memory.gpu_limit", "hint: ALTER SYSTEM RESET"),
        ("RESET ALL", "hint: ALTER SYSTEM RESET ALL"),
    ] {
        let refusal = text(&ctx, reset).await.expect_err(reset);
        assert!(refusal.contains(problem), "{reset}\n{refusal}");
    }
}

#[tokio::test]
async fn all_settings_of_an_engine_are_reset_together() {
    let engine = engine();
    let ctx = session(&engine, &[]).await;
    let defaults = galatea::EngineSettings::default();
    for (name, value) in [
        ("galatea.memory.gpu_limit", "64 MiB"),
        ("galatea.memory.admission", "fix-3"),
    ] {
        let change = format!("ALTER SYSTEM SET {name} = '{value}'");
        text(&ctx, &change).await.expect(&change);
    }
    assert_ne!(engine.settings().get(), defaults);
    let reset = text(&ctx, "ALTER SYSTEM RESET ALL").await.expect("defaults");
    assert!(reset.contains("| galatea.memory.admission "), "{reset}");
    assert_eq!(engine.settings().get(), defaults);
}

/// A device that one engine fills is empty for another, and tables of one name are separate.
#[tokio::test]
async fn engines_share_no_tables_or_memory() {
    let (engine, other) = (engine(), engine());
    let (first, second) = (session(&engine, &[]).await, session(&other, &[]).await);
    text(&second, "DROP TABLE t").await.expect("dropped");
    text(&second, "CREATE TABLE t AS SELECT 7 AS k, 1 AS v")
        .await
        .expect("a table");
    let rows = [text(&first, GROUPS).await, text(&second, GROUPS).await].map(|rows| rows.expect("groups"));
    assert!(
        rows[0].lines().count() == 54 && rows[1].contains("| 7 | 1 | 1 |"),
        "{rows:?}"
    );
    for ctx in [&first, &second] {
        let report = galatea::last_query_report(ctx).expect("a report");
        assert_eq!(report.device, QueryDevice::Emulated, "{:?}", report.reasons);
    }
    let held = |engine: &Engine| engine.devices()[0].memory().bytes();
    assert!(held(&engine) > 0 && held(&other) > 0);
    engine.devices()[0].clear().expect("evicted");
    assert!(held(&engine) == 0 && held(&other) > 0);
}

#[tokio::test]
async fn session_with_engine_settings_gets_its_own_engine() {
    let shows = || galatea::session().with_setting("datafusion.catalog.information_schema", "true");
    let with = |setting: &str| shows().with_setting(setting, "5 MiB");
    let alone = with("galatea.memory.store_limit").build().expect("a session");
    let shown = text(&alone, "SHOW galatea.memory.store_limit")
        .await
        .expect("a value");
    assert!(shown.contains("5 MiB"), "{shown}");
    let plain = shows().build().expect("a session");
    let shown = text(&plain, "SHOW galatea.memory.store_limit")
        .await
        .expect("a value");
    assert!(shown.contains("auto"), "{shown}");
    let both = with("galatea.memory.store_limit")
        .with_engine(Engine::of_process())
        .build();
    let refusal = both.err().expect("an engine is given").to_string();
    assert!(
        refusal.contains("galatea.memory.store_limit belongs to the engine"),
        "{refusal}"
    );
    let process = Engine::of_process();
    assert!(process.sessions() >= 1);
    let of = |ctx: &SessionContext| ctx.copied_config().get_extension::<Session>().expect("a session");
    assert!(Arc::ptr_eq(of(&plain).engine(), process) && !Arc::ptr_eq(of(&alone).engine(), process));
}
