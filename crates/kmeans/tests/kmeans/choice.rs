//! Compares the model with measurements on an H200.

use galatea_kmeans::{PassCost, Scores, Sums, Wanted, choose, costs};
use galatea_layout::model::Machine;

fn lanes() -> Wanted {
    Wanted {
        scores: Some(Scores::Lanes),
        ..Wanted::default()
    }
}

/// 2 GiB of points: one block of 768 threads took 0.500 ms, 28 of 32 threads 0.594.
#[test]
fn few_large_blocks_are_preferred() {
    for (d, k) in [(4, 4), (4, 16), (4, 64), (16, 4), (16, 64), (32, 4), (32, 16)] {
        let shape = choose(&Machine::H200, (d, k), lanes()).unwrap();
        assert!(shape.threads >= 256, "d {d} k {k}: {shape:?}");
    }
    assert_eq!(
        choose(&Machine::H200, (4, 4), lanes()).unwrap().sums,
        Sums::Private
    );
    assert_eq!(
        choose(&Machine::H200, (4, 16), lanes()).unwrap().sums,
        Sums::Private
    );
}

/// Two copies shared by 64 threads took 13.9 ms; with 32 threads and half the features they took 2.3.
#[test]
fn model_shares_accumulators_only_if_conflicts_are_rare() {
    for (d, k) in [(4, 64), (4, 256), (16, 16), (32, 64), (32, 256), (3, 1000)] {
        let shape = choose(&Machine::H200, (d, k), lanes()).unwrap();
        assert!(
            shape.sums != Sums::Shared || shape.copies >= 4,
            "d {d} k {k}: {shape:?}"
        );
    }
}

/// Milliseconds for 1 GiB of points, by lanes and by matrix units: 0.48 and 0.51 for d 4 and k 16; 1.34 and
/// 0.91 for k 64; 0.73 and 0.42 for d 8 and k 16; 1.34 and 0.82 for d 16 and k 64; 4.7 and 1.9 for d 32 and k
/// 256.
#[test]
fn model_uses_matrix_units_if_measured_faster() {
    for ((d, k), scores) in [
        ((4, 4), Scores::Lanes),
        ((4, 64), Scores::Matrix),
        ((4, 256), Scores::Matrix),
        ((8, 16), Scores::Matrix),
        ((16, 4), Scores::Lanes),
        ((16, 16), Scores::Matrix),
        ((16, 64), Scores::Matrix),
        ((32, 16), Scores::Matrix),
        ((32, 256), Scores::Matrix),
    ] {
        let shape = choose(&Machine::H200, (d, k), Wanted::default()).unwrap();
        assert_eq!(shape.scores, scores, "d {d} k {k}: {shape:?}");
    }
}

/// (d, k), threads, copies, ms.
type Measured = ((u32, u32), u32, u32, f64);

/// 2 GiB of points with more than 32 features on an H200, from `kmeans-fit/many-features.txt` and
/// `kmeans-fit/forms.csv` in `bench/results/2026-11-22-nvidia-h200`.
const WIDE: [(Scores, Sums, &[Measured]); 2] = [
    (
        Scores::Lanes,
        Sums::Features,
        &[
            ((64, 16), 512, 8, 3.98),
            ((64, 64), 512, 8, 13.50),
            ((64, 256), 128, 1, 51.52),
            ((128, 16), 512, 4, 3.18),
            ((128, 64), 512, 4, 8.83),
            ((128, 256), 512, 1, 34.22),
            ((64, 4), 512, 1, 5.95),
            ((128, 16), 512, 1, 4.58),
            ((256, 16), 512, 1, 3.55),
            ((256, 64), 512, 1, 9.22),
        ],
    ),
    (
        Scores::Lanes,
        Sums::Global,
        &[
            ((64, 16), 512, 1, 10.55),
            ((64, 64), 512, 1, 19.50),
            ((64, 256), 512, 1, 58.58),
            ((128, 16), 512, 1, 9.21),
            ((128, 64), 512, 1, 14.08),
            ((128, 256), 512, 1, 37.60),
        ],
    ),
];

