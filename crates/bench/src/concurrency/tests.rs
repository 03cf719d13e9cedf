//! The experiments on the emulated device: every configuration has its row, results are compared, and nothing
//! fails.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::load::{Script, Tally};
use super::open::{POLICIES, trace};
use super::{Experiments, Plan};
use crate::Report;
use crate::machine::Machine;
use crate::measure::Ceilings;
use crate::workload::Workload;
use crate::workload::generate::{GenerateOptions, NoProgress, generate};
use crate::workload::tables::Tables;

fn plan(root: &std::path::Path, experiments: Experiments, limit: &str) -> Plan {
    let mut options = GenerateOptions::new(Workload::Ssb, 0.01, root);
    // Row groups are cached as a whole. With one per file, and small chunks, some can be evicted.
    options.parts = 16;
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
    let names = ["1.1", "2.1", "1.2"].map(String::from);
    Plan {
        tables: Tables::find(Workload::Ssb, root).expect("tables"),
        queries: Workload::Ssb.select(0.01, &names).expect("queries"),
        large: None,
        experiments,
        clients: vec![1, 4],
        time: Duration::from_millis(200),
        limit: Some(limit.to_string()),
        seed: 7,
        ceilings: Some(Ceilings {
            device: 1e9,
            link: 1e8,
        }),
        settings: [
            ("galatea.device", "emulated"),
            ("galatea.tuning.chunk_rows", "4096"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .to_vec(),
        machine: Machine::look(None, Some("test".to_string())),
    }
}

#[tokio::test]
async fn every_configuration_is_measured() {
    let root = tempfile::tempdir().expect("a directory");
    let experiments = Experiments {
        clients: true,
        pairs: true,
        naive: true,
        beside: true,
        mixed: false,
        cancel: true,
        open: true,
    };
    // Less than any two of the queries read, but enough for their working memory.
    let plan = plan(root.path(), experiments, "512 KiB");
    let mut done = 0;
    let report = plan.measure(|_| done += 1).await.expect("measured");
    assert_eq!(done, report.rows.len());
    let clients: Vec<_> = report.of("clients").map(|row| row.clients).collect();
    assert_eq!(clients, [1, 4]);
    assert_eq!(report.of("clients").next().and_then(|row| row.speedup), Some(1.0));
    assert_eq!(report.of("beside").count(), 2);
    let pairs = report.of("pair").count();
    assert!((1..=6).contains(&pairs), "{}", report.summary());
    let naive: Vec<_> = report.of("naive").collect();
    assert_eq!(naive.len(), pairs);
    assert!(naive.iter().all(|row| row.failures > 0), "conflicting pairs fail");
    assert_eq!(report.of("cancel").count(), 3);
    let open: Vec<_> = report.of("open").map(|row| (&*row.policy, row.queries)).collect();
    assert_eq!(open.len(), POLICIES.len());
    assert!(
        open.iter().all(|(_, queries)| *queries == open[0].1),
        "one trace: {open:?}"
    );
    assert_eq!(report.of("open").next().and_then(|row| row.speedup), Some(1.0));
    for row in report
        .rows
        .iter()
        .filter(|row| !row.experiment.starts_with("naive") && row.experiment != "cancel")
    {
        assert!(
            row.link_share.is_some_and(|share| share > 0.0) && row.device_share > 0.0,
            "{row:?}"
        );
        assert!(row.max_ms >= row.p99_ms, "{row:?}");
        assert!(
            row.queries >= row.clients.min(1) && row.p99_ms >= row.p50_ms,
            "{row:?}"
        );
        assert_eq!(
            (row.limit_bytes, row.failures, row.wrong),
            (512 << 10, 0, 0),
            "{row:?}"
        );
        assert!(0 < row.peak_bytes && row.peak_bytes <= row.limit_bytes, "{row:?}");
    }
    for row in report.of("pair") {
        assert!(row.joint_bytes > row.limit_bytes, "{row:?}");
        assert!(row.weighted.is_some() && row.sequential.is_some(), "{row:?}");
    }
    assert_eq!(report.defects(), 0, "{:?}", report.problems);
    let text = report.summary();
    assert!(text.contains("Weighted speed-up side by side of"), "{text}");
    let out = tempfile::tempdir().expect("a directory");
    let written = report
        .write(out.path(), "concurrency", "galatea bench concurrency")
        .expect("written");
    let read = |name: &str| std::fs::read_to_string(written.join(name)).expect("a file");
    assert_eq!(read("concurrency.csv").lines().count(), 1 + report.rows.len());
    assert!(read("concurrency-throughput.svg").contains("<svg"));
}

#[tokio::test]
async fn query_pairs_within_memory_limit_are_skipped() {
    let root = tempfile::tempdir().expect("a directory");
    let experiments = Experiments {
        pairs: true,
        ..Experiments::default()
    };
    let report = plan(root.path(), experiments, "1 GiB").measure(|_| ()).await;
    assert!(report.expect("measured").rows.is_empty());
}

#[test]
fn tally_computes_latency_percentiles_and_throughput() {
    let tally = Tally {
        latencies: (1..=100).map(|n| (n % 2, n as f64)).collect(),
        seconds: 50.0,
        ..Tally::default()
    };
    assert_eq!(
        (tally.percentile(50.0), tally.percentile(99.0)),
        (Some(50.0), Some(99.0))
    );
    assert_eq!(
        (tally.mean(None), tally.mean(Some(0)), tally.mean(Some(2))),
        (Some(50.5), Some(51.0), None)
    );
    assert_eq!(tally.per_second(), 2.0);
    assert_eq!(
        (Tally::default().percentile(99.0), Tally::default().per_second()),
        (None, 0.0)
    );
    let both = Tally::of_all(&[tally.clone(), tally]);
    assert_eq!((both.latencies.len(), both.seconds), (200, 50.0));
}

#[test]
fn arrivals_follow_a_poisson_process() {
    let time = Duration::from_secs(1000);
    let arrivals = trace(7, 10.0, time, 13);
    assert_eq!(arrivals, trace(7, 10.0, time, 13));
    assert_ne!(arrivals, trace(8, 10.0, time, 13));
    assert!(
        arrivals.is_sorted_by_key(|(at, _)| *at)
            && arrivals.iter().all(|(at, query)| *at < time && *query < 13)
    );
    // 10,000 are expected; the limits are 5 standard deviations.
    assert!((9500..10500).contains(&arrivals.len()), "{}", arrivals.len());
    // Gaps are exponential: one in e is longer than the mean.
    let gaps = arrivals
        .windows(2)
        .filter(|pair| (pair[1].0 - pair[0].0).as_secs_f64() > 0.1)
        .count();
    let share = gaps as f64 / arrivals.len() as f64;
    assert!((share - (-1.0f64).exp()).abs() < 0.025, "{share}");
}

#[test]
fn query_order_depends_on_the_seed() {
    let rounds = |seed| {
        let mut script = Script::shuffled(13, seed);
        [script.round(), script.round()]
    };
    let [first, second] = rounds(7);
    assert_ne!(first, second);
    assert_eq!(rounds(7), [first.clone(), second]);
    assert_ne!(rounds(8)[0], first);
    let mut sorted = first;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..13).collect::<Vec<_>>());
}

#[tokio::test]
async fn clients_are_measured_beside_large_queries_of_other_tables() {
    let [root, large] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let experiments = Experiments {
        mixed: true,
        ..Experiments::default()
    };
    let options = GenerateOptions::new(Workload::Tpch, 0.01, large.path());
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
    let queries = Workload::Tpch.select(0.01, &["18".to_string()]).expect("a query");
    let tables = Tables::find(Workload::Tpch, large.path()).expect("tables");
    let plan = Plan {
        large: Some((tables, queries)),
        clients: vec![2],
        ..plan(root.path(), experiments, "64 MiB")
    };
    let report = plan.measure(|_| {}).await.expect("measured");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (&*row.experiment, row.clients))
        .collect();
    assert_eq!(
        rows,
        [("mixed large", 1), ("mixed", 2), ("mixed", 2), ("mixed large", 1)]
    );
    assert!(report.rows.iter().all(|row| row.queries > 0));
    assert!(
        report.rows[2].p99_ratio.is_some() && report.rows[2].other == "tpch 18",
        "{}",
        report.summary()
    );
}
