//! Points that are larger than the device's memory.

use galatea_device::Device;
use galatea_kmeans::{
    DeviceKMeans, Execution, Init, KMeans, KMeansError, Model, Points, Scores, Share, Sums,
};
use galatea_memory::regions::MemoryManager;

use crate::{columns, device, first_rows, machine, points_of};

const CHUNK: usize = 1 << 16;

/// 4 MiB of points in 64 chunks, the last one smaller.
fn points() -> Points {
    points_of(&columns((1 << 18) - 77, 4, 5), CHUNK)
}

fn settings(points: &Points) -> KMeans {
    let first: Vec<f64> = points.rows(0..14).iter().map(|value| value + 0.25).collect();
    KMeans {
        max_iter: 5,
        tol: 0.0,
        init: Init::Given(first),
        share: Share::Device,
        ..KMeans::new(14)
    }
}

fn fit(device: &Device, limit: Option<u64>, keep: bool, settings: &KMeans, points: &Points) -> Model {
    device.budget().set_limit(limit);
    device.budget().reset_peak();
    let manager = MemoryManager::new(device).unwrap();
    let mut on = DeviceKMeans::new(&manager, machine(device)).unwrap();
    if !keep {
        on = on.without_pages();
    }
    let model = settings.fit_with(points, Some(&on), true, &mut |_| true).unwrap();
    assert!(limit.is_none_or(|limit| device.budget().peak() <= limit));
    model
}

/// Equal except for the order of additions, which is that of chunks.
fn hold(found: &Model, expected: &Model) {
    assert_eq!(found.labels, expected.labels);
    assert_eq!((&found.sizes, found.n_iter), (&expected.sizes, expected.n_iter));
    for (found, expected) in found.centroids.iter().zip(&expected.centroids) {
        assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
    }
    assert!((found.inertia / expected.inertia - 1.0).abs() < 1e-6);
}

#[test]
fn points_beyond_device_memory_are_streamed() {
    let points = points();
    let device = device(32 << 20);
    let settings = settings(&points);
    let expected = fit(&device, None, true, &settings, &points);
    assert_eq!(expected.sizes.iter().sum::<u64>(), points.len());
    for (limit, keep) in [
        (Some(2 << 20), true),
        (Some(1 << 20), true),
        (Some(1 << 20), false),
        (None, false),
    ] {
        let found = fit(&device, limit, keep, &settings, &points);
        hold(&found, &expected);
        if keep {
            // Some of the points stayed resident.
            assert!(
                device.budget().peak() > 14 * CHUNK as u64,
                "{}",
                device.budget().peak()
            );
        } else {
            assert!(
                device.budget().peak() < 14 * CHUNK as u64,
                "{}",
                device.budget().peak()
            );
        }
    }
}

#[test]
fn cpu_processes_chunks_from_the_end() {
    let points = points();
    let device = device(32 << 20);
    let alone = KMeans {
        // The same computation as on the CPU, so that labels are the same.
        scores: Some(Scores::Lanes),
        ..settings(&points)
    };
    let expected = fit(&device, None, true, &alone, &points);
    assert_eq!(expected.cpu_chunks, 0);
    for share in [Share::Both, Share::Auto] {
        let settings = KMeans {
            share,
            ..alone.clone()
        };
        for (limit, keep) in [(Some(1 << 20), true), (None, false)] {
            let found = fit(&device, limit, keep, &settings, &points);
            hold(&found, &expected);
            // Of 64 chunks and 5 iterations. With `Auto`, the device alone executes two iterations.
            let iterations = if share == Share::Both { 5 } else { 3 };
            // The CPU processes at least its first chunk in each shared iteration; with `Auto`, the third is
            // shared.
            let least = if share == Share::Both { 5 } else { 1 };
            assert!(
                (least..=64 * iterations).contains(&found.cpu_chunks),
                "{share:?} {}",
                found.cpu_chunks
            );
        }
    }
    // Chunks that can stay resident are not shared.
    let settings = KMeans {
        share: Share::Both,
        ..alone
    };
    let found = fit(&device, None, true, &settings, &points);
    assert_eq!(found.cpu_chunks, 0);
    hold(&found, &expected);
}

