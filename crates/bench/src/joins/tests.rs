//! The experiments on the emulated device.

use super::{Experiment, Plan};
use crate::machine::Machine;
use crate::{BenchError, Report};

fn plan(experiments: &[Experiment], scale: f64) -> Plan {
    let settings = [("galatea.device", "emulated"), ("galatea.tuning.build_rows", "0")];
    Plan {
        experiments: experiments.to_vec(),
        scale,
        runs: 1,
        rivals: None,
        settings: settings
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into(),
        machine: Machine::default(),
    }
}

#[tokio::test]
async fn every_workload_is_checked_and_timed() {
    let mut told = 0;
    let mut plan = plan(&Experiment::WORKLOADS, 2e-6);
    plan.rivals = Some(1e-6);
    let report = plan.measure(|_| told += 1).await.expect("a report");
    assert_eq!((told, plan.steps()), (6, 6));
    let own: Vec<_> = report.rows.iter().filter(|row| row.engine == "galatea").collect();
    let sizes: Vec<_> = own.iter().map(|row| (row.build_rows, row.probe_rows)).collect();
    assert_eq!(sizes, [(268, 4295), (1, 4295), (2048, 2048)]);
    for row in own {
        assert!(
            row.device.contains("emulated") && row.reasons.is_empty(),
            "{row:?}"
        );
        assert!(
            row.kernel_ms > Some(0.0) && row.ms >= row.min_ms && row.fraction > Some(0.0),
            "{row:?}"
        );
        // Keys and payloads together take at most 8 bytes.
        assert!(
            row.stored_bytes > 0 && row.stored_bytes <= 8 * (row.build_rows + row.probe_rows),
            "{row:?}"
        );
    }
    let rival = report
        .rows
        .iter()
        .find(|row| row.engine == "datafusion")
        .expect("asked for");
    assert!(
        rival.device == "CPU" && rival.ms > 0.0 && rival.fraction.is_none(),
        "{rival:?}"
    );
}

#[tokio::test]
async fn cost_figures_are_written() {
    let plan = plan(&[Experiment::BuildSizes, Experiment::Groups], 1e-5);
    let report = plan.measure(|_| {}).await.expect("a report");
    assert_eq!((report.rows.len(), plan.steps()), (18 + 13, 18 + 13));
    let out = tempfile::tempdir().expect("a directory");
    let written = report
        .write(out.path(), "joins", "galatea bench joins")
        .expect("written");
    for figure in ["joins-build-sizes.svg", "joins-groups.svg"] {
        let drawn = std::fs::read_to_string(written.join(figure)).expect(figure);
        assert!(drawn.contains("SQL to result"), "{figure}");
    }
    let csv = std::fs::read_to_string(written.join("joins.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 1 + 18 + 13);
}

#[tokio::test]
async fn without_a_device_nothing_is_measured() {
    let mut plan = plan(&[Experiment::A], 1e-6);
    plan.settings = vec![("galatea.device".to_string(), "cpu".to_string())];
    let refused = plan.measure(|_| {}).await.map(|report| report.rows);
    assert!(matches!(refused, Err(BenchError::NoDevice { .. })), "{refused:?}");
}
