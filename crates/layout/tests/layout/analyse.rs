//! The analyser compared with the paper's Table 1, with closed forms, and with a recount.

use galatea_layout::{
    AccessPattern, Analyser, Banks, Frequencies, LayoutError, Strided, Tiles, for_each_access, generate,
};
use proptest::prelude::*;

use crate::recount;

/// §2, Table 1: 1024 values, before any layout.
#[test]
fn table_1() {
    let printed = [
        (0.0, 20.42, 3.54, 3.44),
        (0.25, 20.41, 3.53, 3.42),
        (0.5, 20.36, 3.57, 3.38),
        (0.75, 19.94, 3.81, 3.18),
        (1.0, 18.24, 5.33, 2.77),
    ];
    for (theta, banks, write, read) in printed {
        for seed in [1, 2] {
            let column = Frequencies::zipf(1024, theta).unwrap().column(32 * 20_000, seed);
            let found = Analyser::default().words(&column, &Tiles::paper());
            for (found, printed) in [
                (found.mean_banks(), banks),
                (found.mean_write_rounds(), write),
                (found.mean_read_rounds(), read),
            ] {
                assert!(
                    (found - printed).abs() < 0.1,
                    "θ {theta}, seed {seed}: {found} for {printed}"
                );
            }
        }
    }
}

/// Codes must be ranks of popularity to reproduce Table 1: hot values then spread over the banks.
#[test]
fn shuffled_codes_change_the_number_of_conflicts() {
    let column = Frequencies::zipf(1024, 1.0)
        .unwrap()
        .shuffled(5)
        .column(640_000, 1);
    let found = Analyser::default().words(&column, &Tiles::paper());
    assert!((found.mean_banks() - 18.24).abs() > 0.3, "{found:?}");
}

/// §A.3: all values of an access are different, and the degree is exact.
#[test]
fn worst_cases_have_the_requested_conflict_degree() {
    let banks = Banks::default();
    for degree in [1, 2, 3, 5, 8, 31, 32] {
        let column = generate::worst_case(32 * 100, degree, 1024, banks, 9).unwrap();
        for access in column.chunks(32) {
            let rounds = banks.rounds(access);
            assert_eq!((rounds.read, rounds.write), (degree as u32, degree as u32));
            let mut different = access.to_vec();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), 32);
        }
    }
    for (degree, values) in [(0, 1024), (33, 4096), (5, 4 * 32)] {
        let refused = generate::worst_case(32, degree, values, banks, 9);
        assert!(
            matches!(refused, Err(LayoutError::Degree { .. })),
            "{degree} of {values}"
        );
    }
}

/// §A.3: a grid read along its other side uses 32 / gcd(height, 32) banks.
#[test]
fn grids_use_few_banks() {
    for (height, banks) in [(32, 1), (64, 1), (48, 2), (24, 4), (33, 32), (7, 32)] {
        let column = generate::grid(64, height);
        assert_eq!(column.iter().max(), Some(&(64 * height - 1)));
        let found = Analyser::default().words(&column, &Tiles::paper());
        assert_eq!(found.mean_banks(), f64::from(banks), "height {height}");
        assert_eq!(found.mean_read_rounds(), f64::from(32 / banks), "height {height}");
    }
}

/// A copy per lane has no conflicts, regardless of the groups. With an odd stride, copies reduce conflicts by
/// their number.
#[test]
fn replicated_accumulators() {
    let groups = Frequencies::zipf(100, 1.5).unwrap().column(32 * 1000, 3);
    let count = |word: fn(u32, usize) -> u32| Analyser::default().groups(&groups, &Tiles::paper(), word);
    assert_eq!(
        count(|group, lane| group * 32 + lane as u32).mean_write_rounds(),
        1.0
    );
    let one_group = count(|_, lane| (lane as u32 % 8) * 101);
    assert_eq!(one_group.mean_write_rounds(), 4.0);
}

#[test]
fn empty_columns_have_no_conflicts() {
    let found = Analyser::default().words(&[], &Tiles::paper());
    assert_eq!((found.accesses, found.mean_banks()), (0, 0.0));
}

