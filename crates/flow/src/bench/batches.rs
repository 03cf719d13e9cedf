//! The baseline of streams: a kernel launched for each batch.
//!
//! Copy-kernel-copy (CKC): the batch is copied to the device, a kernel is launched, the result is copied
//! back, and the host waits. Host memory is pinned or not; several workers with a stream each are the paper's
//! HQ2, HQ4, HQ8. The kernel runs the same body as the stream's operator, in as many blocks as the batch has
//! units.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use galatea_device::{
    ArgumentBytes, Device, DeviceBuffer, Function, Geometry, HostMemory, HostView, Program, SharedMemory,
    Stream,
};

use super::load::{Load, Touch, read_all};
use crate::error::{FlowError, Result};
use crate::generate::generate_batch;
use crate::topology::PAGE;

/// How batches are run.
#[derive(Debug, Clone, Copy)]
pub struct Batches {
    /// Workers, each with a stream and a batch under way.
    pub workers: usize,
    /// Whether host memory is pinned.
    pub pinned: bool,
    /// The CPU's work on frames.
    pub touch: Touch,
    /// Batches that warm up, and measured batches.
    pub batches: (u64, u64),
}

/// A compiled batch kernel.
struct BatchKernel {
    function: Function,
    parameters: DeviceBuffer<u64>,
    unit: usize,
    bytes: usize,
    blocks: u64,
}

const BLOCK: u32 = 1024;

impl BatchKernel {
    fn new(device: &Device, stream: &Stream, load: &Load) -> Result<Self> {
        let source = generate_batch(&*load.operator, BLOCK);
        let program = Program::new("batch", source)
            .headers(galatea_kernels::headers())
            .entry("batch");
        let function = device.compile(&program)?.module.function("batch")?;
        let blocks = function.resident_blocks(BLOCK, 0)?;
        let unit = load
            .frame_bytes
            .div_ceil(blocks as usize)
            .next_multiple_of(PAGE)
            .min(64 << 10);
        let parameters = device.upload(stream, &load.operator.parameters())?;
        Ok(Self {
            function,
            parameters,
            unit,
            bytes: load.frame_bytes,
            blocks,
        })
    }

    fn launch(&self, stream: &Stream, input: u64, output: u64, number: u64) -> Result<()> {
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

/// Bytes a second and the latencies of batches in nanoseconds, sorted, by copy-kernel-copy.
///
/// # Errors
/// The device's; [`FlowError::Operator`] for a wrong result.
pub fn copy_kernel_copy(device: &Device, load: &Load, batches: Batches) -> Result<(f64, Vec<u64>)> {
    let (warm, measured) = batches.batches;
    let total = warm + measured;
    let next = AtomicU64::new(0);
    let (begun, ended) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let clock = Instant::now();
    let now = || u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let work = || -> Result<Vec<u64>> {
        let stream = device.stream()?;
        let kernel = BatchKernel::new(device, &stream, load)?;
        let bytes = load.frame_bytes;
        let mut input = Arc::new(HostMemory::new(bytes)?);
        let mut output = Arc::new(HostMemory::new(bytes)?);
        if batches.pinned {
            device.pin(&input)?;
            device.pin(&output)?;
        }
        let mut on_device = device.alloc::<u8>(&stream, bytes)?.assume_written();
        let result = device.alloc::<u8>(&stream, bytes)?.assume_written();
        kernel.parameters.used_by(&stream)?;
        stream.synchronize()?;
        let mut latencies = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return Ok(latencies);
            }
            if number == warm {
                begun.store(now(), Ordering::Relaxed);
            }
            let memory = Arc::get_mut(&mut input).ok_or_else(|| wrong("the batch is still in use"))?;
            load.fill(number, batches.touch, memory.as_mut_slice());
            let start = now();
            let view = HostView::new(Arc::clone(&input), 0, bytes)?;
            stream.copy_to_device(&mut on_device, &view)?;
            drop(view);
            kernel.launch(&stream, on_device.address(), result.address(), number)?;
            output = stream.copy_to_host(&result, output, 0)?.wait()?;
            // Releases the input, too.
            stream.synchronize()?;
            let end = now();
            if number >= warm {
                latencies.push(end - start);
            }
            if batches.touch == Touch::All {
                std::hint::black_box(read_all(output.as_slice()));
            }
            if number.is_multiple_of(256)
                && !load.is_right(number, batches.touch, kernel.unit, output.as_slice())
            {
                return Err(wrong("a batch has a wrong result"));
            }
            ended.fetch_max(now(), Ordering::Relaxed);
        }
    };
    let parts: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..batches.workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Vec<u64>>>| {
            worker.join().unwrap_or_else(|_| Err(wrong("a worker panicked")))
        };
        workers.into_iter().map(join).collect()
    });
    let mut latencies = parts.into_iter().collect::<Result<Vec<_>>>()?.concat();
    latencies.sort_unstable();
    let nanoseconds = ended
        .load(Ordering::Relaxed)
        .saturating_sub(begun.load(Ordering::Relaxed));
    Ok((
        measured as f64 * load.frame_bytes as f64 / (nanoseconds as f64 / 1e9),
        latencies,
    ))
}

/// Bytes a second each way of one launch whose blocks read a large input in host memory and write their
/// output there: the rate that a kernel of so many blocks reaches over the link, without any protocol.
///
/// # Errors
/// As [`copy_kernel_copy`].
pub fn over_mapped_memory(device: &Device, load: &Load, blocks: u64, runs: usize) -> Result<Vec<f64>> {
    let stream = device.stream()?;
    let mut kernel = BatchKernel::new(device, &stream, load)?;
    (kernel.unit, kernel.bytes, kernel.blocks) = (64 << 10, load.frame_bytes, blocks);
    let input = SharedMemory::new(device, load.frame_bytes)?;
    let output = SharedMemory::new(device, load.frame_bytes)?;
    // The input is brought there by the device, since only kernels write such memory here.
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

fn wrong(message: &'static str) -> FlowError {
    FlowError::Operator {
        operator: "copy-kernel-copy".to_owned(),
        cause: message.into(),
    }
}
