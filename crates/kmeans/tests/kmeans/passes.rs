//! Passes of every shape.

use galatea_kmeans::{DeviceKMeans, Execution, Init, KMeans, Model, Sums, choose};
use galatea_memory::regions::MemoryManager;

use crate::reference::{Reference, reference};
use crate::{columns, device, first_rows, machine, points_of};

/// Holds a model against the reference: labels are exact where the margin is above what floats can tell, and with all of them exact, sizes.
fn hold(model: &Model, expected: &Reference, what: &str) {
    let scale = 300.0f64.powi(2) * model.features as f64;
    let close = scale * 1e-6;
    let labels = model.labels.as_ref().unwrap();
    assert_eq!(labels.len(), expected.labels.len(), "{what}");
    let mut ties = 0;
    for (point, (label, truth)) in labels.iter().zip(&expected.labels).enumerate() {
        if expected.margins[point] > close {
            assert_eq!(
                label, *truth,
                "{what}: point {point}, margin {}",
                expected.margins[point]
            );
        } else {
            ties += 1;
        }
    }
    assert!(
        ties * 20 <= labels.len() || labels.len() < 100,
        "{what}: {ties} near ties"
    );
    for (found, truth) in model.sizes.iter().zip(&expected.sizes) {
        assert!(
            found.abs_diff(*truth) <= ties as u64,
            "{what}: sizes {:?}",
            model.sizes
        );
    }
    assert_eq!(model.sizes.iter().sum::<u64>(), labels.len() as u64, "{what}");
    let tolerance = 2e-3 + ties as f64;
    for (at, (found, truth)) in model.centroids.iter().zip(&expected.centroids).enumerate() {
        assert!(
            (found - truth).abs() <= tolerance,
            "{what}: value {at} is {found}, not {truth}"
        );
    }
    let inertia = (model.inertia - expected.inertia).abs() / expected.inertia.max(1.0);
    assert!(
        inertia < 1e-3,
        "{what}: inertia {} and {}",
        model.inertia,
        expected.inertia
    );
}

fn settings(first: Vec<f64>, clusters: usize) -> KMeans {
    KMeans {
        max_iter: 2,
        tol: 0.0,
        init: Init::Given(first),
        ..KMeans::new(clusters)
    }
}

#[test]
fn the_cpu_agrees_with_the_reference() {
    for (n, d, k) in [
        (1, 1, 1),
        (33, 1, 2),
        (257, 3, 5),
        (1000, 17, 8),
        (5000, 64, 31),
        (700, 300, 4),
        (40_000, 2, 4),
    ] {
        let columns = columns(n, d, 7);
        let first = first_rows(&columns, k);
        let points = points_of(&columns, 1 << 16);
        let model = settings(first.clone(), k).fit_predict(&points).unwrap();
        hold(
            &model,
            &reference(&columns, &first, 2),
            &format!("n {n} d {d} k {k}"),
        );
    }
}

#[test]
fn every_way_of_summing_agrees_with_the_reference() {
    let device = device(64 << 20);
    let machine = machine(&device);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine).unwrap();
    for (n, d, k) in [
        (1, 1, 1),
        (33, 1, 2),
        (129, 2, 3),
        (4099, 3, 7),
        (5000, 4, 4),
        (3001, 4, 16),
        (2000, 5, 33),
        (1500, 16, 9),
        (800, 32, 5),
        (700, 3, 300),
        (600, 33, 5),
        (1300, 64, 20),
        (300, 75, 9),
        (400, 300, 12),
    ] {
        let columns = columns(n, d, 11);
        let first = first_rows(&columns, k);
        let expected = reference(&columns, &first, 2);
        let points = points_of(&columns, 1 << 14);
        let mut tried = Vec::new();
        for sums in Sums::ALL {
            // Too many accumulators for a way to hold, or features for registers.
            if choose(&machine, (d as u32, k as u32), Some(sums), None).is_err() {
                continue;
            }
            tried.push(sums);
            let settings = KMeans {
                sums: Some(sums),
                ..settings(first.clone(), k)
            };
            let model = settings
                .fit_with(&points, Some(&on), true, &mut |_| true)
                .unwrap();
            assert_eq!(model.n_iter, 2);
            hold(&model, &expected, &format!("n {n} d {d} k {k} {}", sums.name()));
        }
        assert!(
            tried.ends_with(&[Sums::Global]) && tried.contains(&Sums::Features),
            "{tried:?}"
        );
    }
}

#[test]
fn every_execution_agrees_with_the_reference() {
    let device = device(64 << 20);
    let machine = machine(&device);
    let manager = MemoryManager::new(&device).unwrap();
    for (n, d, k) in [(5000, 4, 6), (3001, 5, 300), (1300, 40, 20)] {
        let columns = columns(n, d, 17);
        let first = first_rows(&columns, k);
        let expected = reference(&columns, &first, 2);
        // More chunks than labels of one launch.
        let points = points_of(&columns, 4096);
        for streamed in [false, true] {
            let mut on = DeviceKMeans::new(&manager, machine).unwrap();
            if streamed {
                manager.clear().unwrap();
                on = on.without_pages();
            }
            for execution in [Execution::Single, Execution::Multi, Execution::Cross] {
                for sums in [None, Some(Sums::Features), Some(Sums::Global)] {
                    let settings = KMeans {
                        execution,
                        sums,
                        ..settings(first.clone(), k)
                    };
                    let model = settings
                        .fit_with(&points, Some(&on), true, &mut |_| true)
                        .unwrap();
                    assert_eq!(model.n_iter, 2);
                    hold(
                        &model,
                        &expected,
                        &format!("n {n} d {d} k {k} {execution:?} {sums:?}"),
                    );
                }
            }
        }
    }
}
