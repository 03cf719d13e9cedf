//! Layouts: invariants for every column, pattern, goal and budget, and the quality of the results.

use std::num::NonZeroUsize;

use galatea_layout::{
    Analyser, Banks, Budget, Frequencies, Goal, Layout, LayoutError, LayoutOptions, SlotMap, Tiles, generate,
    lay_out,
};
use proptest::prelude::*;

use crate::analyse::{lengths, patterns};
use crate::recount;

fn options(goal: Goal, budget: Budget) -> LayoutOptions {
    LayoutOptions::new(goal, budget).threads(NonZeroUsize::MIN)
}

/// 128,000 rows of 1024 values, laid out by one thread.
fn laid_out(theta: f64, goal: Goal, copies: f64) -> Layout {
    let column = Frequencies::zipf(1024, theta).unwrap().column(128_000, 1);
    lay_out(
        column,
        1024,
        &Tiles::paper(),
        &options(goal, Budget::copies(copies)),
    )
    .unwrap()
}

const WRITES: Goal = Goal::Writes { window: 0 };

fn goals() -> impl Strategy<Value = Goal> {
    prop_oneof![
        Just(Goal::Reads),
        prop_oneof![Just(0), 1..8_usize].prop_map(|window| Goal::Writes { window }),
        prop_oneof![Just(0), 1..8_usize].prop_map(|window| Goal::WritesByValue { window }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every row decodes to its value, the budget holds, and the rounds and conflicts in the layout's report
    /// equal those of a recount. With an unlimited budget there are no conflicts.
    #[test]
    fn layouts_preserve_values_and_budget(
        pattern in patterns(), rows in lengths(), values in prop_oneof![Just(1), Just(2), 31..=33_usize, 1..300_usize],
        theta in 0.0..2.5, goal in goals(), budget in prop::option::of(1.0..4.0), banks in prop_oneof![Just(32), 1..=32_u32],
        threads in 1..=3_usize, seed: u64,
    ) {
        let column = Frequencies::zipf(values, theta).unwrap().shuffled(seed).column(rows, seed);
        let mut how = options(goal, budget.map_or(Budget::unlimited(), Budget::copies));
        how.banks = Banks::new(banks).unwrap();
        how.threads = NonZeroUsize::new(threads).unwrap();
        let Layout { slots, map, report } = lay_out(column.clone(), values, pattern.as_ref(), &how).unwrap();

        prop_assert_eq!(map.decode(&slots).unwrap(), column.clone());
        prop_assert!(map.slots() <= report.slots_permitted);
        prop_assert!((0..values as u32).all(|value| map.value(value) == Some(value)));
        prop_assert_eq!(report.slots - report.holes, values + report.steps.created as usize);
        prop_assert_eq!(report.steps.rows, rows as u64);
        if let Some(copies) = budget {
            prop_assert!(map.slots() as f64 <= copies * values as f64);
        }

        let window = match goal {
            Goal::Reads => 0,
            Goal::Writes { window } | Goal::WritesByValue { window } => window,
        };
        let found = recount(&slots, pattern.as_ref(), banks, window);
        prop_assert_eq!(report.steps.rounds, if goal == Goal::Reads { found.read } else { found.write });
        prop_assert_eq!(report.steps.between_warps, found.between_warps);
        prop_assert_eq!(report.steps.accesses, found.accesses);
        // Fewer banks than lanes: no number of copies avoids all conflicts.
        if budget.is_none() && banks == 32 {
            prop_assert_eq!(found.between_warps, 0);
            prop_assert_eq!(report.steps.conflicting, 0);
            let by_value = matches!(goal, Goal::WritesByValue { .. });
            prop_assert!(by_value || report.steps.rounds == found.accesses);
            prop_assert!(by_value || window > 0 || report.most_copies <= 32, "a copy per bank does");
        }
    }
}

/// A budget of one copy does not change the column.
#[test]
fn budget_of_one_copy_leaves_the_column_unchanged() {
    let column = Frequencies::zipf(1000, 1.0).unwrap().column(50_000, 4);
    for goal in [
        Goal::Reads,
        WRITES,
        Goal::Writes { window: 3 },
        Goal::WritesByValue { window: 3 },
    ] {
        let layout = lay_out(
            column.clone(),
            1000,
            &Tiles::paper(),
            &options(goal, Budget::copies(1.0)),
        )
        .unwrap();
        assert_eq!(layout.slots, column);
        assert_eq!(layout.map.slots(), 1000);
    }
}

/// With one thread, the same input yields the same layout. More threads may yield another of the same
/// quality.
#[test]
fn one_thread_is_deterministic() {
    let column = Frequencies::zipf(1024, 1.0).unwrap().column(300_000, 4);
    let pattern = Tiles::new(256, 4, 16 * 1024).unwrap();
    let how = options(Goal::Writes { window: 4 }, Budget::copies(12.0));
    let once = lay_out(column.clone(), 1024, &pattern, &how).unwrap();
    let again = lay_out(column.clone(), 1024, &pattern, &how).unwrap();
    assert_eq!(once.slots, again.slots);
    assert_eq!(once.map, again.map);
    let shared = lay_out(
        column,
        1024,
        &pattern,
        &how.threads(NonZeroUsize::new(4).unwrap()),
    )
    .unwrap();
    assert_eq!(shared.report.threads, 4);
    assert_eq!(shared.report.mean_rounds(), 1.0);
    let (alone, shared) = (once.report.mean_copies(), shared.report.mean_copies());
    assert!(
        (alone - shared).abs() < 0.15 * alone,
        "{alone} copies alone, {shared} shared"
    );
}

/// Rounds by budget, compared with an independent prototype of the paper's algorithm on other data: the same,
/// or fewer if the budget is spent and rows are matched again.
#[test]
fn rounds_by_budget() {
    for (theta, goal, copies, rounds) in [
        (0.0, WRITES, 1.0, 3.52),
        (0.0, WRITES, 2.0, 2.28),
        (0.0, WRITES, 4.0, 1.26),
        (0.0, WRITES, 12.0, 1.0),
        (1.0, WRITES, 2.0, 1.16),
        (1.0, WRITES, 4.0, 1.0),
        (2.0, WRITES, 1.0, 19.5),
        (2.0, WRITES, 2.0, 1.0),
        (0.0, Goal::Reads, 1.0, 3.44),
        (0.0, Goal::Reads, 2.0, 2.23),
        (0.0, Goal::Reads, 4.0, 1.13),
        (0.0, Goal::Reads, 12.0, 1.0),
    ] {
        let found = laid_out(theta, goal, copies).report.mean_rounds();
        let better = if copies > 1.0 { 0.2 } else { 0.12 };
        assert!(
            (rounds - better..rounds + 0.05).contains(&found),
            "θ {theta} {goal:?} {copies}: {found} for {rounds}"
        );
    }
}

/// There are few holes: copies are spread evenly over the banks (§3.1).
#[test]
fn layouts_have_few_holes() {
    for theta in [0.0, 0.5, 1.0, 2.0] {
        for goal in [Goal::Reads, WRITES, Goal::Writes { window: 16 }] {
            let report = laid_out(theta, goal, 12.0).report;
            let overhead = report.mean_copies_and_holes() / report.mean_copies();
            assert!(overhead < 1.12, "θ {theta} {goal:?}: {overhead}");
        }
    }
}

/// Figure 3: writes need more copies than reads, windows need more, skew needs fewer, and more rows need
/// more.
#[test]
fn copies_follow_the_paper() {
    let copies = |theta, goal| laid_out(theta, goal, 12.0).report.mean_copies();
    for theta in [0.0, 1.0, 2.0] {
        let needed = [
            copies(theta, Goal::Reads),
            copies(theta, WRITES),
            copies(theta, Goal::Writes { window: 16 }),
            copies(theta, Goal::Writes { window: 32 }),
        ];
        assert!(
            needed.is_sorted_by(|less, more| less < more),
            "θ {theta}: {needed:?}"
        );
    }
    for goal in [Goal::Reads, WRITES, Goal::Writes { window: 16 }] {
        let needed = [0.0, 1.0, 2.0].map(|theta| copies(theta, goal));
        assert!(
            needed.is_sorted_by(|more, less| more > less),
            "{goal:?}: {needed:?}"
        );
    }
    let column = Frequencies::zipf(1024, 0.5).unwrap().column(512_000, 1);
    let needed = [8_000, 64_000, 512_000].map(|rows| {
        let layout = lay_out(
            column[..rows].to_vec(),
            1024,
            &Tiles::paper(),
            &options(WRITES, Budget::unlimited()),
        );
        layout.unwrap().report.mean_copies()
    });
    assert!(needed.is_sorted_by(|less, more| less < more), "{needed:?}");
}

/// Figure 4: fewer values need more copies each, with a window even more.
#[test]
fn few_values_need_more_copies() {
    for window in [0, 16] {
        let needed = [32, 128, 512, 2048].map(|values| {
            let column = Frequencies::uniform(values).unwrap().column(64_000, 1);
            let how = options(Goal::Writes { window }, Budget::unlimited());
            lay_out(column, values, &Tiles::paper(), &how)
                .unwrap()
                .report
                .mean_copies()
        });
        assert!(
            needed.is_sorted_by(|more, less| more > less),
            "window {window}: {needed:?}"
        );
    }
}

/// Codes that are ranks of popularity are not easier than others.
#[test]
fn copies_do_not_depend_on_code_order() {
    let frequencies = Frequencies::zipf(1024, 1.0).unwrap();
    let needed = [frequencies.clone(), frequencies.shuffled(3)].map(|frequencies| {
        let how = options(WRITES, Budget::unlimited());
        lay_out(frequencies.column(128_000, 1), 1024, &Tiles::paper(), &how)
            .unwrap()
            .report
    });
    let [ranked, shuffled] = needed.map(|report| report.mean_copies());
    assert!((ranked - shuffled).abs() < 0.1, "{ranked}, shuffled {shuffled}");
}

/// §3.3: a hot value in a window needs more copies than there are banks.
#[test]
fn hot_value_in_window_needs_more_copies_than_banks() {
    let layout = laid_out(2.0, Goal::Writes { window: 16 }, 12.0);
    assert!(layout.report.most_copies > 32, "{:?}", layout.report);
    let found = Analyser {
        window: 16,
        ..Analyser::default()
    }
    .words(&layout.slots, &Tiles::paper());
    assert_eq!((found.mean_write_rounds(), found.between_warps), (1.0, 0));
}

/// Figure 7's variant removes value conflicts and leaves bank conflicts.
#[test]
fn by_value_leaves_bank_conflicts() {
    for theta in [0.0, 1.0, 2.0] {
        let layout = laid_out(theta, Goal::WritesByValue { window: 0 }, 12.0);
        let found = Analyser::default().words(&layout.slots, &Tiles::paper());
        assert_eq!(found.read_rounds, found.write_rounds, "no value conflicts");
        assert!(found.mean_write_rounds() > 2.0, "θ {theta}: {found:?}");
    }
}

/// §A.3: the worst cases, and keys of a grid that are all in one bank, are reduced to one round.
#[test]
fn layouts_reduce_worst_cases_to_one_round() {
    let pattern = Tiles::paper();
    for degree in [2, 8, 32] {
        let column = generate::worst_case(64_000, degree, 1024, Banks::default(), 5).unwrap();
        for goal in [Goal::Reads, WRITES] {
            let layout = lay_out(
                column.clone(),
                1024,
                &pattern,
                &options(goal, Budget::copies(12.0)),
            )
            .unwrap();
            assert_eq!(layout.report.mean_rounds(), 1.0, "degree {degree}");
        }
    }
    let column = generate::grid(512, 64);
    assert_eq!(
        Analyser::default().words(&column, &pattern).mean_read_rounds(),
        32.0
    );
    let layout = lay_out(
        column,
        512 * 64,
        &pattern,
        &options(Goal::Reads, Budget::copies(2.0)),
    )
    .unwrap();
    assert_eq!(layout.report.mean_rounds(), 1.0);
}

/// The paper's queries over slots, on the CPU: Q1 sums a build side's payload, Q2 counts and sums by group.
#[test]
fn aggregation_over_slots_matches_plain_columns() {
    let column = Frequencies::zipf(777, 1.0).unwrap().column(40_000, 8);
    let Layout { slots, map, .. } = lay_out(
        column.clone(),
        777,
        &Tiles::paper(),
        &options(WRITES, Budget::unlimited()),
    )
    .unwrap();
    let payload: Vec<u64> = (0..777).map(|value| value * 0x1_0000_0001 + 7).collect();
    let replicated = map.replicate(&payload, 0).unwrap();
    let sum = |keys: &[u32], table: &[u64]| keys.iter().map(|&key| table[key as usize]).sum::<u64>();
    assert_eq!(sum(&slots, &replicated), sum(&column, &payload));

    let aggregate = |keys: &[u32], groups: usize| {
        let mut aggregates = vec![(0_u64, 0_u64); groups];
        for (row, &key) in keys.iter().enumerate() {
            let (count, sum) = &mut aggregates[key as usize];
            (*count, *sum) = (*count + 1, *sum + row as u64);
        }
        aggregates
    };
    let merged = map
        .merge(&aggregate(&slots, map.slots()), (0, 0), |a, b| {
            (a.0 + b.0, a.1 + b.1)
        })
        .unwrap();
    assert_eq!(merged, aggregate(&column, 777));
    assert!(matches!(map.replicate(&[1], 0), Err(LayoutError::Length { .. })));
    assert!(matches!(
        map.merge(&[1], 0, |a, _| a),
        Err(LayoutError::Length { .. })
    ));
}

#[test]
fn invalid_layout_requests_are_refused() {
    let pattern = Tiles::paper();
    let refused = |column: Vec<u32>, values, budget| {
        lay_out(column, values, &pattern, &options(WRITES, budget)).unwrap_err()
    };
    assert_eq!(
        refused(vec![1, 2, 9, 3], 9, Budget::unlimited()),
        LayoutError::Value {
            row: 2,
            value: 9,
            values: 9
        }
    );
    assert!(matches!(
        refused(vec![0], 0, Budget::unlimited()),
        LayoutError::Value { .. }
    ));
    assert!(matches!(
        refused(vec![0], 1, Budget::copies(0.5)),
        LayoutError::Budget { .. }
    ));
    let message = refused(vec![0], 100_000, Budget::shared_memory(227 << 10, 8)).to_string();
    assert!(
        message.contains("800000 bytes") && message.contains("232448"),
        "{message}"
    );

    let layout = lay_out(Vec::new(), 40, &pattern, &options(WRITES, Budget::copies(2.0))).unwrap();
    assert_eq!((layout.slots.len(), layout.map.slots()), (0, 40));
    let unknown = layout.map.decode(&[1, 40]);
    assert_eq!(
        unknown,
        Err(LayoutError::Slot {
            row: 1,
            slot: 40,
            slots: 40
        })
    );
    assert_eq!(layout.map.value(SlotMap::HOLE), None);
}

/// Slots need more bits than values.
#[test]
fn layouts_report_their_memory_cost() {
    let column = Frequencies::uniform(200).unwrap().column(20_000, 1);
    let report = lay_out(
        column,
        200,
        &Tiles::paper(),
        &options(WRITES, Budget::copies(8.0)),
    )
    .unwrap()
    .report;
    assert_eq!(report.row_bytes(), (1, 2), "{report:?}");
    assert_eq!(report.table_bytes(4), (800, report.slots as u64 * 4));
    assert!(report.slots <= 1600 && report.replicated > 100);
}
