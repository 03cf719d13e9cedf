//! The experiment on the emulated device: every share has its rows, and results are compared.

use std::sync::atomic::AtomicBool;

use super::Plan;
use crate::BenchError;
use crate::Report;
use crate::machine::Machine;
use crate::measure::Ceilings;
use crate::workload::Workload;
use crate::workload::generate::{GenerateOptions, NoProgress, generate};
use crate::workload::tables::Tables;

const SETTINGS: [(&str, &str); 2] = [
    ("galatea.device", "emulated"),
    ("galatea.tuning.chunk_rows", "4096"),
];

fn plan(root: &std::path::Path, queries: &[&str], settings: &[(&str, &str)]) -> Plan {
    let mut options = GenerateOptions::new(Workload::Tpch, 0.01, root);
    options.tables = vec!["lineitem".to_string()];
    // Row groups are cached as a whole. With one per file, and small chunks, some can be evicted.
    options.parts = 16;
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
    let tables = Tables::find(Workload::Tpch, root).expect("tables");
    let names: Vec<String> = queries.iter().map(ToString::to_string).collect();
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    Plan {
        queries: Workload::Tpch.select(0.01, &names).expect("queries"),
        tables,
        shares: vec![50, 90, 200],
        iterations: 2,
        settings: settings.iter().map(owned).collect(),
        machine: Machine::look(None, Some("test".to_string())),
        ceilings: Some(Ceilings {
            device: 4e12,
            link: 5e10,
        }),
    }
}

#[tokio::test]
async fn every_memory_share_is_measured() {
    let root = tempfile::tempdir().expect("a directory");
    let plan = plan(root.path(), &["6", "1"], &SETTINGS);
    let mut done = 0;
    let report = plan.measure(|_| done += 1).await.expect("measured");
    assert_eq!(done, 2 * (1 + plan.shares.len()));
    let found: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.query.as_str(), row.share, row.iteration))
        .collect();
    let shares = [None, Some(50), Some(90), Some(200)];
    let expected = ["6", "1"].into_iter().flat_map(|query| {
        let of = move |share| [(query, share, 0), (query, share, 1)];
        shares.into_iter().flat_map(of)
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    for row in &report.rows {
        assert!(row.query_bytes > 0 && row.total_ms > 0.0, "{row:?}");
        match row.share {
            // All data are resident.
            None => assert_eq!(row.resident_bytes, row.query_bytes, "{row:?}"),
            Some(share) => {
                assert_eq!(
                    row.limit_bytes,
                    row.query_bytes * u64::from(share) / 100,
                    "{row:?}"
                );
                assert!(
                    row.resident_bytes <= row.limit_bytes.min(row.query_bytes),
                    "{row:?}"
                );
            }
        }
        if row.fell_back == 0 {
            // Missing data are transferred over the link. Pages are a little larger than their contents.
            let missing = row.device_bytes.saturating_sub(row.resident_bytes);
            assert!(row.link_bytes >= missing, "{row:?}");
            let bound = row.bound_ms.expect("rates");
            assert!(
                bound >= 1e3 * missing as f64 / 5e10 && row.ratio.is_some(),
                "{row:?}"
            );
        }
    }
    // Query 6 needs little working memory, so it streams if it must.
    let mut streams = report
        .rows
        .iter()
        .filter(|row| row.query == "6" && row.share == Some(90));
    assert!(streams.all(|row| row.fell_back == 0), "{}", report.summary());
    assert_eq!(
        report.summary().lines().count(),
        2 + 2 * 4,
        "{}",
        report.summary()
    );
    let out = tempfile::tempdir().expect("a directory");
    let written = report
        .write(out.path(), "residency", "galatea bench residency")
        .expect("written");
    let read = |name: &str| std::fs::read_to_string(written.join(name)).expect("a file");
    assert_eq!(read("residency.csv").lines().count(), 1 + report.rows.len());
    assert!(
        read("residency-q6.svg").contains("<svg") && read("README.md").contains("galatea bench residency")
    );
}

#[tokio::test]
async fn queries_on_the_cpu_are_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let settings = [SETTINGS[0], ("galatea.cache.device", "false")];
    let error = plan(root.path(), &["6"], &settings).measure(|_| ()).await;
    let error = error.expect_err("nothing stays");
    assert!(
        matches!(&error, BenchError::NothingResident { query, .. } if query == "6"),
        "{error}"
    );
}

/// The sums of a flight are those of its queries' medians.
#[tokio::test]
async fn flight_totals_sum_query_medians() {
    let root = tempfile::tempdir().expect("a directory");
    let mut options = GenerateOptions::new(Workload::Ssb, 0.005, root.path());
    options.parts = 8;
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
    let names = ["1.1", "1.2", "2.1"].map(String::from);
    let plan = Plan {
        tables: Tables::find(Workload::Ssb, root.path()).expect("tables"),
        queries: Workload::Ssb.select(0.005, &names).expect("queries"),
        shares: vec![60],
        iterations: 1,
        settings: SETTINGS
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .to_vec(),
        machine: Machine::look(None, Some("test".to_string())),
        ceilings: Some(Ceilings {
            device: 4e12,
            link: 5e10,
        }),
    };
    let report = plan.measure(|_| ()).await.expect("measured");
    let sum = |flight: &str| -> f64 {
        let rows = report
            .rows
            .iter()
            .filter(|row| row.share == Some(60) && row.query.starts_with(flight));
        rows.map(|row| row.total_ms).sum()
    };
    let text = report.summary();
    for (name, number, flight) in [
        ("flight 1", 2, "1."),
        ("flight 2", 1, "2."),
        ("flights 1 to 4", 3, ""),
    ] {
        let line = format!("| {name} | 60 % | {number} | {:.3} |", sum(flight));
        assert!(text.contains(&line), "{line}\n{text}");
    }
}
