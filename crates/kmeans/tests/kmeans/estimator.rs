//! Labels of other points, restarts, initial centroids, and seeds.

use galatea_kmeans::{DeviceKMeans, Execution, Init, KMeans, Launches, OnStop, Points, Progress, Scores};
use galatea_memory::regions::MemoryManager;

use crate::reference::reference;
use crate::{columns, device, first_rows, machine, points_of};

/// The initial centroids: those of a clustering without iterations.
fn first_centroids(points: &Points, settings: &KMeans) -> Vec<f64> {
    let settings = KMeans {
        max_iter: 0,
        ..settings.clone()
    };
    settings.fit(points).unwrap().centroids
}

#[test]
fn predict_labels_new_points() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    for (d, k) in [(3, 8), (40, 300)] {
        let some = columns(2000, d, 1);
        let settings = KMeans {
            init: Init::Given(first_rows(&some, k)),
            max_iter: 3,
            ..KMeans::new(k)
        };
        let model = settings.fit(&points_of(&some, 1 << 14)).unwrap();
        let others = columns(1500, d, 2);
        let expected = reference(&others, &model.centroids, 0);
        let points = points_of(&others, 1 << 14);
        for on in [None, Some(&on)] {
            let labels = model.predict(&points, on).unwrap();
            assert_eq!(labels.len(), 1500);
            for (point, (label, truth)) in labels.iter().zip(&expected.labels).enumerate() {
                let tie = expected.margins[point] < 0.1 * d as f64;
                assert!(
                    label == *truth || tie,
                    "d {d} point {point}: {label} is not {truth}"
                );
            }
        }
        assert!(
            model
                .predict(&points_of(&columns(10, d + 1, 2), 4096), None)
                .is_err()
        );
    }
}

