//! Compares the thesis' results with measured rows: the published result, the measured facts, and whether the
//! result holds.

mod columns;
mod joins;
mod passes;
mod phases;
mod rows;

use self::rows::Rows;
use super::row::Row;

/// The findings from rows of chapter 4 of the thesis. Each line ends in "holds", or in "does not hold,
/// because" and the figures that contradict it. A line that begins with "note" states a point that was not
/// measured.
#[must_use]
pub fn findings(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (figure, say) in [
        ("4.3", passes::destinations as fn(&Rows<'_>, &mut Vec<String>)),
        ("4.12", joins::scaling),
        ("4.13", phases::utilisation),
        ("4.14", phases::breakdown),
        ("4.15", phases::bounds),
        ("4.16", joins::processors),
        ("4.17", joins::first_passes),
        ("4.18", passes::across_the_link),
        ("4.19", passes::in_memory),
        ("4.20", joins::fanouts),
        ("4.21", joins::cache),
        ("4.22", columns::prefix_sums),
        ("4.23", joins::ratios),
        ("4.24", columns::columns),
        ("4.25", joins::multiprocessors),
        ("chunks", joins::chunks),
    ] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure).collect();
        if !rows.is_empty() {
            say(&Rows(rows), &mut lines);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Bytes, Limits};
    use super::*;

    fn row(figure: &'static str, algorithm: &str, value: f64, seconds: f64) -> Row {
        Row {
            experiment: if ["4.18", "4.19"].contains(&figure) {
                "partitioning"
            } else {
                "join"
            },
            figure,
            algorithm: algorithm.to_owned(),
            workload: (128, 128),
            parameter: "fanout",
            value,
            tuples: 1_000_000_000,
            seconds: vec![seconds],
            bytes: Bytes {
                to_device: 16_000_000_000,
                to_host: 16_000_000_000,
                memory: 32_000_000_000,
            },
            spilled: 1.0,
            bits: (9, 9),
            of_run: None,
            limits: Limits {
                to_device: 50e9,
                to_host: 50e9,
                both: 100e9,
                memory: 3e12,
            },
        }
    }

    fn verdicts(rows: &[Row]) -> Vec<(String, bool)> {
        let lines = findings(rows).into_iter();
        lines
            .map(|line| (line.clone(), line.ends_with(": holds")))
            .collect()
    }

    #[test]
    fn published_ratios_hold_or_not() {
        let pass = |shared: f64| {
            let of = |algorithm: &str, seconds| row("4.19", algorithm, 512.0, seconds);
            let rows = [of("Linear", 0.02), of("Shared", shared), of("Hierarchical", 0.05)];
            verdicts(&rows)
        };
        assert!(pass(0.015)[0].1 && pass(0.015)[1].1);
        assert!(!pass(0.03)[0].1, "{:?}", pass(0.03));
        assert!(pass(0.03)[0].0.contains("does not hold, because 0.67x at 512"));
    }

    /// Whether the finding with these words holds.
    fn holds(rows: &[Row], text: &str) -> Option<bool> {
        let found = verdicts(rows);
        let line = found.iter().find(|(line, _)| line.contains(text));
        line.map(|(_, holds)| *holds)
    }

    #[test]
    fn destinations_are_compared_by_processor() {
        let of = |experiment: &'static str, algorithm: &str, seconds| Row {
            experiment,
            ..row("4.3", algorithm, 512.0, seconds)
        };
        let (device, host) = ("partitioning to the device", "partitioning to the host");
        let rows = [
            of(device, "Hierarchical", 0.4),
            of(device, "CPU", 0.8),
            of(host, "Hierarchical", 0.4),
            of(host, "CPU", 0.3),
        ];
        let gpu =
            |destination: &str| format!("in {destination} memory the GPU (the thesis' kernel) is faster");
        assert_eq!(holds(&rows, &gpu("device")), Some(true));
        assert_eq!(holds(&rows, &gpu("host")), Some(false));
        // 20 and 53 GB/s of 50.
        assert_eq!(
            holds(&rows, "in device memory the CPU cannot saturate"),
            Some(true)
        );
        assert_eq!(
            holds(&rows, "in host memory the CPU cannot saturate"),
            Some(false)
        );
    }

    #[test]
    fn phases_are_compared_with_their_bounds() {
        let of = |figure, experiment: &'static str, parameter: &'static str, seconds: f64| Row {
            experiment,
            parameter,
            bytes: Bytes {
                to_device: if experiment == "partition 2" {
                    0
                } else {
                    16_000_000_000
                },
                to_host: 0,
                memory: 32_000_000_000,
            },
            spilled: 0.0,
            of_run: Some(seconds),
            ..row(figure, "Hierarchical", 128.0, seconds)
        };
        let half = "million tuples with half of the multiprocessors";
        // The link needs 0.32 s, and memory 0.01 s.
        let rows = |second: f64| {
            [
                of("4.15", "prefix sum 1", "million tuples", 0.33),
                of("4.15", "partition 1", "million tuples", 0.9),
                of("4.15", "partition 2", "million tuples", 0.1),
                of("4.15", "partition 2", half, second),
            ]
        };
        assert_eq!(holds(&rows(0.19), "the first prefix sum is"), Some(true));
        assert_eq!(holds(&rows(0.19), "the first pass is"), Some(false));
        assert_eq!(holds(&rows(0.19), "the second pass is mostly"), Some(true));
        assert_eq!(holds(&rows(0.11), "the second pass is mostly"), Some(false));
        let rows = [
            of("4.14", "partition 1", "million tuples", 0.45),
            of("4.14", "prefix sum 1", "million tuples", 0.3),
        ];
        assert_eq!(holds(&rows, "the first pass takes"), Some(true));
        assert_eq!(holds(&rows, "the first prefix sum takes"), Some(false));
        let rows = [of("4.13", "prefix sum 1", "million tuples", 0.33)];
        assert_eq!(holds(&rows, "prefix sum 1 uses 90 to 100 %"), Some(true));
        assert_eq!(holds(&rows, "partition 1 uses"), Some(false));
    }

    #[test]
    fn late_columns_are_compared_with_the_index_and_with_staged_ones() {
        let of = |algorithm: &str, columns: f64, seconds| row("4.24", algorithm, columns, seconds);
        let rows = |late: f64| {
            [
                of("Refined Linear", 1.0, 0.3),
                of("Late materialisation", 0.0, 0.3),
                of("Late materialisation", 1.0, 0.6),
                of("Late materialisation", 16.0, late),
                of("Staged columns", 1.0, 0.5),
                of("Staged columns", 16.0, 1.0),
            ]
        };
        assert_eq!(holds(&rows(6.0), "16 columns leave"), Some(true));
        assert_eq!(holds(&rows(1.0), "16 columns leave"), Some(false));
        assert_eq!(holds(&rows(6.0), "staged columns are faster"), Some(true));
        assert_eq!(holds(&rows(0.9), "staged columns are faster"), Some(false));
        assert_eq!(holds(&rows(6.0), "a join index alone"), Some(true));
    }

    #[test]
    fn prefix_sums_are_compared_by_processor() {
        let of = |experiment: &'static str, algorithm: &str, seconds| Row {
            experiment,
            ..row("4.22", algorithm, 128.0, seconds)
        };
        let rows = [
            of("prefix sum", "CPU", 0.2),
            of("prefix sum", "GPU", 0.4),
            of("join", "Hierarchical", 1.1),
            of("join", "Hierarchical with the CPU's prefix sum", 1.0),
        ];
        assert_eq!(holds(&rows, "1.6 to 2.2 times"), Some(true));
        assert_eq!(holds(&rows, "1.1 times as fast"), Some(true));
        assert_eq!(holds(&rows, "counting chunks"), Some(false));
    }

    #[test]
    fn shares_of_the_link_are_compared_by_fanout() {
        let rows = [
            row("4.18", "Shared", 64.0, 0.33),
            row("4.18", "Shared", 128.0, 0.5),
        ];
        let found = verdicts(&rows);
        let of = |text: &str| {
            found
                .iter()
                .find(|(line, _)| line.contains(text))
                .map(|(_, holds)| *holds)
        };
        assert_eq!(of("up to a fanout of 64"), Some(true));
        assert_eq!(of("above a fanout of 64"), Some(false));
        assert_eq!(of("Hierarchical has 68 %"), Some(false));
    }
}
