//! Passes of all shapes.

use galatea_kernels::kmeans::matrix_error;
use galatea_kmeans::{
    CpuSums, DeviceKMeans, Execution, Init, KMeans, Model, Scores, Sums, Wanted, choose, costs, cpu_phases,
};
use galatea_memory::regions::MemoryManager;

use crate::reference::{Reference, reference};
use crate::{columns, device, first_rows, machine, points_of};

/// Compares a model with the reference. Labels are compared if the margin exceeds the error of floats, and
/// sizes if all labels are.
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
        (32, 2, 3),
        (256, 4, 9),
        (512, 5, 8),
        (40_000, 2, 4),
    ] {
        let columns = columns(n, d, 7);
        let first = first_rows(&columns, k);
        let points = points_of(&columns, 1 << 16);
        let expected = reference(&columns, &first, 2);
        for cpu_sums in [CpuSums::Auto].into_iter().chain(CpuSums::ALL) {
            for execution in [Execution::Single, Execution::Multi] {
                let settings = KMeans {
                    cpu_sums,
                    execution,
                    ..settings(first.clone(), k)
                };
                let model = settings.fit_predict(&points).unwrap();
                hold(
                    &model,
                    &expected,
                    &format!("n {n} d {d} k {k} {cpu_sums:?} {execution:?}"),
                );
            }
        }
    }
}

