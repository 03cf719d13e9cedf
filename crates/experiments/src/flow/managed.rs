//! A kernel for each batch over managed memory. Its pages migrate on access.

use galatea_device::{Device, ManagedMemory, Stream};
use galatea_flow::{PAGE, Result};

use super::batches::{BatchKernel, Batches, Run, Worker, measure, wrong};
use super::load::Load;

struct Managed {
    stream: Stream,
    kernel: BatchKernel,
    input: ManagedMemory,
    output: ManagedMemory,
}

/// Batches by a kernel over managed memory with the driver's own policy (KoUM); `None` if the device has no
/// managed memory that both processors can access.
///
/// # Errors
/// An error of the device; [`FlowError::Operator`](galatea_flow::FlowError::Operator) for a wrong result.
pub(super) fn kernel_over_managed(device: &Device, load: &Load, batches: Batches) -> Result<Option<Run>> {
    if device.managed(PAGE)?.is_none() {
        return Ok(None);
    }
    let run = measure(load, batches, || {
        let stream = device.stream()?;
        let kernel = BatchKernel::new(device, &stream, load)?;
        kernel.parameters.used_by(&stream)?;
        let memory = || {
            let memory = device.managed(load.frame_bytes)?;
            memory.ok_or_else(|| wrong("managed memory was there and is not"))
        };
        Ok(Managed {
            input: memory()?,
            output: memory()?,
            stream,
            kernel,
        })
    })?;
    Ok(Some(run))
}

impl Worker for Managed {
    fn input(&mut self) -> Result<&mut [u8]> {
        Ok(self.input.bytes_mut()?)
    }

    fn compute(&mut self, number: u64) -> Result<()> {
        let (input, output) = (self.input.address(), self.output.address());
        self.kernel.launch(&self.stream, input, output, number)?;
        self.stream.synchronize()?;
        // The host reads a byte of each page, which migrates the page.
        let bytes = self.output.bytes_mut()?.iter().step_by(PAGE);
        std::hint::black_box(bytes.fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
        Ok(())
    }

    fn output(&mut self) -> Result<&[u8]> {
        Ok(self.output.bytes_mut()?)
    }

    fn unit(&self) -> usize {
        self.kernel.unit
    }

    fn calls(&self) -> u64 {
        1
    }
}
