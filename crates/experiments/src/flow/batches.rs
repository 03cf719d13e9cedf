//! The baselines of streams, which need driver calls or tasks for each batch.
//!
//! | | per batch | |
//! | --- | --- | --- |
//! | CKC | copy, kernel, copy | [`Copied`](super::copied): pinned memory or not; HQn: n workers with a stream each |
//! | CTC | copy, task, copy | [`Tasks`](super::tasks): a persistent kernel, with a table of tasks that the host writes |
//! | KoUM | kernel | [`Managed`](super::managed): over managed memory, with page migration |
//!
//! All run the same body as the stream's operator, with one block per unit of the batch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use galatea_device::{
    ArgumentBytes, Device, DeviceBuffer, Function, Geometry, Program, SharedMemory, Stream,
};
use galatea_flow::{FlowError, Result};

use super::kernels::generate_batch;
use super::load::{Load, Touch, read_all};

/// Settings for the execution of batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batches {
    /// Number of workers, each with a batch in flight.
    pub workers: usize,
    /// The CPU's work on frames.
    pub touch: Touch,
    /// Numbers of warm-up batches and of measured batches.
    pub batches: (u64, u64),
    /// Number of times that each batch is computed; the output of one is the input of the next.
    pub stages: usize,
}

/// The outcome of a measured run.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    /// Input bytes per second.
    pub rate: f64,
    /// Times of batches from input to output in nanoseconds, sorted.
    pub latencies: Vec<u64>,
    /// Number of copies and launches per gigabyte of input.
    pub calls: f64,
}

/// One worker of a baseline: the memory of a batch and its computation.
pub(super) trait Worker {
    /// The memory of the input, for writing.
    fn input(&mut self) -> Result<&mut [u8]>;

    /// Computes the batch with this number. Afterwards the output is in host memory.
    fn compute(&mut self, number: u64) -> Result<()>;

    /// The output of the last batch.
    fn output(&mut self) -> Result<&[u8]>;

    /// Bytes that a block computes independently.
    fn unit(&self) -> usize;

    /// Number of copies and launches for a batch.
    fn calls(&self) -> u64;
}

/// Runs batches through workers, each on a thread of its own.
pub(super) fn measure<W: Worker>(
    load: &Load,
    batches: Batches,
    worker: impl Fn() -> Result<W> + Sync,
) -> Result<Run> {
    let (warm, measured) = batches.batches;
    let total = warm + measured;
    let next = AtomicU64::new(0);
    let (begun, ended) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let clock = Instant::now();
    let now = || u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let work = || -> Result<(Vec<u64>, u64)> {
        let mut worker = worker()?;
        let mut latencies = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return Ok((latencies, worker.calls()));
            }
            if number == warm {
                begun.store(now(), Ordering::Relaxed);
            }
            load.fill(number, batches.touch, worker.input()?);
            let start = now();
            for _ in 0..batches.stages {
                worker.compute(number)?;
            }
            let end = now();
            if number >= warm {
                latencies.push(end - start);
            }
            let unit = worker.unit();
            let output = worker.output()?;
            if batches.touch == Touch::All {
                std::hint::black_box(read_all(output));
            }
            let checked = number.is_multiple_of(256);
            if checked && !load.is_right(number, batches.touch, unit, output) {
                return Err(wrong("a batch has a wrong result"));
            }
            ended.fetch_max(now(), Ordering::Relaxed);
        }
    };
    let parts: Vec<Result<(Vec<u64>, u64)>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..batches.workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<(Vec<u64>, u64)>>| {
            worker.join().unwrap_or_else(|_| Err(wrong("a worker panicked")))
        };
        workers.into_iter().map(join).collect()
    });
    let (mut latencies, mut calls) = (Vec::new(), 0);
    for part in parts {
        let (own, of_batch) = part?;
        latencies.extend(own);
        calls = of_batch;
    }
    latencies.sort_unstable();
    let nanoseconds = ended
        .load(Ordering::Relaxed)
        .saturating_sub(begun.load(Ordering::Relaxed));
    Ok(Run {
        rate: measured as f64 * load.frame_bytes as f64 / (nanoseconds as f64 / 1e9),
        latencies,
        calls: calls as f64 * 1e9 / load.frame_bytes as f64,
    })
}

/// A compiled batch kernel.
pub(super) struct BatchKernel {
    function: Function,
    pub(super) parameters: DeviceBuffer<u64>,
    pub(super) unit: usize,
    bytes: usize,
    blocks: u64,
}

const BLOCK: u32 = 1024;

impl BatchKernel {
    pub(super) fn new(device: &Device, stream: &Stream, load: &Load) -> Result<Self> {
        let source = generate_batch(&*load.operator, BLOCK);
        let program = Program::new("batch", source)
            .headers(galatea_kernels::headers())
            .entry("batch");
        let function = device.compile(&program)?.module.function("batch")?;
        let blocks = function.resident_blocks(BLOCK, 0)?;
        let unit = load.unit(blocks as usize);
        let parameters = device.upload(stream, &load.operator.parameters())?;
        Ok(Self {
            function,
            parameters,
            unit,
            bytes: load.frame_bytes,
            blocks,
        })
    }

    pub(super) fn launch(&self, stream: &Stream, input: u64, output: u64, number: u64) -> Result<()> {
        let units = self.bytes.div_ceil(self.unit) as u64;
        let mut arguments = ArgumentBytes::new();
        for word in [
            input,
            output,
            self.parameters.address(),
            self.bytes as u64,
            number * units,
            self.unit as u64,
        ] {
            arguments.push(word);
        }
        let geometry = Geometry::new(units.min(self.blocks), BLOCK);
        self.function.launch(stream, geometry, &arguments)?;
        Ok(())
    }
}

/// Bytes per second each way of one launch. Its blocks read a large input in host memory and write their
/// output there: the rate that a kernel of `blocks` blocks reaches over the link, without any protocol.
///
/// # Errors
/// An error of the device.
pub(super) fn over_mapped_memory(device: &Device, load: &Load, blocks: u64, runs: usize) -> Result<Vec<f64>> {
    let stream = device.stream()?;
    let mut kernel = BatchKernel::new(device, &stream, load)?;
    (kernel.unit, kernel.bytes, kernel.blocks) = (64 << 10, load.frame_bytes, blocks);
    let input = SharedMemory::new(device, load.frame_bytes)?;
    let output = SharedMemory::new(device, load.frame_bytes)?;
    // The device writes the input, since only kernels write such memory here.
    let bytes = device.upload(&stream, load.pool_bytes())?;
    for _ in 0..2 {
        kernel.launch(&stream, bytes.address(), input.address(), 0)?;
    }
    let mut rates = Vec::new();
    for run in 0..=runs {
        let start = stream.record()?;
        kernel.launch(&stream, input.address(), output.address(), 0)?;
        let end = stream.record()?;
        stream.synchronize()?;
        if run > 0 {
            rates.push(load.frame_bytes as f64 / end.elapsed_since(&start)?.as_secs_f64());
        }
    }
    Ok(rates)
}

pub(super) fn wrong(message: &'static str) -> FlowError {
    FlowError::Operator {
        operator: "baseline".to_owned(),
        cause: message.into(),
    }
}
