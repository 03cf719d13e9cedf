//! The experiments by name.

mod figures;
mod latency;
mod partitions;
mod queries;

use std::time::Duration;

use galatea_device::Device;
use galatea_flow::{FlowOptions, Result};

use super::Row;
use super::batches::{Batches, Run};
use super::load::{Load, Touch};
use super::stream::{Shape, throughput};

type Experiment = fn(&Device, &Scale, u64, &mut dyn FnMut(Row)) -> Result<()>;

/// The experiments in the order in which they run, and the paper's figures that they reproduce.
const ALL: [(&str, Experiment); 13] = [
    ("link", latency::link),                // the ceilings of the link
    ("round-trip", latency::round_trips),   // one small frame there and back
    ("in-flight", latency::in_flight),      // blocks, threads and notes in flight
    ("ways-both", figures::both_ways),      // data is in the frames already
    ("frame-sizes", figures::frame_sizes),  // figure 8
    ("shapes", figures::shapes),            // figure 9
    ("layers", figures::layers),            // figure 10
    ("steps", figures::steps),              // figure 11
    ("chains", figures::chains),            // figure 12
    ("tuning", partitions::tuning),         // table 2
    ("partitions", partitions::partitions), // figure 13
    ("encoding", figures::encoding),        // figure 14
    ("set-query", queries::set_query),      // figure 15
];

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = ALL[at].0;
        at += 1;
    }
    names
};

/// The scale of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Maximum bytes that a run moves each way.
    pub bytes: u64,
    /// Maximum frames of a run.
    pub frames: u64,
    /// Number of runs.
    pub runs: usize,
    /// Number of threads of a source, and of a sink.
    pub threads: usize,
    /// Frame sizes.
    pub frame_sizes: Vec<usize>,
    /// Blocks; default: all.
    pub blocks: Option<u32>,
    /// Threads of a block.
    pub block_threads: u32,
    /// Threads of a block that two operators share.
    pub pair_threads: u32,
    /// Maximum frames of a topic.
    pub depth: u32,
    /// Maximum bytes of a topic's frames.
    pub topic_bytes: usize,
    /// Maximum time of an operator for a frame.
    pub timeout: Duration,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            bytes: 4 << 30,
            frames: 200_000,
            runs: 5,
            threads: 6,
            frame_sizes: [4, 16, 64, 256, 1024, 4096, 16384].map(|kib| kib << 10).to_vec(),
            blocks: None,
            block_threads: 512,
            pair_threads: 1024,
            depth: 512,
            topic_bytes: 1 << 30,
            timeout: Duration::from_secs(10),
        }
    }
}

impl Scale {
    /// A scale that is small enough for the emulated device.
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
            pair_threads: 256,
            depth: 32,
            topic_bytes: 1 << 20,
            timeout: Duration::from_secs(120),
        }
    }

    fn shape(&self, frame_bytes: usize, touch: Touch) -> Shape {
        let frames = (self.bytes / frame_bytes as u64).max(64).min(self.frames.max(1));
        let most = (self.topic_bytes / frame_bytes).max(2) as u32;
        Shape {
            depth: self.depth.min(1 << most.ilog2()),
            threads: (self.threads, self.threads),
            touch,
            frames: (frames / 4, frames),
            options: FlowOptions {
                blocks: self.blocks,
                block_threads: self.block_threads,
                timeout: self.timeout,
                ..FlowOptions::default()
            },
            operators: 1,
            inline: false,
            returns: false,
        }
    }

    fn batches(&self, frame_bytes: usize, workers: usize, touch: Touch) -> Batches {
        let most = (self.frames / 40).max(32).min(self.frames.max(1));
        let frames = (self.bytes / 8 / frame_bytes as u64).clamp(32.min(most), most);
        Batches {
            workers,
            touch,
            batches: (frames / 4, frames),
            stages: 1,
        }
    }
}

fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted
        .get(at)
        .map_or(f64::NAN, |nanoseconds| *nanoseconds as f64 / 1e3)
}

/// Rates, latencies and calls of several runs as rows.
fn rows(
    experiment: &'static str,
    method: &str,
    load: &Load,
    runs: usize,
    out: &mut dyn FnMut(Row),
    mut run: impl FnMut() -> Result<Run>,
) -> Result<()> {
    let metrics = ["input GB/s", "latency p50 us", "latency p99 us", "calls per GB"];
    let mut values = [const { Vec::new() }; 4];
    for _ in 0..runs {
        let found = run()?;
        let (middle, late) = (percentile(&found.latencies, 50), percentile(&found.latencies, 99));
        for (values, value) in values
            .iter_mut()
            .zip([found.rate / 1e9, middle, late, found.calls])
        {
            values.push(value);
        }
    }
    for (metric, values) in metrics.into_iter().zip(values) {
        out(Row {
            experiment,
            method: method.to_owned(),
            operator: load.operator.name().into_owned(),
            frame_bytes: load.frame_bytes,
            metric,
            values,
        });
    }
    Ok(())
}

/// A run of a stream.
fn stream(device: &Device, load: &Load, shape: &Shape) -> Result<Run> {
    let (rate, latencies, outcome) = throughput(device, load, shape)?;
    let bytes = (shape.frames.0 + shape.frames.1) * load.frame_bytes as u64;
    Ok(Run {
        rate,
        latencies,
        calls: outcome.launches as f64 * 1e9 / bytes as f64,
    })
}

/// Runs an experiment of [`EXPERIMENTS`]. `out` is called with each row once it is measured.
///
/// # Errors
/// An error of the device or of streams.
pub fn run(device: &Device, name: &str, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    match ALL.iter().find(|(known, ..)| *known == name) {
        Some((_, experiment)) => experiment(device, scale, seed, out),
        None => Ok(()),
    }
}