#[test]
fn stopped_runs_free_device_memory() {
    let points = points();
    let device = device(32 << 20);
    let settings = settings(&points);
    device.budget().set_limit(Some(2 << 20));
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    let before = device.budget().used();
    for share in [Share::Device, Share::Both] {
        let settings = KMeans {
            share,
            ..settings.clone()
        };
        let mut told = 0;
        let stopped = settings.fit_with(&points, Some(&on), false, &mut |progress| {
            told = progress.iteration;
            progress.iteration < 2
        });
        assert!(
            matches!(stopped, Err(KMeansError::Cancelled { iterations: 2 })),
            "{stopped:?}"
        );
        assert_eq!(told, 2);
        manager.clear().unwrap();
        assert_eq!(device.budget().used(), before);
    }
    // Not even one chunk fits beside the memory of others.
    device.budget().set_limit(Some(before + (40 << 10)));
    let failed = settings.fit_with(&points, Some(&on), false, &mut |_| true);
    match failed {
        Err(KMeansError::Memory { what, bytes, limit }) => {
            assert_eq!((what, limit), ("a chunk of points", before + (40 << 10)));
            assert!(bytes <= CHUNK as u64 && bytes > 40 << 10, "{bytes}");
        }
        other => panic!("{other:?}"),
    }
    manager.clear().unwrap();
    assert_eq!(device.budget().used(), before);
    device.budget().set_limit(None);
    let model = settings
        .fit_with(&points, Some(&on), false, &mut |_| true)
        .unwrap();
    assert_eq!(model.n_iter, 5);
}

/// Copies that lanes share, for odd and even numbers of features.
#[test]
fn few_shared_accumulators_match_the_cpu() {
    let device = device(32 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    for (d, k) in [(3, 20), (4, 20)] {
        let columns = columns(3000, d, 3);
        let points = points_of(&columns, CHUNK);
        let settings = KMeans {
            max_iter: 3,
            tol: 0.0,
            init: Init::Given(first_rows(&columns, k)),
            ..KMeans::new(k)
        };
        let expected = settings.fit_predict(&points).unwrap();
        for copies in [1, 4, 16] {
            let rows = 4 * (k * (d + 1) * copies + k * (d + 1) + 4);
            let settings = KMeans {
                sums: Some(Sums::Shared),
                shared_limit: Some(rows as u64 + 64),
                ..settings.clone()
            };
            let found = settings
                .fit_with(&points, Some(&on), true, &mut |_| true)
                .unwrap();
            hold(&found, &expected);
        }
    }
}

/// A last chunk of few points has fewer tiles than the others; a block must not read beyond them.
#[test]
fn small_last_chunk_is_not_overread() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    for (d, k, scores) in [
        (40, 4, Scores::Lanes),
        (36, 10, Scores::Matrix),
        (16, 10, Scores::Matrix),
    ] {
        let chunk = 1 << 20;
        let columns = columns(2 * (chunk / (4 * d)) + 1, d, 11);
        let settings = KMeans {
            max_iter: 2,
            tol: 0.0,
            init: Init::Given(first_rows(&columns, k)),
            scores: Some(scores),
            sums: Some(Sums::Features),
            share: Share::Device,
            ..KMeans::new(k)
        };
        let points = points_of(&columns, chunk);
        let found = settings
            .fit_with(&points, Some(&on), true, &mut |_| true)
            .unwrap();
        let expected = settings.fit_predict(&points).unwrap();
        hold(&found, &expected);
    }
}

/// Starts that share passes end like each of them alone, wherever the points reside and whichever processor
/// takes chunks of them.
#[test]
fn restarts_share_passes_over_the_points() {
    let device = device(256 << 20);
    let points = points_of(&columns((1 << 14) - 77, 3, 5), 1 << 13);
    let restarts = KMeans {
        max_iter: 4,
        tol: 0.0,
        init: Init::Random,
        n_init: 5,
        seed: 9,
        ..KMeans::new(6)
    };
    let alone = |start: u64| {
        let seed = restarts
            .seed
            .wrapping_add(start.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let settings = KMeans {
            n_init: 1,
            seed,
            ..restarts.clone()
        };
        settings.fit_predict(&points).unwrap()
    };
    let models: Vec<Model> = (0..5).map(alone).collect();
    let best = models
        .iter()
        .min_by(|a, b| a.inertia.total_cmp(&b.inertia))
        .unwrap();
    let single = Execution::Single;
    for (keep, share, execution) in [
        (true, Share::Device, single),
        (false, Share::Device, single),
        (false, Share::Both, single),
        (true, Share::Device, Execution::Multi),
        (false, Share::Device, Execution::Multi),
        (true, Share::Device, Execution::Cross),
    ] {
        let settings = KMeans {
            share,
            execution,
            ..restarts.clone()
        };
        let found = fit(&device, None, keep, &settings, &points);
        assert!(
            (found.inertia / best.inertia - 1.0).abs() < 1e-6,
            "keep {keep} {share:?} {execution:?}"
        );
        hold(&found, best);
    }
    assert_eq!(restarts.fit_predict(&points).unwrap(), *best);
}
