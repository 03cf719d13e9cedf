//! Measurements of parts of the engine, small on the emulated device: checks the files that they write.

use std::fs;

use crate::support::{galatea, samples};

#[test]
fn link_benchmark_rows_record_machine_and_commit() {
    for (part, experiment) in [("flow", "link"), ("transfer", "rates")] {
        let directory = samples();
        let small = ["--runs", "1", "--emulated", "--commit", "abc", "--out", "rows"];
        let ran = galatea(
            directory.path(),
            &[&["bench", part, "--experiment", experiment][..], &small].concat(),
        );
        assert_eq!(ran.code, 0, "{part}: {}", ran.err);
        let file = directory.path().join(format!("rows/{experiment}.csv"));
        let text = fs::read_to_string(&file).expect("rows");
        let (header, rows) = text.split_once('\n').expect("a header");
        assert!(
            header.ends_with(",runs,seed,machine,commit,date,version"),
            "{header}"
        );
        assert!(!rows.is_empty(), "{part}");
        for row in rows.lines() {
            assert!(row.contains(",1,1,\"emulated device; "), "{row}");
            assert!(row.contains("\",abc,"), "{row}");
        }
    }
}
