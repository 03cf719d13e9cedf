//! Results of scikit-learn 1.9.1 on small sets: `KMeans(k, init=x[:k], n_init=1, tol=0,
//! algorithm='lloyd').fit(x)`, x in 64 bits.

use galatea_kmeans::{DeviceKMeans, Init, KMeans, Model};
use galatea_memory::regions::MemoryManager;

use crate::{device, machine, points_of};

/// Points at corners of a grid, with some noise, by a formula that was used for scikit-learn, too.
fn columns(points: u64, features: u64) -> Vec<Vec<f32>> {
    let value = |i: u64, f: u64| {
        let noise = ((i * 7919 + f * 104_729 + i * f * 31) % 1009) as f64 / 1009.0;
        let corner = (i % 6 * (f + 3) % 7) as f64;
        (corner * 10.0 + noise * 8.0) as f32
    };
    (0..features)
        .map(|f| (0..points).map(|i| value(i, f)).collect())
        .collect()
}

/// A set, and its result.
struct Fact {
    points: u64,
    inertia: f64,
    iterations: u32,
    sizes: &'static [u64],
    first: &'static [f64],
    last: &'static [f64],
}

const FACTS: &[Fact] = &[
    Fact {
        points: 600,
        inertia: 6_381.329_000_281_188,
        iterations: 2,
        sizes: &[100, 100, 100, 100, 100, 100],
        first: &[4.034_569, 4.032_349],
        last: &[13.969_158, 63.995_877],
    },
    Fact {
        points: 600,
        inertia: 109_299.982_816_529_02,
        iterations: 5,
        sizes: &[100, 200, 100, 200],
        first: &[4.034_569, 4.032_349, 3.950_129],
        last: &[19.022_24, 58.963_172, 28.984_103],
    },
    Fact {
        points: 1000,
        inertia: 25_272.268_150_163_47,
        iterations: 14,
        sizes: &[92, 84, 167, 167, 166, 166, 75, 83],
        first: &[4.883_613, 5.236_696, 4.981_083, 3.421_123, 4.122_032],
        last: &[33.400_05, 43.979_128, 54.269_048, 64.269_813, 5.909_131],
    },
    Fact {
        points: 257,
        inertia: 7_710.285_755_902_716,
        iterations: 3,
        sizes: &[85, 86, 86],
        first: &[9.011_648],
        last: &[58.884_482],
    },
];

fn holds(model: &Model, fact: &Fact, on: &str) {
    assert_eq!(model.sizes, fact.sizes, "{on}, {} points", fact.points);
    assert_eq!(model.n_iter, fact.iterations, "{on}, {} points", fact.points);
    let inertia = (model.inertia - fact.inertia).abs() / fact.inertia;
    assert!(inertia < 1e-5, "{on}: {} and {}", model.inertia, fact.inertia);
    let d = model.features;
    let ends = [
        &model.centroids[..d],
        &model.centroids[model.centroids.len() - d..],
    ];
    for (found, expected) in ends.into_iter().zip([fact.first, fact.last]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 2e-5, "{on}: {found} and {expected}");
        }
    }
}

#[test]
fn small_data_sets_match_scikit_learn() {
    let device = device(64 << 20);
    let manager = MemoryManager::new(&device).unwrap();
    let on_device = DeviceKMeans::new(&manager, machine(&device)).unwrap();
    for fact in FACTS {
        let (d, k) = (fact.first.len(), fact.sizes.len());
        let columns = columns(fact.points, d as u64);
        let points = points_of(&columns, 1 << 12);
        let first = (0..k).flat_map(|point| columns.iter().map(move |column| f64::from(column[point])));
        let settings = KMeans {
            init: Init::Given(first.collect()),
            // Sums on a device differ in their last bits, so no centroid converges exactly.
            tol: 1e-9,
            ..KMeans::new(k)
        };
        holds(&settings.fit(&points).unwrap(), fact, "CPU");
        let model = settings.fit_with(&points, Some(&on_device), false, &mut |_| true);
        holds(&model.unwrap(), fact, "device");
    }
}
