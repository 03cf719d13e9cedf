//! The sum of squared distances of iterations that share a launch.

use super::*;
use crate::PointsBuilder;
use galatea_device::{DeviceOptions, EmulatorOptions};

/// 700 points around three centres, in several chunks.
fn points() -> Points {
    let column = |f: usize| -> Vec<f32> {
        let value = |p: usize| ((p % 3) * 40 + (p * (7 + f)) % 11) as f32 * 0.5;
        (0..700).map(value).collect()
    };
    let names = vec!["x".to_owned(), "y".to_owned()];
    let mut builder = PointsBuilder::with_chunk_bytes(names, 1 << 11).unwrap();
    builder.append(&[column(0), column(1)]).unwrap();
    builder.finish().unwrap()
}

/// Each iteration replaces the sum of the one before, as launches of a pass and an update do.
#[test]
fn inertia_is_that_of_the_last_iteration() {
    let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).unwrap();
    let manager = MemoryManager::new(&device).unwrap();
    let info = device.info();
    let machine = Machine {
        multiprocessors: info.multiprocessors,
        shared_bytes: info.shared_memory_per_multiprocessor.into(),
        shared_bytes_per_block: info.shared_memory_per_block.into(),
        ..Machine::H200
    };
    let on = DeviceKMeans::new(&manager, machine).unwrap();
    let points = points();
    let first = Centroids::new(&[1.0, 1.0, 20.0, 20.0, 30.0, 50.0], 2);
    let inertia = |together: bool, iterations: u32| {
        let mut run = on.start(&points, &KMeans::new(3)).unwrap();
        let mut shape = run.exact;
        shape.inertia = true;
        run.fit = together.then(|| KmeansFit::new(&device, shape).unwrap());
        run.passes = vec![KmeansPass::new(&device, shape).unwrap()];
        // The first run loads the points.
        run.begin(std::slice::from_ref(&first)).unwrap();
        run.queue_iterations(1, 0.0, None).unwrap();
        run.begin(std::slice::from_ref(&first)).unwrap();
        assert!(
            run.queue_iterations(iterations, 0.0, None).unwrap(),
            "all points are resident"
        );
        let state = run.starts[0].state(&on.compute).unwrap();
        (state.iterations, state.inertia)
    };
    for iterations in 1..4 {
        let ((done, found), (done_alone, expected)) = (inertia(true, iterations), inertia(false, iterations));
        assert_eq!(done, done_alone);
        assert!(expected > 0.0);
        let off = (found - expected).abs();
        assert!(off <= 1e-9 * expected, "{iterations}: {found} is not {expected}");
    }
}