#[test]
fn every_sum_strategy_matches_the_reference() {
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
            // Too many accumulators for this method, or too many features for registers.
            let wanted = Wanted {
                scores: Some(Scores::Lanes),
                sums: Some(sums),
                shared_limit: None,
            };
            if choose(&machine, (d as u32, k as u32), wanted).is_err() {
                continue;
            }
            tried.push(sums);
            let settings = KMeans {
                scores: wanted.scores,
                sums: wanted.sums,
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
fn matrix_units_agree_with_the_reference() {
    let device = device(64 << 20);
    let machine = machine(&device);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine).unwrap();
    for (n, d, k) in [
        (33, 2, 8),
        (700, 2, 9),
        (1025, 3, 16),
        (1049, 4, 64),
        (300, 4, 65),
        (315, 5, 17),
        (200, 7, 130),
        (257, 16, 33),
        (200, 32, 12),
        (300, 33, 8),
        (261, 40, 70),
        (515, 64, 20),
        (130, 131, 9),
        (200, 257, 12),
        (139, 300, 5),
        (70, 40, 1),
        // Centroids in shared memory in several groups, one at a time.
        (600, 32, 515),
        (200, 130, 135),
    ] {
        let columns = columns(n, d, 13);
        let first = first_rows(&columns, k);
        let expected = reference(&columns, &first, 1);
        let points = points_of(&columns, 1 << 13);
        // A point that is equally far from two clusters may move both. The stated bound is for errors of the
        // same sign; the errors here stay within an eighth of it.
        let radius: f64 = columns.iter().map(|column| square_extent(column)).sum();
        let margins = reference(&columns, &first, 0).margins;
        let close = matrix_error(d as u32, radius) / 8.0;
        let ties = margins.into_iter().filter(|margin| *margin < close).count();
        assert!(4 * ties <= k, "n {n} d {d} k {k}: {ties} near ties");
        for sums in [Sums::Features, Sums::Shared, Sums::Global] {
            let wanted = Wanted {
                scores: Some(Scores::Matrix),
                sums: Some(sums),
                shared_limit: None,
            };
            // Each number of points per thread, each number of copies.
            let mut shapes: Vec<_> = costs(&machine, (d as u32, k as u32), wanted)
                .into_iter()
                .map(|cost| cost.shape)
                .filter(|shape| {
                    // Many wide shapes exist: test those with as many points per block as copies, and one
                    // more.
                    let is_one = |of: u32| shape.copies * of == 4 || shape.copies == 8;
                    match shape.is_wide() && sums == Sums::Features {
                        true => {
                            shape.threads == 128 && is_one(shape.points) && shape.ahead == (shape.copies > 1)
                        }
                        false => shape.threads == 128 && shape.ahead == (shape.points == 4),
                    }
                })
                .collect();
            shapes.sort_by_key(|shape| (shape.copies, shape.points));
            assert!(!shapes.is_empty() || sums != Sums::Global, "n {n} d {d} k {k}");
            for shape in shapes {
                let mut run = on.start_with(&points, shape).unwrap();
                run.place_centroids(&first).unwrap();
                run.queue_iteration().unwrap();
                assert_eq!(run.shape().scores, Scores::Matrix);
                let found = run.read_centroids().unwrap();
                let others = found.chunks_exact(d).zip(expected.centroids.chunks_exact(d));
                let others: Vec<_> = others
                    .enumerate()
                    .filter(|(_, (found, truth))| {
                        found.iter().zip(*truth).any(|(x, y)| (x - y).abs() >= 2e-3)
                    })
                    .collect();
                assert!(
                    others.len() <= 2 * ties,
                    "n {n} d {d} k {k} {shape:?}, {ties} near ties: {:?}",
                    others.first()
                );
            }
        }
    }
}

/// The square of the maximum distance of a column's values from their middle.
fn square_extent(column: &[f32]) -> f64 {
    let (least, most) = column.iter().fold((f32::MAX, f32::MIN), |(least, most), x| {
        (least.min(*x), most.max(*x))
    });
    (f64::from(most - least) / 2.0).powi(2)
}

/// A point far from all others would leave matrix units too few bits to distinguish the others.
#[test]
fn outliers_disable_matrix_units() {
    let device = device(16 << 20);
    let machine = machine(&device);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine).unwrap();
    let mut columns = columns(4000, 3, 19);
    let mut first = first_rows(&columns, 16);
    let wanted = Wanted {
        scores: Some(Scores::Matrix),
        ..Wanted::default()
    };
    let shape = choose(&machine, (3, 16), wanted).unwrap();
    for (far, scores) in [(1e3, Scores::Matrix), (1e7, Scores::Lanes)] {
        columns[1][77] = far;
        let expected = reference(&columns, &first, 1);
        let points = points_of(&columns, 1 << 14);
        let mut run = on.start_with(&points, shape).unwrap();
        run.place_centroids(&first).unwrap();
        assert_eq!(run.shape().scores, scores);
        run.queue_iteration().unwrap();
        for (found, truth) in run.read_centroids().unwrap().iter().zip(&expected.centroids) {
            assert!(
                (found - truth).abs() <= 1e-6 * far.abs() as f64,
                "{found}, not {truth}"
            );
        }
    }
    // Nor are they used if a centroid is far away.
    columns[1][77] = 1000.0;
    first[4] = 1e7;
    let points = points_of(&columns, 1 << 14);
    let mut run = on.start_with(&points, shape).unwrap();
    run.place_centroids(&first).unwrap();
    assert_eq!(run.shape().scores, Scores::Lanes);
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
        // More chunks than the labels of one launch.
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

/// The phases, executed one after another, are an iteration.
#[test]
fn phases_add_up_to_an_iteration() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let machine = machine(&device);
    let on = DeviceKMeans::new(&manager, machine).unwrap();
    let columns = columns(3001, 5, 17);
    let first = first_rows(&columns, 6);
    let expected = reference(&columns, &first, 1);
    let points = points_of(&columns, 4096);
    let shape = choose(&machine, (5, 6), Wanted::default()).unwrap();
    for (execution, names) in [
        (Execution::Multi, &["assignment", "sums", "centroids"][..]),
        (
            Execution::Cross,
            &["assignment", "label transfer", "sums", "centroids"],
        ),
    ] {
        let mut run = on.start_with(&points, shape).unwrap();
        run.execute_as(execution).unwrap();
        run.place_centroids(&first).unwrap();
        let phases: Vec<&str> = run.phases().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(phases, names);
        for (found, truth) in run.read_centroids().unwrap().iter().zip(&expected.centroids) {
            assert!(
                (found - truth).abs() < 2e-3,
                "{execution:?}: {found}, not {truth}"
            );
        }
    }
    assert_eq!(cpu_phases(&points, &first).len(), 3);
}

