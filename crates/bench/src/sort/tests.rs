//! The experiment on the emulated device.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::{Plan, run};
use crate::Report;
use crate::machine::Machine;

#[tokio::test]
async fn every_shape_is_checked_and_timed() {
    let device =
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("an emulated device");
    let plan = Plan {
        rows: vec![1, 9001],
        table_rows: vec![4000],
        runs: 1,
        settings: vec![("galatea.device".to_string(), "emulated".to_string())],
        machine: Machine::default(),
    };
    let mut told = 0;
    let report = run(&device, &plan, |_| told += 1).await.expect("a report");
    let queries = 8 * 2;
    // For the first rows, the time of kernels is a separate row.
    assert_eq!(
        (told, report.rows.len()),
        (2 * (2 + 2) + queries, 2 * (2 + 3) + queries)
    );
    for row in &report.rows {
        // A single row is always in order.
        assert!(
            (row.ms > 0.0 || row.rows == 1) && row.runs == 1 && row.min_ms <= row.ms,
            "{row:?}"
        );
    }
    let keys: Vec<_> = (report.rows.iter())
        .filter(|row| row.what.starts_with("keys"))
        .collect();
    let passes: Vec<u32> = keys.iter().map(|row| row.passes).collect();
    assert_eq!(passes, [0, 0, 4, 8]);
    // Keys of 8 bytes: read for the histogram, then moved eight times with a 4-byte row number.
    assert_eq!(keys[3].bytes, 9001 * (8 + 8 * 24 - 12));
    let kernels = report.rows.iter().filter(|row| row.engine == "galatea, kernels");
    assert_eq!(kernels.map(|row| row.bytes).collect::<Vec<_>>(), [8, 8 * 9001]);
    let last = report.rows.last().expect("a row");
    assert!(last.device.contains("emulated"), "{last:?}");
    assert_eq!(report.summary().lines().count(), report.rows.len() + 2);
    let out = tempfile::tempdir().expect("a directory");
    let written = report
        .write(out.path(), "sort", "galatea bench sort")
        .expect("written");
    let csv = std::fs::read_to_string(written.join("sort.csv")).expect("a file");
    assert_eq!(csv.lines().count(), report.rows.len() + 1);
}
