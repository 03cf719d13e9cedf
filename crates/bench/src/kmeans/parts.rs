//! Parts of an iteration, and concurrent iterations: phases (thesis, figure 5.12), chunks in transfers to the
//! device (figure 5.15), restarts together and separately, iterations in one launch and one by one.

use std::time::{Duration, Instant};

use galatea_kernels::Nothing;
use galatea_kmeans::{
    DeviceKMeans, Execution, Init, KMeans, Launches, Phase, Points, Share, Wanted, choose, cpu_phases,
};
use galatea_memory::regions::MemoryManager;
use galatea_memory::transfer::{self, Method, TransferOptions};

use super::{Experiment, Plan, Row};
use crate::Result;
use crate::harness::Clock;
use crate::result::Summary;

/// Sizes of chunks in bytes.
const CHUNKS: [usize; 8] = [
    64 << 10,
    1 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
    512 << 20,
];
/// Bytes of the points in the thesis.
const POINTS_BYTES: usize = 2 << 30;
/// Number of transfers per size, and the number of bytes after which they suffice.
const TRANSFERS: usize = 100;
const ENOUGH_BYTES: usize = 2 << 30;
/// Number of restarts.
const STARTS: u32 = 10;
/// Number of iterations of each, and of a fit over few points.
const ITERATIONS: u32 = 10;
const MANY_ITERATIONS: u32 = 64;
/// Number of iterations after which both methods must have the same centroids.
const VERIFIED_ITERATIONS: u32 = 2;

/// The phases of an iteration by cross-processing and multi-pass, on the device and on the CPU.
pub(super) fn phases(
    on: &DeviceKMeans<'_>,
    machine: &galatea_layout::model::Machine,
    (points, clusters): (&Points, u32),
    plan: &Plan,
) -> Result<Vec<Row>> {
    let of = (points.features() as u32, clusters);
    let shape = choose(machine, of, plan.wanted(None, None))?;
    let first = points.rows(0..u64::from(clusters));
    let mut rows = Vec::new();
    let mut keep = |execution: Execution, place: &str, found: Vec<Vec<Phase>>| {
        for part in 0..found[0].len() {
            let times = found.iter().map(|phases| phases[part].1.as_secs_f64());
            let mut row = Row::new(Experiment::Phases.name(), execution.name(), place, &plan.machine);
            (row.features, row.clusters) = of;
            row.part = found[0][part].0.to_string();
            row.set_time(points.len(), points.bytes(), Summary::of(times), None);
            row.right = true;
            rows.push(row);
        }
    };
    for execution in [Execution::Cross, Execution::Multi] {
        let mut run = on.start_with(points, shape)?;
        run.execute_as(execution)?;
        run.place_centroids(&first)?;
        let mut found = Vec::new();
        for _ in 0..plan.runs {
            found.push(run.phases()?);
        }
        keep(execution, "resident", found);
    }
    let found = (0..plan.runs).map(|_| cpu_phases(points, &first)).collect();
    keep(Execution::Multi, "cpu", found);
    Ok(rows)
}

