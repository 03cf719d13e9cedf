//! The experiment on the emulated device.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::{Plan, run, ways};
use crate::machine::Machine;

#[test]
fn every_way_of_summing_is_verified_and_timed() {
    let device =
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("an emulated device");
    let plan = Plan {
        features: vec![2, 4],
        clusters: vec![3, 8],
        bytes: 1 << 16,
        runs: 1,
        sums: Vec::new(),
        shapes: 1,
        shared_limit: None,
        machine: Machine::default(),
    };
    let mut told = Vec::new();
    let report = run(&device, &plan, |d, k| told.push((d, k))).expect("a report");
    assert_eq!(told, [(2, 3), (2, 8), (4, 3), (4, 8)]);
    assert_eq!(report.rows.len(), 20);
    for row in &report.rows {
        assert!(row.right, "{row:?}");
        assert!(row.ms_median > 0.0 && row.predicted_ms > 0.0, "{row:?}");
    }
    assert_eq!(report.summary().lines().count(), 22);
}

#[test]
fn ways_have_names() {
    assert_eq!(ways(&["private".to_string()]).expect("a way").len(), 1);
    assert!(ways(&["none".to_string()]).is_err());
}
