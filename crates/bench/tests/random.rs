//! Random queries on random tables under random settings, against DataFusion's CPU operators
//! (`galatea_bench::random`), on the emulated device.
//!
//! `GALATEA_SEED=17` starts with query 17, `GALATEA_CAMPAIGN=1000` runs 1000 queries in addition to the usual
//! few, `GALATEA_TEST_DEVICE=gpu` uses a GPU.

use std::time::Duration;

use galatea_bench::random::{Family, Outcome, Plan, Storage};
use galatea_device::environment;

fn plan(usual: u64, families: Vec<Family>) -> Plan {
    let device = match environment::test_on_gpu() {
        true => "gpu",
        false => "emulated",
    };
    Plan {
        seed: environment::seed(),
        queries: usual + environment::campaign(),
        time: None,
        sessions: 1,
        families,
        tables: Storage::Mixed,
        files: None,
        settings: vec![("galatea.device".to_string(), device.to_string())],
    }
}

async fn check(plan: Plan) -> Outcome {
    let outcome = plan.run(|_, _| {}).await.expect("a device");
    println!(
        "{} queries from number {}, {} used the device, {} failed on both",
        outcome.queries, plan.seed, outcome.on_device, outcome.errors
    );
    assert_eq!(outcome.queries, plan.queries);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert!(
        failures.is_empty(),
        "{} queries differ\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
    outcome
}

#[tokio::test]
async fn one_table() {
    check(plan(56, vec![Family::OneTable])).await;
}

#[tokio::test]
async fn joins() {
    let outcome = check(plan(56, vec![Family::Joins])).await;
    assert!(outcome.on_device > outcome.queries / 2, "{outcome:?}");
}

#[tokio::test]
async fn subqueries() {
    check(plan(32, vec![Family::Subqueries])).await;
}

#[tokio::test]
async fn sets() {
    check(plan(24, vec![Family::Sets])).await;
}

#[tokio::test]
async fn windows() {
    check(plan(32, vec![Family::Windows])).await;
}

#[tokio::test]
async fn ordered() {
    check(plan(24, vec![Family::Ordered])).await;
}

#[tokio::test]
async fn repeated() {
    check(plan(48, vec![Family::Repeated])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_tables() {
    check(Plan {
        sessions: 8,
        tables: Storage::Memory,
        ..plan(32, Family::all())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_files() {
    check(Plan {
        sessions: 8,
        ..plan(48, Family::all())
    })
    .await;
}

#[tokio::test]
async fn no_round_starts_after_the_time_limit() {
    let plan = Plan {
        time: Some(Duration::ZERO),
        ..plan(100, Family::all())
    };
    assert_eq!(plan.run(|_, _| {}).await.expect("a device").queries, 0);
}