/// Transfers of chunks of each size to the device: copies from pinned memory alone; and each preceded by a
/// copy to pinned memory and followed by an empty kernel, with these three concurrent for different chunks.
pub(super) fn chunks(manager: &MemoryManager, plan: &Plan) -> Result<Vec<Row>> {
    let device = manager.device();
    let stream = device.stream()?;
    let nothing = Nothing::new(device)?;
    let bytes = if plan.emulated {
        plan.bytes as usize
    } else {
        POINTS_BYTES
    };
    let most = (bytes / 4).max(CHUNKS[0]);
    let mut rows = Vec::new();
    for size in CHUNKS.into_iter().filter(|size| *size <= most) {
        let count = (ENOUGH_BYTES.min(2 * bytes) / size).clamp(3, TRANSFERS);
        let options = TransferOptions {
            chunk_bytes: size,
            ..TransferOptions::default()
        };
        for (method, execution) in [
            (Method::Pinned, "transfer"),
            (Method::Staged, "memcpy, transfer, empty kernel"),
        ] {
            let mut transfer = transfer::open(device, method, 2 * size, &options)?;
            let mut times = Vec::new();
            for run in 0..=plan.runs {
                let begun = Instant::now();
                for number in 0..count {
                    let start = number % 2 * size;
                    transfer.bring(&stream, start..start + size)?;
                    if method == Method::Staged {
                        nothing.launch(&stream)?;
                    }
                }
                stream.synchronize()?;
                if run > 0 {
                    times.push(begun.elapsed().as_secs_f64() / count as f64);
                }
            }
            let mut row = Row::new(Experiment::Chunks.name(), execution, "link", &plan.machine);
            row.part = size.to_string();
            row.set_time(0, size as u64, Summary::of(times), None);
            row.right = true;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Restarts that share the passes over the points, compared with the same number of consecutive fits.
pub(super) fn restarts(
    manager: &MemoryManager,
    machine: &galatea_layout::model::Machine,
    (points, clusters): (&Points, u32),
    plan: &Plan,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (place, keep) in [("resident", true), ("streamed", false)] {
        manager.clear()?;
        let mut on = DeviceKMeans::new(manager, *machine)?;
        if !keep {
            on = on.without_pages();
        }
        let fit = |n_init: u32, seed: u64| {
            let settings = KMeans {
                max_iter: ITERATIONS,
                tol: 0.0,
                init: Init::Random,
                n_init,
                seed,
                share: Share::Device,
                ..KMeans::new(clusters as usize)
            };
            settings.fit_with(points, Some(&on), false, &mut |_| true)
        };
        // This run compiles kernels and transfers the points.
        fit(STARTS, 0)?;
        fit(1, 0)?;
        let mut inertias = Vec::new();
        for (execution, fits, starts) in [
            ("10 restarts together", 1, STARTS),
            ("10 fits one by one", STARTS, 1),
        ] {
            let mut times = Vec::new();
            let mut best = f64::INFINITY;
            for _ in 0..plan.runs.min(3) {
                let begun = Instant::now();
                for fit_number in 0..u64::from(fits) {
                    // The seeds of restarts.
                    let seed = fit_number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    best = best.min(fit(starts, seed)?.inertia);
                }
                times.push(begun.elapsed().as_secs_f64() / f64::from(STARTS * ITERATIONS));
            }
            inertias.push(best);
            let mut row = Row::new(Experiment::Restarts.name(), execution, place, &plan.machine);
            (row.features, row.clusters) = (points.features() as u32, clusters);
            row.set_time(points.len(), points.bytes(), Summary::of(times), None);
            row.right = (inertias[0] / best - 1.0).abs() < 1e-6;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Iterations over few points, one by one and in one launch.
pub(super) fn launches(
    on: &DeviceKMeans<'_>,
    clock: &Clock,
    machine: &galatea_layout::model::Machine,
    (points, clusters): (&Points, u32),
    plan: &Plan,
) -> Result<Vec<Row>> {
    let of = (points.features() as u32, clusters);
    let mut rows = Vec::new();
    let mut centroids: Option<Vec<f64>> = None;
    for launches in [Launches::Each, Launches::Persistent] {
        let settings = KMeans {
            launches,
            ..KMeans::new(clusters as usize)
        };
        let mut run = on.start(points, &settings)?;
        let shape = *run.shape();
        run.place_centroids(&points.rows(0..u64::from(clusters)))?;
        run.queue_several(VERIFIED_ITERATIONS)?;
        let found = run.read_centroids()?;
        let expected = centroids.get_or_insert_with(|| found.clone());
        let right = found.iter().zip(expected).all(|(a, b)| (a - *b).abs() < 1e-3);
        let time = clock.summary(|| Ok(run.queue_several(MANY_ITERATIONS)?))?;
        let time = time.map(|all| Summary {
            runs: all.runs,
            median: all.median / f64::from(MANY_ITERATIONS),
            min: all.min / f64::from(MANY_ITERATIONS),
            max: all.max / f64::from(MANY_ITERATIONS),
        });
        let execution = match launches {
            Launches::Persistent => "iterations in one launch",
            _ => "iterations one by one",
        };
        let mut row = Row::new(Experiment::Launches.name(), execution, "resident", &plan.machine);
        row.set_shape(shape);
        row.set_time(points.len(), points.bytes(), time, None);
        row.right = right;
        let starts = galatea_kmeans::fastest(machine, of, Wanted::default(), (points.len(), 1))?;
        row.predicted_ms = 1e3 * starts.seconds(machine, points.len(), 1);
        rows.push(row);
    }
    Ok(rows)
}

/// Iterations on the CPU.
pub(super) fn on_cpu(
    points: &Points,
    clusters: u32,
    execution: Execution,
    cpu_sums: galatea_kmeans::CpuSums,
    plan: &Plan,
) -> Result<Row> {
    let settings = KMeans {
        max_iter: 1 + plan.runs as u32,
        tol: 0.0,
        init: Init::First,
        execution,
        cpu_sums,
        ..KMeans::new(clusters as usize)
    };
    let mut times: Vec<Duration> = Vec::new();
    let mut begun = Instant::now();
    let model = settings.fit_with(points, None, false, &mut |_| {
        times.push(begun.elapsed());
        begun = Instant::now();
        true
    })?;
    // The first iteration is slower: it warms caches and threads.
    let measured = if times.len() > 1 { &times[1..] } else { &times[..] };
    let time = Summary::of(measured.iter().map(Duration::as_secs_f64));
    let mut row = Row::new(Experiment::Thesis.name(), execution.name(), "cpu", &plan.machine);
    (row.features, row.clusters) = (points.features() as u32, clusters);
    row.sums = cpu_sums.name().to_string();
    row.set_time(points.len(), points.bytes(), time, None);
    row.right = model.sizes.iter().sum::<u64>() == points.len();
    Ok(row)
}
