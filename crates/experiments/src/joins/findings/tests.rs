//! Findings from constructed rows: claims that hold, and the same claims not holding.

use super::super::gpu::Phases;
use super::super::model::Predicted;
use super::rows::{ON_DEVICE, ON_PEER};
use super::*;

fn row(experiment: &'static str, algorithm: &str, table: &str, value: f64, rate: f64) -> Row {
    Row {
        experiment,
        figure: "",
        algorithm: algorithm.to_owned(),
        table: table.to_owned(),
        workload: "A",
        parameter: "parameter",
        value,
        tuples: 1_000_000_000,
        runs: vec![Phases {
            build: 0.7 / rate,
            copy: 0.0,
            probe: 0.3 / rate,
        }],
        device_share: 1.0,
        table_share: 0.5,
        bound: None,
        predicted: None,
    }
}

#[test]
fn verdicts_follow_the_rates() {
    let rows = [
        row("skew", GPU, "device", 0.0, 3.0),
        row("skew", GPU, "device", 1.75, 3.1),
        row("skew", CPU, "host", 0.0, 0.5),
        row("skew", CPU, "host", 1.75, 0.6),
    ];
    let lines = findings(&rows);
    assert_eq!(lines.len(), 4);
    assert!(
        lines[0].ends_with("holds") && lines[0].contains("1.03 times"),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains("was not measured"), "{}", lines[1]);
    assert!(lines[2].contains("does not hold, because 0.50"), "{}", lines[2]);
    let build = findings(&[row("ratio", GPU, "device", 1.0, 2.0)]);
    assert!(build[0].ends_with("it takes 70 % at 1:1: holds"), "{}", build[0]);
}

#[test]
fn predictions_are_compared_with_the_measured_rate() {
    let predicted = Some(Predicted::new(0.5, 3.0, 1.0));
    for (rate, holds) in [(2.0, true), (1.5, false)] {
        let hybrid = Row {
            predicted,
            ..row("hybrid", GPU, "hybrid", 2.0, rate)
        };
        let lines = findings(&[hybrid, row("hybrid", GPU, "host", 2.0, 1.0)]);
        let last = lines.get(1).expect("a line for the predictions");
        assert_eq!(last.ends_with("holds"), holds, "{last}");
        assert!(last.contains("2.00 mean, 1.50 series, 2.00 overlap"), "{last}");
    }
}

/// A row of one of the workloads, with relations or the table in a place.
fn placed(
    experiment: &'static str,
    workload: &'static str,
    (algorithm, value): (&str, f64),
    rate: f64,
) -> Row {
    Row {
        workload,
        ..row(experiment, algorithm, "", value, rate)
    }
}

#[test]
fn places_are_compared_with_one_hop() {
    let rows = |experiment, places: &[(&str, f64)], rates: [[f64; 3]; 3]| {
        let mut rows = Vec::new();
        for (workload, rates) in ["A", "B", "C"].into_iter().zip(rates) {
            for (place, rate) in places.iter().zip(rates) {
                rows.push(placed(experiment, workload, *place, rate));
            }
        }
        rows
    };
    let relations = [(ON_DEVICE, 0.0), (ON_PEER, 1.0), (GPU, 2.0)];
    // The rates of the thesis' losses.
    let thesis = [[10.0, 8.0, 5.0], [20.0, 5.0, 2.7], [10.0, 9.0, 8.0]];
    let lines = findings(&rows("relation_places", &relations, thesis));
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line.ends_with(": holds")), "{lines:?}");
    // Without another device one hop is the host's.
    let alone = [relations[0], relations[2]];
    let rates = [[10.0, 8.0, 0.0], [20.0, 5.0, 0.0], [10.0, 9.0, 0.0]];
    let lines = findings(&rows("relation_places", &alone, rates));
    assert!(
        lines[1].contains("4.0 times the rate of one hop: holds"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].ends_with("only one memory beyond the device's could be measured"),
        "{}",
        lines[2]
    );

    let tables = [(ON_PEER, 0.0), (ON_PEER, 1.0), (ON_PEER, 2.0)];
    let thesis = [[10.0, 2.0, 0.9], [10.0, 2.0, 1.0], [10.0, 1.8, 0.8]];
    let lines = findings(&rows("table_places", &tables, thesis));
    let (on_peer, in_host_memory) = lines.split_at(3);
    assert!(
        on_peer.iter().all(|line| line.ends_with(": holds")),
        "{on_peer:?}"
    );
    assert!(
        in_host_memory
            .iter()
            .all(|line| line.contains("was not measured"))
    );
    let tables = [(GPU, 0.0), (GPU, 2.0)];
    let lines = findings(&rows("table_places", &tables, [[10.0, 9.0, 0.0]; 3]));
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].contains("does not hold, because A has 10.00"),
        "{}",
        lines[0]
    );
}

/// The goal of hybrid tables holds if each rate is within a tenth of that of overlapping accesses.
#[test]
fn hybrid_tables_have_a_goal_at_every_share() {
    let at = |algorithm: &str, share, rate| Row {
        predicted: Some(Predicted::new(share, 3.0, 1.0)),
        table_share: share,
        ..row("peer_shares", algorithm, "two devices", share, rate)
    };
    for (rate, holds) in [(1.95, true), (1.5, false), (2.3, false)] {
        let rows = [
            at(ON_DEVICE, 0.1, 1.1),
            at(ON_DEVICE, 0.5, rate),
            at(ON_PEER, 0.5, 2.0),
        ];
        let lines = findings(&rows);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with(": holds"), "{}", lines[2]);
        assert_eq!(lines[1].ends_with(": holds"), holds, "{}", lines[1]);
        assert!(lines[1].contains("with 50 % on the device"), "{}", lines[1]);
    }
}

/// Both hashings, with tables that exceed the device's memory.
#[test]
fn tables_on_two_devices_are_compared_with_one() {
    const LINEAR_ON_PEER: &str = "GPU linear probing (columns on the other device)";
    let rows = [
        row("peer_tuples", ON_PEER, "device", 128.0, 2.5),
        row("peer_tuples", ON_PEER, "two devices", 2048.0, 0.5),
        row("peer_tuples", LINEAR_ON_PEER, "device", 128.0, 2.0),
        row("peer_tuples", LINEAR_ON_PEER, "two devices", 2048.0, 0.001),
    ];
    let lines = findings(&rows);
    assert!(
        lines[..3].iter().all(|line| line.ends_with(": holds")),
        "{lines:?}"
    );
    assert!(
        lines[3..].iter().all(|line| line.contains("was not measured")),
        "{lines:?}"
    );
}

#[test]
fn both_processors_have_a_goal() {
    let rates = |het, both| {
        [
            placed("cooperation", "B", (CPU, 1.0), 1.4),
            placed("cooperation", "B", (GPU, 1.0), 2.9),
            placed("cooperation", "B", ("Het", 1.0), het),
            placed("cooperation", "B", ("GPU+Het", 1.0), both),
        ]
    };
    for (het, both, holds) in [(1.5, 4.0, true), (1.3, 2.7, false)] {
        let lines = findings(&rates(het, both));
        let goals = lines
            .iter()
            .filter(|line| line.contains("(goal)") && line.contains("workload B"));
        let goals: Vec<bool> = goals.map(|line| line.ends_with(": holds")).collect();
        assert_eq!(goals, [holds; 3], "{lines:?}");
    }
}
