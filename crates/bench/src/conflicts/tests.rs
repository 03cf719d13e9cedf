//! Every experiment on the emulated device, and properties that hold for all times.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::{ConflictsReport, Experiment, Extent, Row, run};
use crate::Report;
use crate::machine::Machine;

/// Odd seeds switch threads at every memory access.
fn emulated(seed: u64) -> crate::Result<Device> {
    let options = EmulatorOptions {
        seed,
        stress: seed % 2 == 1,
        ..EmulatorOptions::default()
    };
    Ok(Device::emulated(options, DeviceOptions::default())?)
}

fn measured(experiments: &[Experiment], seed: u64) -> ConflictsReport {
    let machine = Machine::look(None, Some("test".to_string()));
    let extent = Extent {
        seed,
        ..Extent::emulated()
    };
    let mut done = Vec::new();
    let report = run(
        || emulated(seed),
        &extent,
        experiments,
        &machine,
        |experiment| {
            done.push(experiment);
        },
    )
    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(done, experiments);
    assert!(report.failures.is_empty(), "seed {seed}: {:?}", report.failures);
    report
}

fn all() -> [Experiment; 11] {
    Experiment::NAMES.map(|(_, experiment)| experiment)
}

#[test]
fn every_experiment_runs_without_a_gpu() {
    let report = measured(&all(), 2);
    for (name, experiment) in Experiment::NAMES {
        assert_eq!(name.parse(), Ok(experiment));
        assert!(report.of(experiment).next().is_some(), "{name} measured nothing");
    }
    for finding in &report.findings {
        assert!(
            !finding.paper.is_empty() && !finding.ours.is_empty(),
            "{finding:?}"
        );
    }
    let verdicts = report.findings();
    let figures = Experiment::NAMES
        .iter()
        .filter(|(_, experiment)| !matches!(experiment, Experiment::Alternatives | Experiment::Machine));
    for (name, _) in figures {
        let of = verdicts.iter().filter(|finding| finding.experiment == *name);
        let of: Vec<_> = of.collect();
        assert!(!of.is_empty(), "{name} has no verdict");
        for finding in of {
            let ours = &finding.ours;
            let has_verdict = ours.starts_with("holds: ") || ours.starts_with("does not hold, because ");
            assert!(has_verdict && !ours.contains("not measured"), "{finding:?}");
        }
    }
    // Kernels that fit ran, and methods that the model covers have a prediction.
    let layouts = |values| -> Vec<&str> {
        let rows = report
            .of(Experiment::Alternatives)
            .filter(|row| row.values == values);
        rows.filter(|row| row.theta == 0.0)
            .map(|row| row.layout.as_str())
            .collect()
    };
    assert_eq!(layouts(4).len(), 23, "{:?}", layouts(4));
    assert_eq!(layouts(64).len(), 22, "{:?}", layouts(64));
    let predicted = report
        .of(Experiment::Alternatives)
        .filter(|row| row.predicted_ms.is_some());
    assert_eq!(predicted.count(), 5 * 14);

    let root = tempfile::tempdir().expect("a directory");
    let command = "galatea bench conflicts --emulated";
    let directory = report.write(root.path(), "conflicts", command).expect("written");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("a file");
    assert_eq!(read("conflicts.csv").lines().count(), report.rows.len() + 1);
    assert_eq!(read("conflicts.jsonl").lines().count(), report.rows.len());
    let section = read("conflicts.md");
    for (name, experiment) in Experiment::NAMES {
        assert!(
            section.contains(&format!("conflicts-{name}")),
            "{name} has no figure"
        );
        assert!(section.contains(experiment.paper()), "{name} has no finding");
    }
    assert!(section.contains("G rows/s") && section.contains("memory_bytes_in_flight"));
    assert!(read("README.md").contains(command));
}

/// Every kernel, under hostile schedules. The kernels' results are compared with the CPU's.
#[test]
fn results_are_right_in_any_order() {
    for seed in [1, 4, 5, 9] {
        let report = measured(&[Experiment::Alternatives, Experiment::Figure8], seed);
        assert!(report.of(Experiment::Alternatives).count() > 100);
    }
}

#[test]
fn experiments_on_columns_need_no_device() {
    let experiments: Vec<Experiment> = all().into_iter().filter(|which| !which.needs_device()).collect();
    let machine = Machine::look(None, Some("test".to_string()));
    let none = || -> crate::Result<Device> { panic!("no device is needed") };
    let report =
        run(none, &Extent::emulated(), &experiments, &machine, |_| ()).expect("columns are laid out");
    assert!(experiments.iter().all(|which| report.of(*which).next().is_some()));
}

/// Table 1 of the paper: distinct banks, write and read rounds.
#[test]
fn bank_conflicts_match_table_1_of_the_paper() {
    let extent = Extent {
        few_rows: 640_000,
        ..Extent::paper()
    };
    let machine = Machine::look(None, Some("test".to_string()));
    let report =
        run(|| emulated(0), &extent, &[Experiment::Table1], &machine, |_| ()).expect("columns are drawn");
    let paper = [
        (0.0, 20.42, 3.54, 3.44),
        (0.25, 20.41, 3.53, 3.42),
        (0.5, 20.36, 3.57, 3.38),
        (0.75, 19.94, 3.81, 3.18),
        (1.0, 18.24, 5.33, 2.77),
    ];
    for (theta, banks, writes, reads) in paper {
        let row = report
            .of(Experiment::Table1)
            .find(|row| row.theta == theta)
            .expect("a row");
        let near =
            |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 0.06);
        assert!(
            near(row.banks, banks) && near(row.write_rounds, writes) && near(row.read_rounds, reads),
            "{row:?}"
        );
    }
}