#[test]
fn indivisible_shapes_are_refused() {
    let shape =
        |found: Result<Tiles, _>| assert!(matches!(found, Err(LayoutError::Shape { .. })), "{found:?}");
    shape(Tiles::new(0, 1, 32));
    shape(Tiles::new(48, 1, 48));
    shape(Tiles::new(64, 0, 64));
    shape(Tiles::new(64, 4, 250));
    shape(Tiles::new(1024, 1, 350_000));
    shape(Tiles::paper().in_chunks(0));
    assert!(matches!(
        Tiles::of_warps(33, 33, 1, 33),
        Err(LayoutError::Width { .. })
    ));
    assert!(matches!(Strided::new(0, 32), Err(LayoutError::Shape { .. })));
    assert!(matches!(Strided::new(1, 33), Err(LayoutError::Shape { .. })));
}

/// Known positions: the paper's rows in order, and the lanes of a vector load a few rows apart.
#[test]
fn patterns_map_rows_to_known_positions() {
    let paper = Tiles::paper();
    assert_eq!(paper.blocks(200_000_000), 559);
    assert_eq!(paper.row(1 << 20, 1, 33, 5), Some(350 * 1024 + 1024 + 32 + 5));
    let vector = Tiles::new(64, 4, 1024).unwrap();
    // Step 1 (rows 256 to 511), third row of each thread, warp 1: lane 3 is thread 35.
    assert_eq!(
        vector.row(4096, 2, 8 + 2 * 2 + 1, 3),
        Some(2048 + 256 + 35 * 4 + 2)
    );
    assert_eq!(vector.row(2048 + 256, 2, 8 + 2 * 2 + 1, 3), None);
}

pub(crate) fn patterns() -> impl Strategy<Value = Box<dyn AccessPattern>> {
    let tiles = (
        1..=4_usize,
        1..=8_usize,
        1..=3_usize,
        prop::option::of(1..5_000_usize),
    )
        .prop_map(|(warps, rows_per_thread, steps, chunk)| {
            let threads = warps * 32;
            let tiles = Tiles::new(threads, rows_per_thread, threads * rows_per_thread * steps).unwrap();
            let tiles = chunk.map_or(tiles, |rows| tiles.in_chunks(rows).unwrap());
            Box::new(tiles) as Box<dyn AccessPattern>
        });
    let strided = (1..=3_usize, 1..=4_usize).prop_map(|(blocks, warps)| {
        Box::new(Strided::new(blocks, warps * 32).unwrap()) as Box<dyn AccessPattern>
    });
    prop_oneof![tiles, strided]
}

pub(crate) fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), Just(1), 31..=33_usize, 1..6_000_usize]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_row_is_touched_once(pattern in patterns(), rows in lengths()) {
        let mut touched = vec![0; rows];
        for block in 0..pattern.blocks(rows) {
            for_each_access(pattern.as_ref(), rows, block, |_, rows| {
                for &row in rows {
                    touched[row] += 1;
                }
            });
        }
        prop_assert!(touched.iter().all(|&times| times == 1));
    }

    #[test]
    fn conflict_counts_match_a_recount(
        pattern in patterns(), rows in lengths(), values in 1..200_usize, theta in 0.0..2.0, banks in 1..=32_u32,
        window in 0..6_usize, seed: u64,
    ) {
        let column = Frequencies::zipf(values, theta).unwrap().column(rows, seed);
        let analyser = Analyser { banks: Banks::new(banks).unwrap(), window };
        let found = analyser.words(&column, pattern.as_ref());
        let expected = recount(&column, pattern.as_ref(), banks, window);
        prop_assert_eq!(found.accesses, expected.accesses);
        prop_assert_eq!(found.banks, expected.banks);
        prop_assert_eq!(found.read_rounds, expected.read);
        prop_assert_eq!(found.write_rounds, expected.write);
        prop_assert_eq!(found.between_warps, expected.between_warps);
        prop_assert_eq!(found.lanes, rows as u64);
    }
}
