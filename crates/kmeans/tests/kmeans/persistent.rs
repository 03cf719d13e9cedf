//! Compares several iterations in one launch with iterations that are launched one by one.

use galatea_kmeans::{DeviceKMeans, Init, KMeans, KMeansError, Launches, Model, Scores, Share};
use galatea_memory::regions::MemoryManager;

use crate::{columns, device, first_rows, machine, points_of};

/// Equal except for the order of additions.
fn hold(found: &Model, expected: &Model, what: &str) {
    assert_eq!(found.n_iter, expected.n_iter, "{what}");
    assert_eq!(found.converged, expected.converged, "{what}");
    assert_eq!(found.sizes, expected.sizes, "{what}");
    assert_eq!(found.labels, expected.labels, "{what}");
    for (found, expected) in found.centroids.iter().zip(&expected.centroids) {
        assert!(
            (found - expected).abs() < 1e-3,
            "{what}: {found} is not {expected}"
        );
    }
    let off = (found.inertia - expected.inertia).abs();
    assert!(off <= 1e-6 * expected.inertia, "{what}: off by {off}");
}

/// Fewer tiles than blocks, the same number, more; wide points; matrix units; empty clusters.
#[test]
fn persistent_launch_matches_one_launch_per_iteration() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    for (n, d, k, scores) in [
        (1, 1, 1, None),
        (33, 1, 2, None),
        (257, 3, 5, None),
        (5000, 4, 6, None),
        (40_000, 2, 4, None),
        (900, 40, 7, None),
        (3000, 4, 12, Some(Scores::Matrix)),
        (600, 3, 70, Some(Scores::Matrix)),
    ] {
        let columns = columns(n, d, 7);
        let points = points_of(&columns, 1 << 14);
        let mut first = first_rows(&columns, k);
        if k == 6 {
            // A centroid far from all points does not move.
            first[..d].fill(-1e5);
        }
        for (max_iter, tol) in [(0, 0.0), (1, 0.0), (7, 0.0), (50, 1e-4)] {
            let settings = |launches| KMeans {
                max_iter,
                tol,
                init: Init::Given(first.clone()),
                scores,
                launches,
                ..KMeans::new(k)
            };
            let fit = |launches| {
                settings(launches)
                    .fit_with(&points, Some(&on), true, &mut |_| true)
                    .unwrap()
            };
            let what = format!("n {n} d {d} k {k} max_iter {max_iter}");
            hold(&fit(Launches::Persistent), &fit(Launches::Each), &what);
        }
    }
}

/// Starts of one launch, each with its own end; also more of them than a launch holds on a device of few
/// blocks.
#[test]
fn restarts_in_one_launch_match_separate_launches() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let points = points_of(&columns(3000, 3, 5), 1 << 13);
    let fit = |launches| {
        let settings = KMeans {
            max_iter: 20,
            init: Init::Random,
            n_init: 19,
            seed: 9,
            launches,
            ..KMeans::new(6)
        };
        settings
            .fit_with(&points, Some(&on), true, &mut |_| true)
            .unwrap()
    };
    hold(&fit(Launches::Persistent), &fit(Launches::Each), "19 starts");
}

/// With few points, launches would take longer than passes. Points that are not resident have a launch per
/// chunk.
#[test]
fn few_resident_points_use_a_persistent_launch() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let columns = columns(20_000, 4, 3);
    let points = points_of(&columns, 1 << 14);
    let settings = KMeans {
        share: Share::Device,
        ..KMeans::new(4)
    };
    let persists = |on: &DeviceKMeans<'_>, launches| {
        let settings = KMeans {
            launches,
            ..settings.clone()
        };
        on.start(&points, &settings).unwrap().is_persistent()
    };
    assert!(persists(&on, Launches::Auto));
    assert!(!persists(&on, Launches::Each));
    let expected = settings
        .fit_with(&points, Some(&on), true, &mut |_| true)
        .unwrap();
    manager.clear().unwrap();
    let streamed = DeviceKMeans::new(&manager, machine(&device))
        .unwrap()
        .without_pages();
    let found = settings
        .fit_with(&points, Some(&streamed), true, &mut |_| true)
        .unwrap();
    hold(&found, &expected, "streamed");
}

#[test]
fn persistent_fit_can_be_stopped() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let points = points_of(&columns(3000, 3, 5), 1 << 13);
    let settings = KMeans {
        max_iter: 1000,
        tol: 0.0,
        launches: Launches::Persistent,
        ..KMeans::new(40)
    };
    let mut told = Vec::new();
    let stopped = settings.fit_with(&points, Some(&on), false, &mut |progress| {
        told.push(progress.iteration);
        told.len() < 2
    });
    assert!(
        matches!(stopped, Err(KMeansError::Cancelled { iterations }) if iterations == told[1]),
        "{stopped:?} {told:?}"
    );
    assert!(told[0] < told[1] && told[1] <= 3, "{told:?}");
}
