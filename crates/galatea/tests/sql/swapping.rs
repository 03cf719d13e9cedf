//! Preemption: a query yields to an earlier one. Between two launches it parks its partial results, others
//! move them to the host or to a file, and after readmission it continues from the same point.

use crate::compare::{Pair, same};
use crate::data::{Shape, batch};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::cast::as_string_array;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use galatea::GalateaConfig;
use galatea_engine::device::DeviceRuntime;
use galatea_engine::session::Session;
use galatea_memory::regions::{Demand, PipelineName, Priority, RegionKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) fn device(ctx: &SessionContext) -> Arc<DeviceRuntime> {
    let state = ctx.state();
    let config = GalateaConfig::of(state.config_options());
    let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
    session.engine().device(&config).expect("the emulated device")
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{what} takes too long");
}

/// Numbers and names of the pipelines of `galatea_queries()`, by arrival. An expression would run on the
/// device and wait.
async fn listed(ctx: &SessionContext) -> Vec<String> {
    let frame = ctx.sql("SELECT pipeline, work FROM galatea_queries()").await;
    let rows = frame.expect("a plan").collect().await.expect("rows");
    let names = rows.iter().flat_map(|batch| {
        let [numbers, names] = [0, 1].map(|column| as_string_array(batch.column(column)).expect("strings"));
        let named = numbers.iter().flatten().zip(names.iter().flatten());
        named
            .map(|(number, name)| format!("{number}: {name}"))
            .collect::<Vec<_>>()
    });
    names.collect()
}

/// Runs a query while an earlier one requests its memory. Returns whether it was preempted before its end. In
/// between, all its data are on the host.
async fn interrupted(pair: &Pair, sql: &str, expected: &[RecordBatch]) -> bool {
    let device = device(&pair.gpu);
    let memory = device.memory();
    let parked = || {
        let regions = memory.regions();
        let working: Vec<_> = regions
            .into_iter()
            .filter(|region| region.kind == RegionKind::Working)
            .collect();
        !working.is_empty() && working.iter().all(|region| region.device_bytes == 0)
    };
    let never = AtomicBool::new(false);
    let earlier = memory
        .admission()
        .begin(
            PipelineName::new(0, "the earlier query"),
            Priority::default(),
            Demand::default(),
            1 << 40,
            &never,
        )
        .expect("a turn");
    let frame = pair.gpu.sql(sql).await.expect("a plan");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let ended = Arc::new(AtomicBool::new(false));
    let query = {
        let (plan, context, ended) = (Arc::clone(&plan), pair.gpu.task_ctx(), Arc::clone(&ended));
        tokio::spawn(async move {
            let rows = collect(plan, context).await;
            ended.store(true, Ordering::SeqCst);
            rows
        })
    };
    until("the beginning", || {
        ended.load(Ordering::SeqCst) || memory.admission().queries().len() > 1
    })
    .await;
    // From now on the earlier query requests memory: this query yields after its next launch, or ends.
    tokio::task::block_in_place(|| earlier.wait_for_room(&never));
    let preemptions = !ended.load(Ordering::SeqCst) && memory.admission().queries().len() > 1;
    if preemptions {
        memory.clear().expect("everything that can be moved is moved");
        assert!(parked(), "{sql}\n{:?}", memory.regions());
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!ended.load(Ordering::SeqCst), "it waits for the other one's end");
        let names = listed(&pair.gpu).await;
        assert_eq!(names[0], "p0: the earlier query");
        // Below one pipeline, EXPLAIN has no numbers.
        let shown = displayable(plan.as_ref()).indent(true).to_string();
        let number = names[1].split(':').next().expect("a number");
        let is_shown = shown.contains(&format!("pipeline={number}"));
        assert!(is_shown || number == "p0", "{names:?}\n{shown}");
    }
    drop(earlier);
    let rows = query
        .await
        .expect("no panic")
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    same(expected, &rows).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
    let shown = displayable(plan.as_ref()).indent(true).to_string();
    assert_eq!(preemptions, shown.contains("preemptions=1"), "{sql}\n{shown}");
    preemptions
}

async fn check(settings: &[(&str, &str)], queries: &[&str]) {
    let mut all = vec![
        ("galatea.tuning.chunk_rows", "300"),
        ("galatea.tuning.block_threads", "32"),
        ("galatea.tuning.min_rows", "0"),
        // Chunks are streamed.
        ("galatea.cache.device", "false"),
    ];
    all.extend(settings);
    let pair = Pair::new(&all);
    pair.table("t", &[batch(30_000, 3, Shape::Ordinary)]);
    for sql in queries {
        let frame = pair.cpu.sql(sql).await.expect("a plan");
        let expected = frame.collect().await.expect("an answer");
        let mut tries = 0;
        while !interrupted(&pair, sql, &expected).await {
            tries += 1;
            assert!(tries < 20, "it always ends first: {sql}");
        }
    }
    let device = device(&pair.gpu);
    assert!(device.memory().admission().queries().is_empty());
    let regions = device.memory().regions();
    assert!(regions.iter().all(|region| region.owner.is_none()), "{regions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn preempted_query_resumes_where_it_stopped() {
    let queries = [
        "SELECT count(*), sum(i32), min(i64), max(d18) FROM t WHERE v >= 0",
        "SELECT i64, u64, count(*), sum(d9) FROM t GROUP BY i64, u64",
        "SELECT low, flag, sum(d9), avg(f64) FROM t GROUP BY low, flag",
        "SELECT i32, i64, v FROM t WHERE v % 3 = 1",
        "SELECT i32, v FROM t WHERE v % 3 = 1 ORDER BY i32, v",
    ];
    check(&[], &queries).await;
    check(&[("galatea.tuning.row_output", "heap")], &queries[3..]).await;
    check(&[("galatea.tuning.row_output", "direct")], &queries[3..]).await;
    check(&[("galatea.tuning.persistent_scan", "on")], &queries).await;
    let small = [
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.tuning.hash_slots", "64"),
    ];
    check(&small, &queries[1..3]).await;
}

/// Resident columns are read by few launches. Completed work is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn preempted_query_does_not_repeat_completed_chunks() {
    let settings = [
        ("galatea.cache.device", "true"),
        ("galatea.tuning.row_output", "direct"),
    ];
    check(
        &settings,
        &[
            "SELECT i32, i64, v FROM t WHERE v % 3 = 1",
            "SELECT k, count(*), sum(v) FROM t GROUP BY k",
        ],
    )
    .await;
}
