//! Every experiment on the emulated device, and properties that hold for all times.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::{AllocatorReport, Experiment, Extent, run};
use crate::Report;
use crate::machine::Machine;

fn all() -> AllocatorReport {
    let device =
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("always there");
    let machine = Machine::look(None, Some("test".to_string()));
    let mut done = Vec::new();
    let experiments = Experiment::NAMES.map(|(_, experiment)| experiment);
    let report = run(
        &device,
        &Extent::emulated(),
        &experiments,
        &machine,
        |experiment| {
            done.push(experiment);
        },
    )
    .expect("experiments run");
    assert_eq!(done, experiments);
    report
}

#[test]
fn every_experiment_runs_without_a_gpu() {
    let report = all();
    for (name, experiment) in Experiment::NAMES {
        assert_eq!(name.parse(), Ok(experiment));
        let rows: Vec<_> = report.of(experiment).filter(|row| row.ours).collect();
        assert!(!rows.is_empty(), "{name} measured nothing");
        for row in rows {
            let refused = row.served < row.threads;
            let may_refuse = matches!(
                experiment,
                Experiment::Theory | Experiment::Utilization | Experiment::HashJoin
            );
            assert!(!refused || may_refuse, "requests refused: {row:?}");
        }
    }
    // Half of the probing keys have a match, for every page search.
    for row in report.of(Experiment::HashJoin) {
        assert_eq!(row.served, row.threads / 2, "{row:?}");
    }
    // The unallocated rest is too small for another request.
    for row in report.of(Experiment::Utilization) {
        let used = row.share.expect("a share");
        assert!(used <= 1.0 && used > 0.96, "{row:?}");
    }
    for finding in &report.findings {
        assert!(
            !finding.paper.is_empty() && !finding.ours.is_empty(),
            "{finding:?}"
        );
    }
    let root = tempfile::tempdir().expect("a directory");
    let directory = report
        .write(root.path(), "allocator", "galatea bench allocator")
        .expect("written");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("a file");
    let lines = read("allocator.csv").lines().count();
    assert_eq!(lines, report.rows.len() + 1);
    assert_eq!(read("allocator.jsonl").lines().count(), report.rows.len());
    let section = read("allocator.md");
    for figure in [
        "fig01", "fig04", "fig07", "fig08", "fig09", "fig10", "fig11", "fig12",
    ] {
        assert!(section.contains(figure), "{figure} is missing: {section}");
    }
    assert!(read("README.md").contains("galatea bench allocator"));
    assert!(read("allocator-fig12.svg").contains("<svg"));
}

#[test]
fn published_results_are_marked_as_not_ours() {
    let rows = super::others::of(Experiment::FreeShare).expect("the table is well-formed");
    assert!(rows.len() > 50 && rows.iter().all(|row| !row.ours && row.share.is_some()));
    assert!(rows.iter().any(|row| row.allocator.starts_with("Ouroboros")));
}

#[test]
fn verdicts_are_those_of_committed_rows() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../bench/results/2026-11-21-nvidia-h200/allocator");
    let of = |experiment: Experiment| {
        let mut report = AllocatorReport::new(Machine::default());
        let path = folder.join(format!("allocator-{}.jsonl", experiment.name()));
        let text = std::fs::read_to_string(path).expect("rows");
        report.rows = (text.lines())
            .map(|line| serde_json::from_str(line).expect("a row"))
            .collect();
        let found = super::verdicts::of(&report, experiment);
        found
            .iter()
            .map(|finding| (finding.experiment.clone(), finding.ours.clone()))
            .collect::<Vec<_>>()
    };
    let pair = |name: &str, ours: &str| (name.to_string(), ours.to_string());
    assert_eq!(
        of(Experiment::Contention),
        [pair(
            "contention",
            "holds: exchanges by 262144 and 1048576 threads take 0.198 and 0.775 ms, 3.9 times for 4 times the threads"
        )]
    );
    let free_share = of(Experiment::FreeShare);
    assert_eq!(
        free_share[0].1,
        "does not hold, because CoRW32 is so in 0 of 16 cases, and has 0.22 to 1.24 times the speed of the fastest variant"
    );
    assert_eq!(
        free_share[1].1,
        "does not hold, because 118 of 123 rows are within a tenth, the worst is off by 35 %"
    );
    assert_eq!(
        free_share[3],
        pair("drain", "does not hold, because its rows were not measured")
    );
    let scaling = of(Experiment::Scaling);
    let names: Vec<&str> = scaling.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["scaling", "scaling", "freeing"]);
    assert!(scaling[0].1.starts_with("holds: "), "{scaling:?}");
    assert!(scaling[1].1.contains("less in 11 of 24 cases"), "{scaling:?}");
    assert!(scaling[2].1.starts_with("holds: "), "{scaling:?}");
    let join = of(Experiment::HashJoin);
    assert_eq!(
        join[0].1,
        "does not hold, because RW-BM32 takes 1.01 to 1.77 times as long in 4 cases"
    );
    assert_eq!(
        of(Experiment::Utilization)[0].1,
        "does not hold, because it uses 81.2 % of the bytes for requests of 52 bytes; 16 of 20 sizes use 96 % or more"
    );
}