/// Numbers of clusters around the limit of labels of two bytes, on the CPU; two of them on the device.
#[test]
fn thousands_of_clusters_agree_with_the_reference() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    for (k, d) in [(1023, 8), (1024, 7), (1025, 8), (2047, 9), (2048, 8)] {
        let columns = columns(k + 77, d, 23);
        let first = first_rows(&columns, k);
        let expected = reference(&columns, &first, 1);
        let points = points_of(&columns, 1 << 14);
        let settings = KMeans {
            max_iter: 1,
            ..settings(first, k)
        };
        let devices = [None, Some(&on)];
        for on in &devices[..if matches!(k, 1025 | 2048) { 2 } else { 1 }] {
            let model = settings.fit_with(&points, *on, true, &mut |_| true).unwrap();
            hold(
                &model,
                &expected,
                &format!("d {d} k {k}, device {}", on.is_some()),
            );
        }
    }
}

/// Points, features and clusters around the sizes of warps, blocks, vectors and chunks.
#[test]
fn sizes_around_every_boundary_agree_with_the_reference() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let around = |sizes: &[usize]| -> Vec<usize> {
        let around = sizes.iter().flat_map(|size| [size - 1, *size, size + 1]);
        around.filter(|size| *size > 0).collect()
    };
    let points = around(&[1, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
    let features = around(&[1, 2, 4, 8, 16, 32, 64, 128, 299]);
    let clusters = around(&[1, 2, 4, 16, 32, 64, 256, 1024, 2047]);
    // Each number of clusters and of features at least once.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = |from: &[usize]| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        from[(state >> 33) as usize % from.len()]
    };
    let with_features = features.iter().map(|d| (None, *d));
    let with_clusters = clusters.iter().map(|k| (Some(*k), 1));
    let mut compared = [0, 0];
    for (k, d) in with_features.chain(with_clusters) {
        let k = k.unwrap_or_else(|| draw(&clusters));
        let d = if d == 1 { draw(&features[3..12]) } else { d };
        let n = draw(&points);
        // A size that the emulated device can handle, and no more clusters than points.
        let n = n.max(k).min((500_000 / (d * k)).max(k));
        let k = if n * d * k > 3_000_000 { k.min(64) } else { k };
        // On a line or in a plane, most points are near the middle between two of many clusters.
        let k = if d < 3 { k.min(8) } else { k };
        // Points that 32-bit floats assign to one of two clusters by chance would move both, so the test
        // searches for a set without such points. If the first draws all have some, only the first assignment
        // is compared.
        let close = 300.0f64.powi(2) * d as f64 * 2e-6;
        let drawn = (17..22).map(|seed| columns(n, d, seed)).map(|columns| {
            let first = first_rows(&columns, k);
            (columns, first)
        });
        let mut clear = drawn.filter(|(columns, first)| {
            let margins = reference(columns, first, 0).margins;
            margins.into_iter().all(|margin| margin > close)
        });
        let (columns, first, iterations) = match clear.next() {
            Some((columns, first)) => (columns, first, 1),
            None => {
                let columns = columns(n, d, 17);
                let first = first_rows(&columns, k);
                (columns, first, 0)
            }
        };
        compared[iterations as usize] += 1;
        let expected = reference(&columns, &first, iterations);
        let points = points_of(&columns, 1 << 13);
        let settings = KMeans {
            max_iter: iterations,
            ..settings(first, k)
        };
        // Kernels of each shape are compiled, so only a third of the shapes run on the device.
        let devices = [None, Some(&on)];
        let devices = &devices[..if (d + k) % 3 == 0 { 2 } else { 1 }];
        for on in devices.iter().copied() {
            let model = settings.fit_with(&points, on, true, &mut |_| true).unwrap();
            let place = if on.is_some() { "device" } else { "CPU" };
            hold(&model, &expected, &format!("n {n} d {d} k {k}, {place}"));
        }
    }
    assert!(compared[1] >= 20, "most with an iteration: {compared:?}");
}
