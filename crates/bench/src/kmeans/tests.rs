//! The experiment on the emulated device.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::{Experiment, Plan, VERIFIED, experiments, run, scores, ways};
use crate::Report;
use crate::machine::Machine;

#[test]
fn every_sum_strategy_is_verified_and_timed() {
    let device =
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("an emulated device");
    let plan = Plan {
        experiments: vec![Experiment::Iteration],
        features: vec![2, 4],
        clusters: vec![3, 8],
        bytes: 1 << 16,
        runs: 1,
        scores: Vec::new(),
        sums: Vec::new(),
        shapes: 1,
        shared_limit: None,
        verified: VERIFIED,
        emulated: true,
        machine: Machine::default(),
    };
    let mut told = Vec::new();
    let report = run(&device, &plan, |d, k| told.push((d, k))).expect("a report");
    assert_eq!(told, [(2, 3), (2, 8), (4, 3), (4, 8)]);
    // 5 methods by lanes, and 3 by matrix units for 8 clusters.
    assert_eq!(report.rows.len(), 26);
    for row in &report.rows {
        assert!(row.right, "{row:?}");
        assert!(row.ms_median > 0.0 && row.predicted_ms > 0.0, "{row:?}");
    }
    assert_eq!(report.summary().lines().count(), 28);
}

#[test]
fn sum_and_score_methods_parse_by_name() {
    assert_eq!(ways(&["private".to_string()]).expect("a way").len(), 1);
    assert!(ways(&["none".to_string()]).is_err());
    assert_eq!(scores(&["matrix".to_string()]).expect("a way").len(), 1);
    assert!(scores(&["tensor".to_string()]).is_err());
}

#[test]
fn variants_and_streaming_are_compared_with_the_thesis() {
    let device =
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("an emulated device");
    let plan = Plan {
        experiments: vec![Experiment::Variants, Experiment::Streaming, Experiment::Masses],
        features: vec![4],
        clusters: vec![4],
        bytes: 1 << 16,
        runs: 1,
        scores: Vec::new(),
        sums: Vec::new(),
        shapes: 0,
        shared_limit: None,
        verified: VERIFIED,
        emulated: true,
        machine: Machine::default(),
    };
    let report = run(&device, &plan, |_, _| {}).expect("a report");
    assert!(report.rows.iter().all(|row| row.right), "{}", report.summary());
    let of = |execution: &str, place: &str| {
        let rows = report.rows.iter();
        rows.filter(|row| row.execution == execution && row.place == place)
            .count()
    };
    assert_eq!(
        (of("single-pass", "resident"), of("multi-pass", "resident")),
        (5, 5)
    );
    assert_eq!(
        (of("cross-processing", "resident"), of("single-pass", "streamed")),
        (1, 1)
    );
    assert_eq!(
        (
            of("single-pass", "streamed with the CPU"),
            of("single-pass", "cpu")
        ),
        (1, 1)
    );
    let summary = report.summary();
    assert_eq!((of("mass sum", "resident"), of("mass sum", "cpu")), (4, 4));
    for figure in [
        "| 5.9 |", "| 5.10 |", "| 5.11 |", "| 5.13 |", "| 5.14 |", "| 5.16 |",
    ] {
        assert!(summary.contains(figure), "{summary}");
    }
    assert!(experiments(&["speed".to_string()]).is_err());
}

#[test]
fn one_run_produces_all_figures_of_the_thesis() {
    let device =
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("an emulated device");
    let plan = Plan {
        experiments: vec![Experiment::Thesis],
        features: Vec::new(),
        clusters: Vec::new(),
        bytes: 1 << 14,
        runs: 1,
        scores: Vec::new(),
        sums: Vec::new(),
        shapes: 0,
        shared_limit: None,
        verified: 1 << 10,
        emulated: true,
        machine: Machine::default(),
    };
    let report = run(&device, &plan, |_, _| {}).expect("a report");
    let wrong: Vec<_> = report.rows.iter().filter(|row| !row.right).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let summary = report.summary();
    for figure in 9..=16 {
        assert!(
            summary.contains(&format!("| 5.{figure} |")),
            "5.{figure} is not in\n{summary}"
        );
    }
    for row in ["10 restarts together", "iterations in one launch"] {
        assert!(summary.contains(row), "{summary}");
    }
    // Phases are not iterations.
    assert!(!summary.contains("0 blocks of 0 threads"), "{summary}");
}
