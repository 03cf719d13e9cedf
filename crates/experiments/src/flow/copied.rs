//! Copy, kernel, copy: the usual way to use a device within a stream.

use std::sync::Arc;

use galatea_device::{Device, DeviceBuffer, HostMemory, HostView, Stream};
use galatea_flow::Result;

use super::batches::{BatchKernel, Batches, Run, Worker, measure, wrong};
use super::load::Load;

struct Copied {
    stream: Stream,
    kernel: BatchKernel,
    input: Arc<HostMemory>,
    /// None while a copy owns it.
    output: Option<Arc<HostMemory>>,
    on_device: DeviceBuffer<u8>,
    result: DeviceBuffer<u8>,
}

/// Batches by copy, kernel, copy, from pinned or pageable host memory (CKC); with several workers, HQn.
///
/// # Errors
/// An error of the device; [`FlowError::Operator`](galatea_flow::FlowError::Operator) for a wrong result.
pub(super) fn copy_kernel_copy(device: &Device, load: &Load, pinned: bool, batches: Batches) -> Result<Run> {
    measure(load, batches, || {
        let stream = device.stream()?;
        let kernel = BatchKernel::new(device, &stream, load)?;
        let bytes = load.frame_bytes;
        let input = Arc::new(HostMemory::new(bytes)?);
        let output = Arc::new(HostMemory::new(bytes)?);
        if pinned {
            device.pin(&input)?;
            device.pin(&output)?;
        }
        let on_device = device.alloc::<u8>(&stream, bytes)?.assume_written();
        let result = device.alloc::<u8>(&stream, bytes)?.assume_written();
        kernel.parameters.used_by(&stream)?;
        stream.synchronize()?;
        Ok(Copied {
            stream,
            kernel,
            input,
            output: Some(output),
            on_device,
            result,
        })
    })
}

impl Worker for Copied {
    fn input(&mut self) -> Result<&mut [u8]> {
        let memory = Arc::get_mut(&mut self.input).ok_or_else(|| wrong("the batch is still in use"))?;
        Ok(memory.as_mut_slice())
    }

    fn compute(&mut self, number: u64) -> Result<()> {
        let view = HostView::new(Arc::clone(&self.input), 0, self.input.len())?;
        self.stream.copy_to_device(&mut self.on_device, &view)?;
        drop(view);
        let (input, result) = (self.on_device.address(), self.result.address());
        self.kernel.launch(&self.stream, input, result, number)?;
        let output = self
            .output
            .take()
            .ok_or_else(|| wrong("the batch is still in use"))?;
        self.output = Some(self.stream.copy_to_host(&self.result, output, 0)?.wait()?);
        // Releases the input, too.
        self.stream.synchronize()?;
        Ok(())
    }

    fn output(&mut self) -> Result<&[u8]> {
        let output = self.output.as_ref();
        Ok(output.map_or(&[], |output| output.as_slice()))
    }

    fn unit(&self) -> usize {
        self.kernel.unit
    }

    fn calls(&self) -> u64 {
        3
    }
}
