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

#[test]
fn figures_of_a_paper_are_reproduced() {
    let directory = samples();
    let small = ["--runs", "1", "--emulated", "--commit", "abc", "--out", "rows"];
    let figures = [
        "bench",
        "papers",
        "--paper",
        "thesis",
        "--figure",
        "3.17,3.20,4.1",
    ];
    let ran = galatea(directory.path(), &[&figures[..], &small].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    for (name, rows) in [
        ("figure-3.17-ratio", 5),
        ("figure-3.20-cooperation", 12),
        ("figure-4.1-peer_tuples", 40),
    ] {
        let file = directory.path().join(format!("rows/{name}.csv"));
        let text = fs::read_to_string(&file).expect("rows");
        assert_eq!(text.lines().count(), 1 + rows, "{name}");
    }
    let ran = galatea(
        directory.path(),
        &["bench", "papers", "--figure", "9.9", "--emulated"],
    );
    assert!(
        ran.code != 0 && ran.err.contains("no figure 9.9: there are 3.1, 3.2"),
        "{}",
        ran.err
    );
}
