//! Copy, task, copy: a persistent kernel, and a table of tasks that the host manages, as in Pagoda.
//!
//! A batch is copied to the device, and its units are written into the table, in an entry for each block.
//! When the blocks have reported completion, the result is copied back. No kernel is launched for a batch. It
//! is still copied, and copies do not overlap the work.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use galatea_device::{ArgumentBytes, Device, DeviceBuffer, Geometry, HostMemory, HostView, Program, Stream};
use galatea_flow::Result;
use galatea_kernels::flow::{CONTROL_LINE, Words};

use super::batches::{Batches, Run, Worker, measure, wrong};
use super::kernels::generate_tasks;
use super::load::Load;

/// Maximum number of blocks of the kernel.
const MOST_BLOCKS: u64 = 32;
const BLOCK: u32 = 1024;
/// The task number that ends the kernel.
const END: u64 = u64::MAX;

/// Indices of the words of an entry.
const TASK: usize = 0;
const INPUT: usize = 1;
const OUTPUT: usize = 2;
const BYTES: usize = 3;
const SOURCE: usize = 4;

struct Tasks {
    copies: Stream,
    kernel: Stream,
    /// An entry for each block, followed by a line for each with the last task that it has completed.
    table: Words,
    _parameters: DeviceBuffer<u64>,
    input: Arc<HostMemory>,
    /// None while a copy owns it.
    output: Option<Arc<HostMemory>>,
    on_device: DeviceBuffer<u8>,
    result: DeviceBuffer<u8>,
    unit: usize,
    blocks: u64,
    tasks: u64,
}

/// Batches by copy, task, copy, with pinned memory (CTC). One worker.
///
/// # Errors
/// An error of the device; [`FlowError::Operator`](galatea_flow::FlowError::Operator) for a wrong result.
pub(super) fn copy_task_copy(device: &Device, load: &Load, batches: Batches) -> Result<Run> {
    let batches = Batches {
        workers: 1,
        ..batches
    };
    measure(load, batches, || Tasks::new(device, load))
}

impl Tasks {
    fn new(device: &Device, load: &Load) -> Result<Self> {
        let (copies, kernel) = (device.stream()?, device.stream()?);
        let source = generate_tasks(&*load.operator, BLOCK);
        let program = Program::new("tasks", source)
            .headers(galatea_kernels::headers())
            .entry("tasks");
        let function = device.compile(&program)?.module.function("tasks")?;
        let blocks = function.resident_blocks(BLOCK, 0)?.clamp(1, MOST_BLOCKS);
        let bytes = load.frame_bytes;
        let input = Arc::new(HostMemory::new(bytes)?);
        let output = Arc::new(HostMemory::new(bytes)?);
        device.pin(&input)?;
        device.pin(&output)?;
        let on_device = device.alloc::<u8>(&copies, bytes)?.assume_written();
        let result = device.alloc::<u8>(&copies, bytes)?.assume_written();
        let parameters = device.upload(&kernel, &load.operator.parameters())?;
        let table = Words::new(device, 2 * blocks as usize * CONTROL_LINE)?;
        copies.synchronize()?;
        kernel.synchronize()?;
        let mut arguments = ArgumentBytes::new();
        for word in [
            table.address(0),
            table.address(blocks as usize * CONTROL_LINE),
            parameters.address(),
        ] {
            arguments.push(word);
        }
        function.launch(&kernel, Geometry::new(blocks, BLOCK), &arguments)?;
        Ok(Self {
            copies,
            kernel,
            table,
            _parameters: parameters,
            input,
            output: Some(output),
            on_device,
            result,
            unit: load.unit(blocks as usize),
            blocks,
            tasks: 0,
        })
    }

    fn entry(&self, block: u64, word: usize) -> &std::sync::atomic::AtomicU64 {
        self.table.get(block as usize * CONTROL_LINE + word)
    }

    /// Writes tasks, at most one per block, and waits for them.
    fn run_tasks(&mut self, units: std::ops::Range<u64>, first: u64) -> Result<()> {
        self.tasks += 1;
        let count = units.end - units.start;
        for (block, unit) in units.enumerate() {
            let at = unit * self.unit as u64;
            let rest = self.input.len() as u64 - at;
            let words = [
                (INPUT, self.on_device.address() + at),
                (OUTPUT, self.result.address() + at),
                (BYTES, rest.min(self.unit as u64)),
                (SOURCE, first + unit),
            ];
            for (word, value) in words {
                self.entry(block as u64, word).store(value, Ordering::Relaxed);
            }
            self.entry(block as u64, TASK)
                .store(self.tasks, Ordering::Release);
        }
        for block in 0..count {
            let mut looks = 0_u64;
            while self.entry(self.blocks + block, TASK).load(Ordering::Acquire) != self.tasks {
                std::hint::spin_loop();
                looks += 1;
                if looks.is_multiple_of(1 << 20) && self.kernel.is_idle()? {
                    return Err(wrong("the kernel of tasks has ended"));
                }
                if looks.is_multiple_of(1 << 10) {
                    std::thread::yield_now();
                }
            }
        }
        Ok(())
    }
}

impl Worker for Tasks {
    fn input(&mut self) -> Result<&mut [u8]> {
        let memory = Arc::get_mut(&mut self.input).ok_or_else(|| wrong("the batch is still in use"))?;
        Ok(memory.as_mut_slice())
    }

    fn compute(&mut self, number: u64) -> Result<()> {
        let view = HostView::new(Arc::clone(&self.input), 0, self.input.len())?;
        self.copies.copy_to_device(&mut self.on_device, &view)?;
        drop(view);
        self.copies.synchronize()?;
        let units = self.input.len().div_ceil(self.unit) as u64;
        for first in (0..units).step_by(self.blocks as usize) {
            self.run_tasks(first..units.min(first + self.blocks), number * units)?;
        }
        let output = self
            .output
            .take()
            .ok_or_else(|| wrong("the batch is still in use"))?;
        self.output = Some(self.copies.copy_to_host(&self.result, output, 0)?.wait()?);
        Ok(())
    }

    fn output(&mut self) -> Result<&[u8]> {
        let output = self.output.as_ref();
        Ok(output.map_or(&[], |output| output.as_slice()))
    }

    fn unit(&self) -> usize {
        self.unit
    }

    fn calls(&self) -> u64 {
        2
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for block in 0..self.blocks {
            self.entry(block, TASK).store(END, Ordering::Release);
        }
        // Waits for the kernel, because it uses the memory that is freed next.
        let _ = self.kernel.synchronize();
    }
}
