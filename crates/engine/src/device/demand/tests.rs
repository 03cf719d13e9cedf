//! Tests of demands by closed formulas, and of measurements that replace predictions.

use super::*;
use arrow::datatypes::{DataType, Field, Schema};

fn steps(steps: &[(u64, f64)]) -> Estimate {
    let step = |(bytes, seconds): &(u64, f64)| Step {
        bytes: *bytes,
        seconds: *seconds,
    };
    Estimate(steps.iter().map(step).collect())
}

fn aggregate() -> PipelinePlan {
    PipelinePlan {
        filters: Vec::new(),
        sink: SinkPlan::Aggregate {
            keys: Vec::new(),
            aggregates: Vec::new(),
            kept: false,
        },
        output: Arc::new(Schema::new(vec![Field::new("sum", DataType::Int64, true)])),
    }
}

fn rows() -> PipelinePlan {
    PipelinePlan {
        sink: SinkPlan::Rows {
            outputs: Vec::new(),
            order: None,
        },
        ..aggregate()
    }
}

fn inputs(rows: u64) -> Inputs {
    Inputs {
        shape: 1,
        rows,
        column_bytes: 8 * rows,
        missing_bytes: 0,
        table_bytes: 1000,
        limit: 1 << 40,
    }
}

#[test]
fn memory_demand_is_weighted_by_step_time() {
    let all = steps(&[(100, 1.0), (400, 3.0)]);
    assert_eq!((all.weighted(), all.peak()), (325, 400));
    // Half of the scan is over: (50 + 1200) / 3.5.
    assert_eq!(all.rest(0.5).weighted(), 357);
    assert_eq!((all.rest(1.0).weighted(), all.rest(7.0).weighted()), (400, 400));
    assert_eq!((all.collecting().weighted(), all.collecting().peak()), (400, 400));
    assert_eq!((steps(&[]).weighted(), steps(&[(7, 0.0)]).weighted()), (0, 7));
    let demand = all.demand(vec![(1, 50)]);
    assert_eq!((demand.weighted, demand.peak, demand.bytes()), (325, 400, 375));
}

#[test]
fn sink_memory_depends_on_form() {
    let of = Quantities {
        rows: 1000,
        passed: 300.0,
        groups: 50.0,
    };
    let limit = 1 << 30;
    let table = |fully_sized| SinkMemory::Table {
        slot_bytes: 24,
        most_groups: 600,
        least_slots: 64,
        fully_sized,
    };
    assert_eq!(SinkMemory::Fixed(96).bytes(of, limit), [96, 96]);
    // A slot for twice the 600 groups, rounded up to a power of two.
    assert_eq!(table(true).bytes(of, limit), [2048 * 24, 2048 * 24 + 50 * 24]);
    let overflow = POLICY.overflow_bytes.min(limit / 8);
    assert_eq!(
        table(false).bytes(of, limit),
        [128 * 24 + overflow, 128 * 24 + overflow + 50 * 24]
    );
    assert_eq!(
        table(false).bytes(of, 800)[0],
        128 * 24 + 100,
        "an eighth of little memory"
    );
    assert_eq!(SinkMemory::Columns(10).bytes(of, limit), [10_000, 10_000]);
    // Space for twice the rows that pass, then those rows in addition.
    assert_eq!(SinkMemory::Pages(10).bytes(of, limit), [6000, 9000]);
    assert_eq!(SinkMemory::Pages(10).bytes(of, 3000), [1000, 2000]);
}

#[test]
fn measurements_scale_with_rows() {
    let few = Quantities {
        rows: 1000,
        passed: 500.0,
        groups: 7.0,
    };
    let expected = Quantities {
        rows: 4000,
        passed: 2000.0,
        groups: 7.0,
    };
    assert_eq!(few.scaled_to(4000), expected);
    // Almost every row is a group.
    let many = Quantities { groups: 400.0, ..few };
    assert_eq!(many.scaled_to(4000).groups, 1600.0);
}

