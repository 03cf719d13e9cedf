//! The experiments by name.

use galatea_device::Device;

use super::Row;
use super::batches::{Batches, copy_kernel_copy, over_mapped_memory};
use super::link::ceilings;
use super::load::{Load, Touch};
use super::stream::{Shape, round_trip, throughput};
use crate::error::Result;
use crate::options::FlowOptions;
use crate::workload::Mode;

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; 6] = [
    "link",
    "round-trip",
    "frame-sizes",
    "ways-both",
    "chains",
    "encoding",
];

/// The extent of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Bytes that a run moves each way, at most.
    pub bytes: u64,
    /// Frames of a run, at most.
    pub frames: u64,
    /// Runs.
    pub runs: usize,
    /// Threads of sources and sinks each.
    pub threads: usize,
    /// Frame sizes.
    pub frame_sizes: Vec<usize>,
    /// Blocks; default: all.
    pub blocks: Option<u32>,
    /// Threads of a block.
    pub block_threads: u32,
    /// Frames of a topic, at most.
    pub depth: u32,
    /// Bytes of a topic's frames, at most.
    pub topic_bytes: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            bytes: 4 << 30,
            frames: 200_000,
            runs: 5,
            threads: 6,
            frame_sizes: vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
            blocks: None,
            block_threads: 1024,
            depth: 512,
            topic_bytes: 1 << 30,
        }
    }
}

impl Scale {
    /// Little enough for the emulated device.
    #[must_use]
    pub fn small() -> Self {
        Self {
            bytes: 1 << 20,
            frames: 400,
            runs: 1,
            threads: 1,
            frame_sizes: vec![4 << 10, 16 << 10],
            blocks: Some(2),
            block_threads: 128,
            depth: 32,
            topic_bytes: 1 << 20,
        }
    }

    fn shape(&self, frame_bytes: usize, touch: Touch) -> Shape {
        let frames = (self.bytes / frame_bytes as u64).clamp(64, self.frames);
        let most = (self.topic_bytes / frame_bytes).max(2) as u32;
        Shape {
            depth: self.depth.min(1 << most.ilog2()),
            threads: (self.threads, self.threads),
            touch,
            frames: (frames / 4, frames),
            options: FlowOptions {
                blocks: self.blocks,
                block_threads: self.block_threads,
                ..FlowOptions::default()
            },
            operators: 1,
        }
    }

    fn batches(&self, frame_bytes: usize, workers: usize, pinned: bool, touch: Touch) -> Batches {
        let frames = (self.bytes / 8 / frame_bytes as u64).clamp(32, self.frames / 40);
        Batches {
            workers,
            pinned,
            touch,
            batches: (frames / 4, frames),
        }
    }
}

fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted
        .get(at)
        .map_or(f64::NAN, |nanoseconds| *nanoseconds as f64 / 1e3)
}

/// Rates and latencies of several runs as rows.
fn rows(
    experiment: &'static str,
    method: &str,
    load: &Load,
    runs: usize,
    mut run: impl FnMut() -> Result<(f64, Vec<u64>)>,
) -> Result<[Row; 3]> {
    let mut values = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..runs {
        let (rate, latencies) = run()?;
        values[0].push(rate / 1e9);
        values[1].push(percentile(&latencies, 50));
        values[2].push(percentile(&latencies, 99));
    }
    let metrics = ["input GB/s", "latency p50 us", "latency p99 us"];
    let mut values = values.into_iter();
    Ok(metrics.map(|metric| Row {
        experiment,
        method: method.to_owned(),
        operator: load.operator.name().into_owned(),
        frame_bytes: load.frame_bytes,
        metric,
        values: values.next().unwrap_or_default(),
    }))
}

/// Runs an experiment of [`EXPERIMENTS`]; rows go to `out` as they come.
///
/// # Errors
/// The device's, and those of streams.
pub fn run(device: &Device, name: &str, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    match name {
        "link" => link(device, scale, seed, out),
        "round-trip" => round_trips(device, scale, seed, out),
        "frame-sizes" => frame_sizes(device, scale, seed, out),
        "ways-both" => both_ways(device, scale, seed, out),
        "chains" => chains(device, scale, seed, out),
        "encoding" => encoding(device, scale, seed, out),
        _ => Ok(()),
    }
}

fn link(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    let bytes = (scale.bytes / 4).max(1 << 20) as usize;
    let piece = bytes.min(64 << 20);
    let found = ceilings(device, bytes, piece, scale.runs)?;
    let mut row = |method: &str, values: Vec<f64>| {
        out(Row {
            experiment: "link",
            method: method.to_owned(),
            operator: "copy".to_owned(),
            frame_bytes: piece,
            metric: "GB/s",
            values: values.into_iter().map(|rate| rate / 1e9).collect(),
        });
    };
    row("copy engine to device", found.to_device);
    row("copy engine to host", found.to_host);
    row("copy engines both ways (each way)", found.each_way);
    let load = Load::double(bytes.min(64 << 20), seed);
    for blocks in [8, 16, 32, 64, 132] {
        let rates = over_mapped_memory(device, &load, blocks, scale.runs)?;
        row(
            &format!("kernel of {blocks} blocks over mapped memory (each way)"),
            rates,
        );
    }
    Ok(())
}

