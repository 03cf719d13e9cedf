//! Runs all experiments on the emulated device, with every baseline. Its times are meaningless, but rows and
//! findings are those of a GPU.

use galatea_experiments::flow::{EXPERIMENTS, Row, Scale, findings, run};

use crate::emulated;

fn rows(names: &[&str]) -> Vec<Row> {
    let device = emulated(91);
    let scale = Scale {
        bytes: 256 << 10,
        frames: 16,
        frame_sizes: vec![4 << 10, 8 << 10],
        depth: 8,
        pair_threads: 128,
        ..Scale::small()
    };
    let mut rows = Vec::new();
    for name in names {
        let before = rows.len();
        run(&device, name, &scale, 1, &mut |row| rows.push(row))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(rows.len() > before, "{name} has no rows");
        assert!(rows[before..].iter().all(|row| row.experiment == *name));
    }
    for row in &rows {
        // The latency may be missing for so few frames.
        let is_late = row.metric.starts_with("latency") || row.metric.starts_with("round trip");
        let positive = row.median().is_finite() && row.median() >= 0.0;
        assert!(positive || (is_late && row.median().is_nan()), "{}", row.csv());
    }
    rows
}

fn methods<'a>(rows: &'a [Row], operator: &'a str) -> impl Iterator<Item = &'a str> {
    rows.iter()
        .filter(move |row| row.operator == operator)
        .map(|row| row.method.as_str())
}

/// Each finding has a result of the paper and a verdict.
fn verdicts(rows: &[Row]) -> Vec<String> {
    let lines = findings(rows);
    for line in &lines {
        assert!(
            line.ends_with(": holds") || line.contains(": does not hold, because "),
            "{line}"
        );
    }
    lines
}

/// Figure 13: all pairs, all partitions, models, the partitions chosen from them, and the baseline.
#[test]
fn pairs_of_operators_are_measured_by_partition() {
    let rows = rows(&["partitions"]);
    for (at, first) in [4, 8, 16, 32, 64].into_iter().enumerate() {
        for second in &[4, 8, 16, 32, 64][at..] {
            let pair = format!("FMA{first} and FMA{second}");
            let methods: Vec<&str> = methods(&rows, &pair).collect();
            for expected in [
                "stream 1:3",
                "stream 2:2",
                "stream 3:1",
                "CKC pinned, two kernels at once",
            ] {
                assert!(
                    methods.contains(&expected),
                    "{pair} without {expected}: {methods:?}"
                );
            }
            assert!(
                methods.iter().any(|method| method.starts_with("search ")),
                "{pair}"
            );
        }
    }
    let lines = verdicts(&rows);
    // Five findings for each of fifteen pairs.
    assert_eq!(lines.len(), 75, "{lines:#?}");
}

/// Figures 9, 11 and 14: every baseline at every size, including the one over managed memory.
#[test]
fn figures_contain_every_baseline_at_every_size() {
    let rows = rows(&["shapes", "steps", "encoding"]);
    for experiment in ["shapes", "encoding"] {
        for bytes in [4 << 10, 8 << 10] {
            for method in ["stream", "CKC", "CKC pinned", "CKC pinned HQ4", "CTC", "KoUM"] {
                let found = rows.iter().any(|row| {
                    (row.experiment, row.frame_bytes, row.method.as_str()) == (experiment, bytes, method)
                });
                assert!(found, "{experiment}: no {method} at {bytes} bytes");
            }
        }
    }
    let lines = verdicts(&rows);
    for (figure, count) in [("figure 9", 6 * 2), ("figure 11", 3), ("figure 14", 4 * 4)] {
        let found = lines.iter().filter(|line| line.starts_with(figure)).count();
        assert_eq!(found, count, "{figure}: {lines:#?}");
    }
    assert!(
        lines.iter().all(|line| !line.contains("not measured")),
        "{lines:#?}"
    );
}

#[test]
fn remaining_experiments_run() {
    let done = ["partitions", "shapes", "steps", "encoding"];
    let others: Vec<&str> = EXPERIMENTS
        .into_iter()
        .filter(|name| !done.contains(name))
        .collect();
    assert!(verdicts(&rows(&others)).is_empty());
}
