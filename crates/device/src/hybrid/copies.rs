//! Copies between buffers of a device and a range with pages in two memories.

use bytemuck::Pod;

use crate::buffer::{DeviceSlice, DeviceSliceMut};
use crate::errors::Result;
use crate::host::checked_end;
use crate::stream::Stream;

use super::{HybridMemory, size};

impl Stream {
    /// Queues a copy of a buffer, or of a part of one, to the range, from byte `offset` on.
    ///
    /// # Errors
    /// [`crate::DeviceError::Range`] if the copy does not fit; the errors of the device.
    pub fn copy_to_hybrid<'a, T: Pod>(
        &self,
        target: &mut HybridMemory,
        offset: usize,
        source: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<()> {
        let source = source.into();
        source.allocation().used_by(self)?;
        let address = target.part(self, offset, source.bytes())?;
        // SAFETY: both are `bytes` long (checked above) and alive until after this copy: the buffer in stream
        // order, and the range because it waits for the device's work before it is unmapped. They are
        // disjoint, since the range is exclusively borrowed.
        unsafe { self.copy_addresses(address, source.address(), source.bytes()) }
    }

    /// Queues a copy of a part of the range, from byte `offset` on, to a buffer or a part of one.
    ///
    /// # Errors
    /// [`crate::DeviceError::Range`] if the range is shorter; the errors of the device.
    pub fn copy_from_hybrid<'a, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: &HybridMemory,
        offset: usize,
    ) -> Result<()> {
        let target = target.into();
        target.allocation().used_by(self)?;
        let address = source.part(self, offset, target.bytes())?;
        // SAFETY: as in `copy_to_hybrid`; the buffer is exclusively borrowed.
        unsafe { self.copy_addresses(target.address(), address, target.bytes()) }
    }

    /// Queues a copy between addresses.
    ///
    /// # Safety
    /// Both must be memory of at least this length that the device can access, disjoint, and alive until
    /// after the copy in stream order.
    unsafe fn copy_addresses(&self, target: u64, source: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let context = self.context();
        context.bind()?;
        // SAFETY: the caller guarantees it.
        let code =
            unsafe { (context.driver.cuMemcpyDtoDAsync_v2)(target, source, size(bytes), self.handle()) };
        self.check("cuMemcpyDtoDAsync", code)
    }
}

impl HybridMemory {
    /// Address of a part, ordered before later work of the stream.
    fn part(&self, stream: &Stream, offset: usize, bytes: u64) -> Result<u64> {
        let len = size(self.len());
        checked_end(
            "copy of memory with pages in two memories",
            offset,
            size(bytes),
            len,
        )?;
        self.used_by(stream)?;
        Ok(self.address() + offset as u64)
    }
}