fn round_trips(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    let load = Load::double(4096, seed);
    for blocks in [1, 8, 32] {
        for (threads, bytes) in [(256, 64), (256, 4096), (1024, 4096)] {
            let threads = threads.min(scale.block_threads);
            let mut shape = scale.shape(4096, Touch::All);
            shape.depth = 64;
            shape.frames = (scale.frames / 100, scale.frames / 10);
            shape.options.blocks = Some(blocks);
            shape.options.block_threads = threads;
            let mut values = [Vec::new(), Vec::new()];
            shape.options.count_steps = true;
            let mut steps = [const { Vec::new() }; 4];
            for _ in 0..scale.runs {
                let (times, outcome) = round_trip(device, &load, &shape, bytes)?;
                if let Some(counted) = outcome.steps {
                    let frames = (shape.frames.0 + shape.frames.1) as f64;
                    let clocks = [counted.look, counted.compute, counted.publish, counted.idle];
                    for (values, clocks) in steps.iter_mut().zip(clocks) {
                        values.push(clocks as f64 / frames);
                    }
                }
                values[0].push(percentile(&times, 50));
                values[1].push(percentile(&times, 99));
            }
            let metrics = ["round trip p50 us", "round trip p99 us"].into_iter().zip(values);
            let names = ["look clocks", "compute clocks", "publish clocks", "idle clocks"];
            for (metric, values) in metrics.chain(names.into_iter().zip(steps)) {
                out(Row {
                    experiment: "round-trip",
                    method: format!("stream of {blocks} blocks of {threads} threads"),
                    operator: "double".to_owned(),
                    frame_bytes: bytes,
                    metric,
                    values,
                });
            }
        }
    }
    let batches = Batches {
        batches: (scale.frames / 100, scale.frames / 40),
        ..scale.batches(4096, 1, true, Touch::All)
    };
    rows("round-trip", "CKC pinned", &load, scale.runs, || {
        copy_kernel_copy(device, &load, batches)
    })?
    .into_iter()
    .for_each(out);
    Ok(())
}

/// The micro-benchmark: doubled integers, by frame size (figure 8).
fn frame_sizes(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in &scale.frame_sizes {
        let load = Load::double(*frame_bytes, seed);
        let shape = scale.shape(*frame_bytes, Touch::All);
        let stream = || throughput(device, &load, &shape).map(|(rate, latencies, _)| (rate, latencies));
        rows("frame-sizes", "stream", &load, scale.runs, stream)?
            .into_iter()
            .for_each(&mut *out);
        for (workers, pinned) in [(1, false), (1, true), (2, true), (4, true)] {
            let method = match (workers, pinned) {
                (1, false) => "CKC".to_owned(),
                (1, true) => "CKC pinned".to_owned(),
                (workers, _) => format!("CKC pinned HQ{workers}"),
            };
            let batches = scale.batches(*frame_bytes, workers, pinned, Touch::All);
            rows("frame-sizes", &method, &load, scale.runs, || {
                copy_kernel_copy(device, &load, batches)
            })?
            .into_iter()
            .for_each(&mut *out);
        }
    }
    Ok(())
}

/// Frames whose data is in place: the rate of the link both ways at once.
fn both_ways(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in &scale.frame_sizes {
        let load = Load::double(*frame_bytes, seed);
        let mut shape = scale.shape(*frame_bytes, Touch::Number);
        shape.threads = (4, 4);
        let stream = || throughput(device, &load, &shape).map(|(rate, latencies, _)| (rate, latencies));
        rows("ways-both", "stream", &load, scale.runs, stream)?
            .into_iter()
            .for_each(&mut *out);
        for workers in [1, 4] {
            let batches = scale.batches(*frame_bytes, workers, true, Touch::Number);
            let method = format!("CKC pinned HQ{workers}");
            rows("ways-both", &method, &load, scale.runs, || {
                copy_kernel_copy(device, &load, batches)
            })?
            .into_iter()
            .for_each(&mut *out);
        }
    }
    Ok(())
}

/// Operators on the device one after another (figure 12, the second kind).
fn chains(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in [16 << 10, 64 << 10] {
        let load = Load::double(frame_bytes, seed);
        for operators in 1..=4 {
            let mut shape = scale.shape(frame_bytes, Touch::Number);
            shape.threads = (2, 2);
            shape.operators = operators;
            let stream = || throughput(device, &load, &shape).map(|(rate, latencies, _)| (rate, latencies));
            let method = format!("stream C(G){operators}C");
            rows("chains", &method, &load, scale.runs, stream)?
                .into_iter()
                .for_each(&mut *out);
        }
    }
    Ok(())
}

/// RAID-6 and AES (figure 14).
fn encoding(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in [4 << 10, 64 << 10] {
        let loads = [
            Load::raid6(4, frame_bytes, seed),
            Load::raid6(8, frame_bytes, seed),
            Load::aes(Mode::Ecb, frame_bytes, seed),
            Load::aes(Mode::Ctr { nonce: seed }, frame_bytes, seed),
        ];
        for load in loads {
            let mut shape = scale.shape(frame_bytes, Touch::Number);
            shape.threads = (2, 2);
            let stream = || throughput(device, &load, &shape).map(|(rate, latencies, _)| (rate, latencies));
            rows("encoding", "stream", &load, scale.runs, stream)?
                .into_iter()
                .for_each(&mut *out);
            for workers in [1, 4] {
                let batches = scale.batches(frame_bytes, workers, true, Touch::Number);
                let method = format!("CKC pinned HQ{workers}");
                rows("encoding", &method, &load, scale.runs, || {
                    copy_kernel_copy(device, &load, batches)
                })?
                .into_iter()
                .for_each(&mut *out);
            }
            for threads in [1, 2 * scale.threads] {
                let method = format!("CPU of {threads} threads");
                rows("encoding", &method, &load, scale.runs, || {
                    Ok(super::cpu::throughput(&load, threads, &shape))
                })?
                .into_iter()
                .for_each(&mut *out);
            }
        }
    }
    Ok(())
}