#[test]
fn layouts_avoid_conflicts_of_their_goal() {
    for seed in [0, 3] {
        let report = measured(
            &[Experiment::Figure5, Experiment::Figure7, Experiment::Figure10],
            seed,
        );
        let rounds = |row: &Row| {
            if row.query == "Q1" {
                row.read_rounds
            } else {
                row.write_rounds
            }
        };
        for row in report
            .of(Experiment::Figure5)
            .filter(|row| row.layout.starts_with("laid out"))
        {
            assert_eq!(rounds(row), Some(1.0), "seed {seed}: {row:?}");
        }
        // If only value conflicts are resolved, bank conflicts remain.
        assert!(
            report
                .of(Experiment::Figure7)
                .any(|row| row.write_rounds > Some(1.5))
        );
        for row in report
            .of(Experiment::Figure10)
            .filter(|row| row.layout == "original")
        {
            let degree = row.degree.map(|degree| degree as f64);
            // The last access of a table may be partial.
            let off = degree
                .zip(row.write_rounds)
                .map(|(degree, rounds)| degree - rounds);
            assert!(
                off.is_some_and(|off| (0.0..0.5).contains(&off)),
                "seed {seed}: {row:?}"
            );
        }
        let grid: Vec<&Row> = report
            .of(Experiment::Figure10)
            .filter(|row| row.layout.contains("16 × 16"))
            .collect();
        assert_eq!(
            grid.iter().map(|row| row.degree).collect::<Vec<_>>(),
            [Some(8), Some(1)]
        );
    }
}

/// A failed experiment does not stop the others.
#[test]
fn failures_are_reported() {
    let extent = Extent {
        values: 0,
        ..Extent::emulated()
    };
    let machine = Machine::look(None, Some("test".to_string()));
    let experiments = [Experiment::Table1, Experiment::Figure4];
    let report = run(|| emulated(0), &extent, &experiments, &machine, |_| ()).expect("nothing is opened");
    let failed: Vec<Experiment> = report
        .failures
        .iter()
        .map(|(experiment, _)| *experiment)
        .collect();
    assert_eq!(failed, [Experiment::Table1]);
    assert!(report.of(Experiment::Figure4).next().is_some());
    assert!(
        report
            .summary()
            .contains("table-1 failed: frequencies of 0 values"),
        "{}",
        report.summary()
    );
}

/// A wrong sum is an error, not a row.
#[test]
fn results_are_compared() {
    let device = emulated(0).expect("always there");
    let bed = super::bed::Bed::new(&device, &Extent::emulated()).expect("kernels compile");
    let codes = super::data::zipf(&bed.extent, 8, 0.0, 100).expect("a column");
    let mut column = super::data::Column::new(&bed.extent, 8, &codes);
    column.sums[5] += 1;
    let codes = device.upload(&bed.stream, &codes).expect("memory");
    let error = bed
        .query(super::bed::Query::Sum, &column, &codes, None, 0)
        .expect_err("a wrong sum");
    let text = error.to_string();
    assert!(text.starts_with("Q2 sum: value 5 has"), "{text}");
}

#[test]
fn verdicts_follow_from_rows() {
    let report = |rows: Vec<Row>, experiment: Experiment| {
        let mut report = ConflictsReport::new(Machine::default(), 1);
        rows.into_iter().for_each(|row| report.push(experiment, row));
        let found = super::verdicts::of(&report, experiment);
        found.into_iter().map(|finding| finding.ours).collect::<Vec<_>>()
    };
    let table = |theta: f64, [banks, write, read]: [f64; 3]| Row {
        theta,
        banks: Some(banks),
        write_rounds: Some(write),
        read_rounds: Some(read),
        ..Row::new("original")
    };
    let (uniform, skewed) = ([20.42, 3.53, 3.43], [18.24, 5.34, 2.77]);
    assert_eq!(
        report(vec![table(0.0, uniform), table(1.0, skewed)], Experiment::Table1),
        ["holds: they are 20.42, 3.53, 3.43 and 18.24, 5.34, 2.77"]
    );
    let other = report(vec![table(0.0, uniform), table(1.0, uniform)], Experiment::Table1);
    assert!(
        other[0].starts_with("does not hold, because they are"),
        "{other:?}"
    );
    assert_eq!(
        report(vec![table(0.0, uniform)], Experiment::Table1),
        ["does not hold, because its rows were not measured"]
    );
    let budget = |theta: f64, budget: f64, rate: f64| Row {
        query: "Q2 sum".to_string(),
        theta,
        budget: Some(budget),
        rows_per_second: Some(rate * 1e9),
        ..Row::new("laid out, window 16")
    };
    let rows = vec![
        budget(0.0, 1.0, 300.0),
        budget(0.0, 4.0, 290.0),
        budget(2.0, 1.0, 100.0),
        budget(2.0, 1.5, 280.0),
        budget(2.0, 8.0, 281.0),
    ];
    assert_eq!(
        report(rows, Experiment::Figure8),
        [
            "does not hold, because for θ = 0, sums are within 5 % of it with a budget of 1, 300.0 G rows per second",
            "holds: for θ = 2, sums are within 5 % of it with a budget of 1.5, 280.0 G rows per second"
        ]
    );
}