#[test]
fn start_with_least_inertia_is_returned() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let points = points_of(&columns(3000, 2, 9), 1 << 14);
    // Random starts for the ten centres end with different centroids.
    let settings = KMeans {
        init: Init::Random,
        n_init: 8,
        seed: 5,
        ..KMeans::new(10)
    };
    for on in [None, Some(&on)] {
        let mut starts = Vec::new();
        let best = settings.fit_with(&points, on, true, &mut |progress| {
            starts.push(progress.start);
            true
        });
        let best = best.unwrap();
        // They run together, iteration by iteration.
        assert_eq!(starts[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        let alone = |start: u64| {
            let settings = KMeans {
                n_init: 1,
                seed: settings
                    .seed
                    .wrapping_add(start.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                ..settings.clone()
            };
            settings
                .fit_with(&points, on, false, &mut |_| true)
                .unwrap()
                .inertia
        };
        let inertias: Vec<f64> = (0..8).map(alone).collect();
        let least = inertias.iter().copied().fold(f64::INFINITY, f64::min);
        let most = inertias.iter().copied().fold(0.0, f64::max);
        assert!(most > 1.05 * least, "all starts end alike: {inertias:?}");
        assert!(
            (best.inertia / least - 1.0).abs() < 1e-6,
            "{} of {inertias:?}",
            best.inertia
        );
        assert_eq!(best.labels.unwrap().len(), 3000);
    }
}

/// Of the points 0, 1 and 3: if 0 is drawn first, 3 is drawn 9 times as often as 1. If 1 is first, 3 is drawn
/// 4 times as often as 0.
#[test]
fn plus_plus_draws_in_proportion_to_squared_distances() {
    let points = Points::from_columns(&[[0.0f32, 1.0, 3.0]]).unwrap();
    let mut pairs = [[0u32; 4]; 4];
    let seeds = 3000;
    for seed in 0..seeds {
        let drawn = first_centroids(
            &points,
            &KMeans {
                seed,
                ..KMeans::new(2)
            },
        );
        pairs[drawn[0] as usize][drawn[1] as usize] += 1;
    }
    for (first, second, share) in [
        (0, 3, 0.9),
        (0, 1, 0.1),
        (1, 3, 0.8),
        (1, 0, 0.2),
        (3, 0, 9.0 / 13.0),
    ] {
        let of_first = f64::from(pairs[first].iter().sum::<u32>());
        let found = f64::from(pairs[first][second]) / of_first;
        // Four standard deviations.
        let far = 4.0 * (share * (1.0f64 - share) / of_first).sqrt();
        assert!(
            (found - share).abs() < far,
            "{first} then {second}: {found}, not {share}"
        );
        assert!(
            (of_first / seeds as f64 - 1.0 / 3.0).abs() < 0.04,
            "{first} first: {of_first}"
        );
    }
    assert_eq!(
        pairs.iter().enumerate().map(|(i, row)| row[i]).sum::<u32>(),
        0,
        "a point twice"
    );
}

#[test]
fn plus_plus_finds_small_distant_clusters() {
    let mut x: Vec<f32> = (0..20_000).map(|i| (i % 100) as f32 / 100.0).collect();
    x.extend([500.0, 500.1, 900.0]);
    let points = Points::from_columns(&[x]).unwrap();
    let far = |drawn: &[f64]| {
        [500.0, 900.0]
            .iter()
            .all(|at| drawn.iter().any(|c| (c - at).abs() < 1.0))
    };
    let (mut plus_plus, mut random) = (0, 0);
    for seed in 0..50 {
        let settings = |init| KMeans {
            seed,
            init,
            ..KMeans::new(3)
        };
        plus_plus += u32::from(far(&first_centroids(&points, &settings(Init::PlusPlus))));
        random += u32::from(far(&first_centroids(&points, &settings(Init::Random))));
    }
    assert!(plus_plus >= 48 && random == 0, "{plus_plus} and {random} of 50");
}

#[test]
fn seed_determines_initial_centroids() {
    // More values than the limit for drawing from all.
    let points = points_of(&columns(5_000_000, 2, 3), 16 << 20);
    let of = |seed, init| {
        first_centroids(
            &points,
            &KMeans {
                seed,
                init,
                ..KMeans::new(12)
            },
        )
    };
    for init in [Init::PlusPlus, Init::Random] {
        assert_eq!(of(1, init.clone()), of(1, init.clone()));
        assert_ne!(of(1, init.clone()), of(2, init));
    }
    assert_eq!(of(1, Init::First), points.rows(0..12));
}

/// A stopped fit keeps the result of a fit with the same number of iterations: on the CPU, on the device one
/// by one, in shared launches, and by cross-processing.
#[test]
fn stopped_fit_can_keep_the_last_complete_centroids() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let points = points_of(&columns(3000, 3, 5), 1 << 13);
    for (place, launches, execution) in [
        (None, Launches::Each, Execution::Single),
        (Some(&on), Launches::Each, Execution::Single),
        (Some(&on), Launches::Persistent, Execution::Single),
        (Some(&on), Launches::Each, Execution::Cross),
    ] {
        let settings = KMeans {
            max_iter: 1000,
            tol: 0.0,
            launches,
            execution,
            scores: Some(Scores::Lanes),
            on_stop: OnStop::Keep,
            ..KMeans::new(40)
        };
        let mut told = 0;
        let mut stop = |progress: Progress| {
            told = progress.iteration;
            told < 3
        };
        let kept = settings.fit_with(&points, place, true, &mut stop).unwrap();
        assert!(kept.stopped && !kept.converged, "{execution:?} {launches:?}");
        assert!(told >= 3 && kept.n_iter == told, "{told} {}", kept.n_iter);
        let same = KMeans {
            max_iter: told,
            ..settings
        };
        let expected = same.fit_with(&points, place, true, &mut |_| true).unwrap();
        assert!(!expected.stopped);
        assert_eq!((&kept.sizes, &kept.labels), (&expected.sizes, &expected.labels));
        for (found, expected) in kept.centroids.iter().zip(&expected.centroids) {
            assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
        }
    }
    // The best of the restarts that have begun. The later ones do not begin.
    let settings = KMeans {
        n_init: 40,
        on_stop: OnStop::Keep,
        ..KMeans::new(5)
    };
    let mut begun = 0;
    let mut stop = |progress: Progress| {
        begun = begun.max(progress.start + 1);
        false
    };
    let kept = settings.fit_with(&points, None, false, &mut stop).unwrap();
    assert!(kept.stopped && kept.n_iter == 1 && begun == 16, "{begun}");
}
