//! Memory that is freed when stored tables are dropped, and chunks that are copied when tables grow.

use crate::compare::{Pair, same};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use galatea::{GalateaConfig, QueryDevice};
use galatea_engine::session::Session;
use std::sync::Arc;

fn session(settings: &[(&str, &str)]) -> SessionContext {
    let mut builder = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", "emulated");
    for (name, value) in settings {
        builder = builder.with_setting(*name, *value);
    }
    builder.build().expect("a session")
}

async fn run(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = galatea::sql(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// Runs a query, which must use the device. Returns its rows and the bytes that crossed the link.
async fn on_device(ctx: &SessionContext, sql: &str) -> (Vec<RecordBatch>, u64) {
    let rows = run(ctx, sql).await;
    let report = galatea::last_query_report(ctx).expect("a query ran");
    assert_eq!(
        report.device,
        QueryDevice::Emulated,
        "{sql}\n{:?}",
        report.reasons
    );
    (rows, report.link_bytes)
}

/// Bytes of encoded columns in host memory, and of their copies in device memory.
fn held(ctx: &SessionContext) -> (u64, u64) {
    let state = ctx.state();
    let config = GalateaConfig::of(state.config_options());
    let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
    let device = session.engine().device(&config).expect("the emulated device");
    (session.engine().store().memory_used(), device.memory().bytes())
}

const WIDE: &str = "SELECT (value * 7919) % 1000003 * 1000003 + value AS x, 'w' || (value % 100) AS w \
                    FROM generate_series(1, 20000) AS g(value)";
const QUERIES: &[&str] = &[
    "SELECT sum(x), count(*) FROM t",
    "SELECT w, count(*), max(x) FROM t GROUP BY w",
];

#[tokio::test]
async fn dropped_tables_free_host_and_device_memory_immediately() {
    let ctx = session(&[("galatea.memory.store_limit", "1 MiB")]);
    for _ in 0..8 {
        run(&ctx, &format!("CREATE TABLE t AS {WIDE}")).await;
        for sql in QUERIES {
            on_device(&ctx, sql).await;
        }
        let (host, device) = held(&ctx);
        assert!(host > 160_000 && device > 160_000, "{host} {device}");
        run(&ctx, "DROP TABLE t").await;
        assert_eq!(held(&ctx), (0, 0));
    }
}

#[tokio::test]
async fn replaced_rows_free_host_and_device_memory_immediately() {
    let ctx = session(&[("galatea.memory.store_limit", "2 MiB")]);
    run(&ctx, &format!("CREATE TABLE t AS {WIDE}")).await;
    let (host, _) = held(&ctx);
    for change in [
        &format!("CREATE OR REPLACE TABLE t AS {WIDE}"),
        &format!("INSERT OVERWRITE t {WIDE}"),
        "UPDATE t SET x = x - 1 WHERE x > 1000003",
        "DELETE FROM t WHERE w = 'w7'",
        "ALTER TABLE t SET (conflict_layout = 'auto')",
    ] {
        for _ in 0..3 {
            for sql in QUERIES {
                on_device(&ctx, sql).await;
            }
            match change.starts_with("ALTER") {
                true => {
                    galatea::sql(&ctx, change)
                        .await
                        .expect("places")
                        .collect()
                        .await
                        .expect("places");
                }
                false => drop(run(&ctx, change).await),
            }
            let (after, device) = held(&ctx);
            assert!(
                after <= host + host / 2,
                "{change}: {host} bytes before, {after} after"
            );
            // A layout leaves the other columns unchanged.
            assert!(
                device == 0 || change.starts_with("ALTER") || change.starts_with("DELETE"),
                "{change}: {device} bytes on the device"
            );
        }
    }
}

#[tokio::test]
async fn an_insert_copies_its_own_rows() {
    let ctx = session(&[("galatea.tuning.chunk_rows", "5000")]);
    run(&ctx, &format!("CREATE TABLE t AS {WIDE}")).await;
    for sql in QUERIES {
        let (_, copied) = on_device(&ctx, sql).await;
        assert!(copied > 0);
    }
    let (_, before) = held(&ctx);
    for round in 0..20 {
        run(&ctx, "INSERT INTO t VALUES (7919023758, 'w5')").await;
        for sql in QUERIES {
            let (rows, copied) = on_device(&ctx, sql).await;
            assert!(copied < 8192, "round {round}: {copied} bytes for one row\n{sql}");
            run(&ctx, "SET galatea.device = 'cpu'").await;
            let expected = run(&ctx, sql).await;
            run(&ctx, "SET galatea.device = 'emulated'").await;
            if let Err(difference) = same(&expected, &rows) {
                panic!("round {round}\n{sql}\n{difference}");
            }
        }
    }
    // Few chunks were transferred, and no copies of old ones remain.
    let (_, after) = held(&ctx);
    assert!(after < before + 20 * 1024, "{before} bytes, then {after}");
    let plan = run(&ctx, "EXPLAIN SELECT x FROM t").await;
    let plan = format!("{}", pretty_format_batches(&plan).expect("text"));
    assert!(plan.contains("/6"), "four full chunks, 16 rows and 4:\n{plan}");
    // Values outside the bounds rebind the pipeline, and are in the answer.
    run(&ctx, "INSERT INTO t VALUES (-5000000000000000000, 'new')").await;
    for sql in QUERIES {
        let (rows, _) = on_device(&ctx, sql).await;
        run(&ctx, "SET galatea.device = 'cpu'").await;
        let expected = run(&ctx, sql).await;
        run(&ctx, "SET galatea.device = 'emulated'").await;
        if let Err(difference) = same(&expected, &rows) {
            panic!("{sql}\n{difference}");
        }
    }
}

#[tokio::test]
async fn new_chunk_size_applies_immediately() {
    let ctx = session(&[]);
    run(&ctx, "SET galatea.device = 'cpu'").await;
    for (rows, chunks) in [(100, 10), (500, 2), (1000, 1)] {
        run(
            &ctx,
            &format!("ALTER SYSTEM SET galatea.tuning.chunk_rows = {rows}"),
        )
        .await;
        let made = "CREATE OR REPLACE TABLE t AS SELECT value AS x FROM generate_series(1, 1000) AS g(value)";
        run(&ctx, made).await;
        let plan = run(&ctx, "EXPLAIN SELECT x FROM t WHERE x % 2 = 0").await;
        let plan = pretty_format_batches(&plan).expect("text");
        assert!(
            plan.to_string().contains(&format!("chunks={chunks}/{chunks}")),
            "{rows} rows a chunk:\n{plan}"
        );
    }
}

/// Bytes of a column's pages in device memory, and the number of pages.
async fn pages(ctx: &SessionContext, column: &str) -> String {
    let sql = format!(
        "SELECT device_bytes, pages_device, pages_loading, pages FROM galatea_memory() WHERE region = '{column}'"
    );
    pretty_format_batches(&run(ctx, &sql).await)
        .expect("text")
        .to_string()
}

#[tokio::test]
async fn system_tables_show_columns_page_by_page() {
    let ctx = session(&[
        ("galatea.tuning.chunk_rows", "1000"),
        ("galatea.tuning.min_rows", "0"),
    ]);
    assert!(
        run(&ctx, "SELECT * FROM galatea_memory()")
            .await
            .iter()
            .all(|b| b.num_rows() == 0)
    );
    run(&ctx, &format!("CREATE TABLE t AS {WIDE}")).await;
    on_device(&ctx, QUERIES[0]).await;
    let whole = pages(&ctx, "x").await;
    assert!(
        whole.contains("| 20           | 0             | 20    |"),
        "{whole}"
    );
    run(&ctx, "DROP TABLE t").await;
    let gone = pages(&ctx, "x").await;
    assert!(!gone.contains("20"), "{gone}");
    let idle = run(&ctx, "SELECT * FROM galatea_queries()").await;
    assert!(idle.iter().all(|batch| batch.num_rows() == 0));
    let error = ctx
        .sql("SELECT * FROM galatea_memory(1)")
        .await
        .expect_err("no arguments");
    assert!(
        error.to_string().contains("galatea_memory() takes no arguments"),
        "{error}"
    );
}

#[tokio::test]
async fn columns_can_be_partially_resident() {
    let ctx = session(&[
        ("galatea.tuning.chunk_rows", "1000"),
        ("galatea.tuning.min_rows", "0"),
    ]);
    run(&ctx, &format!("CREATE TABLE t AS {WIDE}")).await;
    let (expected, loaded) = on_device(&ctx, QUERIES[0]).await;
    let needed = held(&ctx).1;
    for share in [80, 50, 20] {
        // In addition to the pages: slots and the memory of a launch.
        run(
            &ctx,
            &format!(
                "ALTER SYSTEM SET galatea.memory.gpu_limit = '{}'",
                needed * share / 100 + 50_000
            ),
        )
        .await;
        let (_, _) = on_device(&ctx, QUERIES[0]).await;
        let (rows, streamed) = on_device(&ctx, QUERIES[0]).await;
        same(&expected, &rows).unwrap_or_else(|difference| panic!("{share} %: {difference}"));
        assert!(
            streamed > 0 && streamed < loaded * (110 - share) / 100,
            "{share} %: {streamed} of {loaded} bytes crossed the link"
        );
    }
}

#[tokio::test]
async fn tables_without_rows_are_read_on_the_device() {
    let ctx = session(&[("galatea.tuning.min_rows", "0")]);
    run(&ctx, &format!("CREATE TABLE t AS {WIDE}")).await;
    run(&ctx, "CREATE TABLE none AS SELECT * FROM t WHERE x < 0").await;
    for sql in [
        "SELECT sum(x), count(w) FROM none WHERE x % 2 = 1",
        "SELECT w, count(*), max(x) FROM none GROUP BY w",
        "SELECT x FROM none WHERE x % 2 = 1",
        "SELECT sum(x) FROM t WHERE x < -5 AND x % 2 = 1",
    ] {
        on_device(&ctx, sql).await;
        let report = galatea::last_query_report(&ctx).expect("a query ran");
        assert_eq!(report.fell_back, 0, "{sql}\n{:?}", report.reasons);
    }
}

/// Ablations of the memory manager change times, but no answer.
#[tokio::test]
async fn ablations_change_no_result() {
    let queries = [
        "SELECT sum(x), count(*) FROM t",
        "SELECT w, count(*), max(x) FROM t GROUP BY w",
        "SELECT x, w FROM t WHERE x % 7 = 1",
        "SELECT sum(y), max(z) FROM t WHERE w <> 'w3'",
    ];
    let table = format!("CREATE TABLE t AS SELECT x, w, x * 3 AS y, x + 7 AS z FROM ({WIDE})");
    for limit in ["1 MiB", "640 KiB", "64 MiB"] {
        let ctx = session(&[
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "1000"),
            ("galatea.tuning.min_rows", "0"),
        ]);
        run(&ctx, &table).await;
        run(&ctx, "SET galatea.device = 'cpu'").await;
        let mut expected = Vec::new();
        for sql in queries {
            expected.push(run(&ctx, sql).await);
        }
        run(&ctx, "SET galatea.device = 'emulated'").await;
        let all = "eager,copied,no-reference,no-access,whole-region";
        for ablation in ["none"].into_iter().chain(all.split(',')).chain([all, "naive"]) {
            run(
                &ctx,
                &format!("ALTER SYSTEM SET galatea.debug.memory_ablations = '{ablation}'"),
            )
            .await;
            for round in 0..2 {
                for (sql, expected) in queries.iter().zip(&expected) {
                    let rows = run(&ctx, sql).await;
                    if let Err(difference) = same(expected, &rows) {
                        panic!("{limit}, {ablation}, round {round}\n{sql}\n{difference}");
                    }
                    let report = galatea::last_query_report(&ctx).expect("a report");
                    let placed = report.device == QueryDevice::Emulated && report.fell_back == 0;
                    assert!(
                        placed || ["no-reference", "naive", all].contains(&ablation),
                        "{limit}, {ablation}\n{sql}\n{:?}",
                        report.reasons
                    );
                }
            }
            let (_, device) = held(&ctx);
            match ablation {
                "naive" => assert_eq!(device, 0, "columns go with their query"),
                _ => assert!(device > 0, "{limit}, {ablation}"),
            }
        }
    }
}

/// The effect of each ablation on the contents of device memory, and on the bytes that cross the link.
#[tokio::test]
async fn each_ablation_disables_its_mechanism() {
    let ctx = session(&[
        ("galatea.memory.gpu_limit", "640 KiB"),
        ("galatea.tuning.chunk_rows", "1000"),
        ("galatea.tuning.min_rows", "0"),
    ]);
    let table = format!("CREATE TABLE t AS SELECT x, x * 3 AS y, x + 7 AS z, x * 5 AS u FROM ({WIDE})");
    run(&ctx, &table).await;
    let shares = async |columns: &[&str]| {
        let mut shares = Vec::new();
        for column in columns {
            let sql = format!("SELECT device_bytes, bytes FROM galatea_memory() WHERE region = '{column}'");
            let rows = run(&ctx, &sql).await;
            let words = pretty_format_batches(&rows).expect("text").to_string();
            let numbers: Vec<u64> = words
                .split('|')
                .filter_map(|cell| cell.trim().parse().ok())
                .collect();
            shares.push(numbers.first().map_or((0, 0), |here| (*here, numbers[1])));
        }
        shares
    };
    // Four columns of 160 KB; three and a part fit.
    for sql in [
        "SELECT sum(x), sum(y), sum(z), sum(u) FROM t",
        "SELECT sum(u), sum(x) FROM t",
    ] {
        run(&ctx, sql).await;
    }
    let parts = shares(&["x", "y", "z", "u"]).await;
    assert!(
        parts.iter().any(|(here, all)| *here > 0 && here < all),
        "{parts:?}"
    );
    run(
        &ctx,
        "ALTER SYSTEM SET galatea.debug.memory_ablations = 'whole-region'",
    )
    .await;
    for sql in [
        "SELECT sum(y), sum(z) FROM t",
        "SELECT sum(u), sum(x) FROM t",
        "SELECT sum(y), sum(u) FROM t",
    ] {
        run(&ctx, sql).await;
    }
    run(&ctx, "SELECT sum(x), sum(y), sum(z), sum(u) FROM t").await;
    let wholes = shares(&["x", "y", "z", "u"]).await;
    assert!(
        wholes.iter().all(|(here, all)| *here == 0 || here == all)
            && wholes.iter().any(|(here, _)| *here > 0),
        "{wholes:?}"
    );
    // Without the manager, queries that do not fit fail.
    run(&ctx, "ALTER SYSTEM SET galatea.debug.memory_ablations = 'naive'").await;
    run(&ctx, "SET galatea.fallback = 'error'").await;
    run(&ctx, "SELECT sum(x) FROM t").await;
    let frame = ctx
        .sql("SELECT sum(x), sum(y), sum(z), sum(u) FROM t")
        .await
        .expect("a plan");
    let error = frame.collect().await.expect_err("no room").to_string();
    assert!(
        error.contains("out of device memory: the scanned columns need"),
        "{error}"
    );
}

/// A hint names a setting only if the setting determined the size. Then the query fits with a lower value.
#[tokio::test]
async fn hints_of_full_memory_name_the_setting_that_helps() {
    let slots = "galatea.tuning.hash_slots";
    let chunks = "galatea.tuning.chunk_rows";
    for (set, limit, named) in [
        ([(slots, "131072"), (chunks, "4096")], "1 MiB", Some(slots)),
        ([(slots, "131072"), (chunks, "4096")], "2 MiB", Some(slots)),
        ([(slots, "64"), (chunks, "1048576")], "512 KiB", Some(chunks)),
        ([(slots, "64"), (chunks, "4096")], "1 MiB", None),
    ] {
        let mut settings = vec![
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.memory.gpu_limit", limit),
        ];
        settings.extend(set);
        let pair = Pair::new(&settings);
        let table = "CREATE TABLE t AS SELECT value % 1000 AS k FROM generate_series(1, 300000)";
        let made = pair.gpu.sql(table).await.expect("parses").collect().await;
        made.expect("a table");
        let sql = "SELECT k * 7919 AS m, count(*) FROM t GROUP BY k * 7919";
        let rows = pair.gpu.sql(sql).await.expect("parses").collect().await;
        rows.expect("rows of either device");
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        let reasons = report.reasons.join("\n");
        match named {
            Some(setting) => {
                let hint = format!("hint: raise galatea.memory.gpu_limit or lower {setting}");
                assert!(reasons.ends_with(&hint), "{set:?}, {limit}:\n{reasons}");
            }
            None => assert_eq!(report.fell_back, 0, "{reasons}"),
        }
    }
}