#[test]
fn measurements_replace_predictions() {
    let (demands, config) = (Demands::default(), GalateaConfig::default());
    let predicted = demands.estimate(&rows(), None, inputs(1_000_000), &config);
    // Nothing is filtered: all rows pass, 8 bytes each.
    assert_eq!(predicted.peak(), 16_000_000 + 1000);
    let run = Observed {
        sink: SinkMemory::Pages(16),
        quantities: Quantities {
            rows: 1_000_000,
            passed: 200_000.0,
            groups: 1.0,
        },
        scan: Duration::from_secs(3),
        collect: Duration::from_secs(1),
    };
    demands.observe(1, run, true);
    let measured = demands.estimate(&rows(), None, inputs(1_000_000), &config);
    let (scan, collect) = (6_400_000 + 1000, 9_600_000 + 1000);
    assert_eq!((measured.0[0].bytes, measured.0[1].bytes), (scan, collect));
    assert_eq!(measured.weighted(), (3 * scan + collect) / 4);
    let doubled = demands.estimate(&rows(), None, inputs(2_000_000), &config);
    assert_eq!(doubled.0[0].bytes, 2 * 6_400_000 + 1000);
    assert_eq!((doubled.0[0].seconds, doubled.0[1].seconds), (6.0, 2.0));
    // Others are unchanged.
    let other = Inputs {
        shape: 2,
        ..inputs(1_000_000)
    };
    assert_eq!(demands.estimate(&rows(), None, other, &config), predicted);
}

/// A run beside others waits for them, and is not slower for that when it runs next.
#[test]
fn longer_times_of_contended_runs_are_not_recorded() {
    let demands = Demands::default();
    let ran = |rows, milliseconds| Observed {
        sink: SinkMemory::Fixed(8),
        quantities: Quantities {
            rows,
            passed: 0.0,
            groups: 1.0,
        },
        scan: Duration::from_millis(milliseconds),
        collect: Duration::from_millis(milliseconds),
    };
    let time = || demands.time(1, 1000).map(|time| time.as_millis());
    for (rows, milliseconds, alone, expected) in [
        (1000, 3, false, 6),
        (1000, 1, true, 2),
        (1000, 9, false, 2),
        (1000, 4, true, 8),
        (1000, 2, false, 4),
        // Over other rows.
        (2000, 10, false, 10),
    ] {
        demands.observe(1, ran(rows, milliseconds), alone);
        assert_eq!(
            time(),
            Some(expected),
            "{rows} rows, {milliseconds} ms, alone: {alone}"
        );
    }
}

#[test]
fn predictions_follow_the_plan() {
    let (demands, config) = (Demands::default(), GalateaConfig::default());
    let of = |plan: &PipelinePlan, inputs| demands.estimate(plan, None, inputs, &config);
    assert_eq!(of(&aggregate(), inputs(1 << 30)).peak(), 16 + 1000);
    // Data that must be transferred over the link take longer than resident data.
    let slow = Inputs {
        missing_bytes: 8 << 30,
        ..inputs(1 << 30)
    };
    assert!(of(&rows(), slow).0[0].seconds > 40.0 * of(&rows(), inputs(1 << 30)).0[0].seconds);
    assert!(of(&rows(), slow).weighted() < of(&rows(), inputs(1 << 30)).weighted());
}

#[test]
fn least_recently_run_demand_is_evicted() {
    let demands = Demands::default();
    let run = |rows| Observed {
        sink: SinkMemory::Fixed(rows),
        quantities: Quantities {
            rows,
            passed: 0.0,
            groups: 1.0,
        },
        scan: Duration::ZERO,
        collect: Duration::ZERO,
    };
    for key in 0..=POLICY.remembered as u64 {
        demands.observe(key, run(key), true);
        demands.observe(1, run(7), true);
    }
    let known = demands.0.lock();
    let of = |key: u64| {
        known
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, run)| run.quantities.rows)
    };
    assert_eq!(
        (known.len(), of(0), of(1), of(POLICY.remembered as u64)),
        (POLICY.remembered, None, Some(7), Some(POLICY.remembered as u64))
    );
}

#[test]
fn group_count_of_earlier_run_is_reused() {
    let demands = Demands::default();
    let ran = |groups| Observed {
        sink: SinkMemory::Fixed(8),
        quantities: Quantities {
            rows: 1000,
            passed: 1000.0,
            groups,
        },
        scan: Duration::from_millis(1),
        collect: Duration::from_millis(1),
    };
    demands.observe(1, ran(20.0), true);
    demands.observe(2, ran(900.0), true);
    // The same number if groups are few; scaled if almost every row is a group.
    assert_eq!(demands.groups(1, 5000), Some(20));
    assert_eq!(demands.groups(2, 5000), Some(4500));
    assert_eq!(demands.groups(3, 5000), None);
}