/// (d, k), sums, points per thread, threads, copies, whether ahead, ms.
type MeasuredTile = ((u32, u32), Sums, u32, u32, u32, bool, f64);

/// The same with matrix units, over tiles in shared memory, from `kmeans-fit/tiles.csv`.
const TILES: [MeasuredTile; 15] = [
    ((64, 4), Sums::Features, 4, 128, 2, false, 0.80),
    ((64, 16), Sums::Features, 4, 128, 2, false, 0.94),
    ((64, 64), Sums::Features, 4, 128, 1, false, 1.53),
    ((64, 64), Sums::Features, 2, 512, 4, true, 1.60),
    ((64, 256), Sums::Features, 4, 256, 1, false, 4.53),
    ((128, 16), Sums::Features, 4, 128, 2, false, 1.05),
    ((128, 64), Sums::Features, 2, 128, 1, false, 1.71),
    ((128, 256), Sums::Features, 2, 128, 1, false, 13.84),
    ((256, 4), Sums::Features, 2, 128, 1, false, 1.37),
    ((256, 16), Sums::Features, 2, 128, 1, false, 1.36),
    ((256, 64), Sums::Features, 1, 256, 1, false, 2.12),
    ((64, 256), Sums::Global, 4, 256, 1, true, 4.59),
    ((64, 1024), Sums::Global, 2, 512, 1, true, 18.24),
    ((256, 256), Sums::Global, 2, 256, 1, false, 9.25),
    ((256, 1024), Sums::Global, 2, 256, 1, false, 29.59),
];

/// Predictions for tiles in shared memory are within a third of the measurements.
#[test]
fn tile_pass_predictions_match_measurements() {
    for (of, sums, points, threads, copies, ahead, ms) in TILES {
        let wanted = Wanted {
            scores: Some(Scores::Matrix),
            sums: Some(sums),
            shared_limit: None,
        };
        let shapes = costs(&Machine::H200, of, wanted);
        let is = |cost: &&PassCost| {
            let shape = cost.shape;
            (shape.points, shape.threads, shape.copies, shape.ahead) == (points, threads, copies, ahead)
        };
        let cost = shapes.iter().find(is).unwrap();
        let count = (2u64 << 30) / (4 * u64::from(of.0));
        let predicted = 1e3 * cost.seconds(&Machine::H200, count, 1);
        assert!(
            (0.75..=1.34).contains(&(predicted / ms)),
            "{of:?} {sums:?}: {predicted:.2} ms predicted, {ms} measured"
        );
    }
}

/// The model chooses a form with a measured time within the goal.
#[test]
fn model_meets_its_goal_for_d4_k16() {
    let shape = choose(&Machine::H200, (4, 16), Wanted::default()).unwrap();
    let form = (
        shape.scores,
        shape.points,
        shape.threads,
        shape.copies,
        shape.ahead,
    );
    // 0.792 ms, `kmeans-fit/k16.csv`; the goal is 0.8.
    assert_eq!(form, (Scores::Matrix, 16, 896, 16, false));
}

/// Predictions for more than 32 features are within a fifth of the measurements.
#[test]
fn wide_pass_predictions_match_measurements() {
    for (scores, sums, measured) in WIDE {
        for &(of, threads, copies, ms) in measured {
            let wanted = Wanted {
                scores: Some(scores),
                sums: Some(sums),
                shared_limit: None,
            };
            let shapes = costs(&Machine::H200, of, wanted);
            let is = |cost: &&PassCost| (cost.shape.threads, cost.shape.copies) == (threads, copies);
            let cost = shapes.iter().find(is).unwrap();
            let points = (2u64 << 30) / (4 * u64::from(of.0));
            let predicted = 1e3 * cost.seconds(&Machine::H200, points, 1);
            let ratio = predicted / ms;
            assert!(
                (1.0 / 1.2..=1.2).contains(&ratio),
                "{of:?} {scores:?} {sums:?}: {predicted:.2} ms predicted, {ms} measured"
            );
        }
    }
}
