//! Copies, fills and reads of device memory, queued in streams.
//!
//! Copies from [`HostView`]s keep the host memory alive until the device has read it: the stream holds it.
//! Copies from and to Rust slices return when the copy is done, since otherwise the slice could change or be
//! freed before. A copy to host memory takes the only handle of that memory, and returns it when
//! the copy is done ([`Download`]).

use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;
use cudarc::driver::sys::{
    CUdeviceptr, CUmemLocation, CUmemLocationType, CUmemcpyAttributes, CUmemcpySrcAccessOrder,
};

use crate::buffer::{DeviceBuffer, DeviceSlice, DeviceSliceMut, resolve};
use crate::errors::{DeviceError, Result};
use crate::event::Event;
use crate::host::{HostMemory, HostView, checked_end};
use crate::shared::SharedMemory;
use crate::stream::Stream;
use crate::sys::Batch;

impl Stream {
    /// Queues a copy of host memory to a buffer or a part of one of the same size. If the memory is pinned,
    /// the copy is asynchronous and runs at link speed; otherwise the driver stages it. The memory is kept
    /// alive until the copy is done.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the sizes differ; the errors of the device.
    pub fn copy_to_device<'a, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: &HostView,
    ) -> Result<()> {
        let target = target.into();
        same_size(
            "copy of host memory to the device",
            source.len() as u64,
            target.bytes(),
        )?;
        if source.is_empty() {
            return Ok(());
        }
        self.enqueue_upload(&target, source.as_slice().as_ptr())?;
        self.hold(vec![Arc::clone(source.memory())])
    }

    /// Queues copies of host memory into parts of a buffer. A piece is a byte offset in the buffer and a
    /// view of host memory. If all memory is pinned, the pieces are one batch for the copy engine, which
    /// reaches much of the link's rate for pieces of a few KiB. Otherwise they are copied one by one.
    ///
    /// # Errors
    /// Those of [`Stream::copy_to_device`].
    pub fn copy_pieces(&self, target: &mut DeviceBuffer<u8>, pieces: &[(usize, HostView)]) -> Result<()> {
        let context = self.context();
        let pieces = || pieces.iter().filter(|(_, source)| !source.is_empty());
        let batched = pieces().count() > 1 && pieces().all(|(_, source)| source.memory().is_pinned(context));
        let Some(batch) = Batch::get(context.backend).filter(|_| batched) else {
            return pieces().try_for_each(|(at, source)| {
                self.copy_to_device(target.slice_mut(*at..at.saturating_add(source.len()))?, source)
            });
        };
        for (at, source) in pieces() {
            checked_end(
                "copy of host memory to the device",
                *at,
                source.len(),
                target.len(),
            )?;
        }
        let first = target.address();
        let mut targets: Vec<_> = pieces().map(|(at, _)| first + *at as u64).collect();
        let mut sources: Vec<_> = pieces()
            .map(|(_, source)| source.as_slice().as_ptr() as u64)
            .collect();
        let mut sizes: Vec<_> = pieces().map(|(_, source)| source.len()).collect();
        let queued = self.enqueue_batch(batch, target, &mut targets, &mut sources, &mut sizes);
        // Each memory is held once. Pieces share few memories, so a linear search is fast.
        let mut memories: Vec<Arc<HostMemory>> = Vec::new();
        for (_, source) in pieces() {
            if !memories.iter().any(|memory| Arc::ptr_eq(memory, source.memory())) {
                memories.push(Arc::clone(source.memory()));
            }
        }
        // Held also after a failure: earlier copies may be queued.
        let held = self.hold(memories);
        queued.and(held)
    }

    /// Queues a batch of copies into parts of `target`. The sources must stay valid and unchanged until it is
    /// done.
    fn enqueue_batch(
        &self,
        batch: &Batch,
        target: &DeviceBuffer<u8>,
        targets: &mut [CUdeviceptr],
        sources: &mut [CUdeviceptr],
        sizes: &mut [usize],
    ) -> Result<()> {
        let context = self.context();
        target.used_by(self)?;
        context.bind()?;
        let anywhere = CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID,
            id: 0,
        };
        let mut attributes = CUmemcpyAttributes {
            srcAccessOrder: CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
            srcLocHint: anywhere,
            dstLocHint: anywhere,
            flags: 0,
        };
        let mut first_with_them = 0;
        // SAFETY: the target's memory is alive until after these copies in stream order and has room for each
        // (checked by the caller); the sources have the same lengths, and the caller holds them.
        self.check("cuMemcpyBatchAsync", unsafe {
            (batch.cuMemcpyBatchAsync_v2)(
                targets.as_mut_ptr(),
                sources.as_mut_ptr(),
                sizes.as_mut_ptr(),
                sizes.len(),
                &raw mut attributes,
                &raw mut first_with_them,
                1,
                self.handle(),
            )
        })?;
        let bytes = sizes.iter().map(|bytes| *bytes as u64).sum();
        context.uploaded.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Copies a slice to a buffer or a part of one of the same length. Returns when the copy, and all work
    /// queued before it, is done.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the lengths differ; the errors of the device.
    pub fn copy_from_slice<'a, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: &[T],
    ) -> Result<()> {
        let target = target.into();
        same_size(
            "copy of a slice to the device",
            source.len() as u64,
            target.len() as u64,
        )?;
        if source.is_empty() {
            return Ok(());
        }
        self.enqueue_upload(&target, source.as_ptr().cast())?;
        self.settle()
    }

    /// Queues the copy. The source must stay valid and unchanged until it is done.
    fn enqueue_upload<T>(&self, target: &DeviceSliceMut<'_, T>, source: *const u8) -> Result<()> {
        let context = self.context();
        target.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(target.bytes()).unwrap_or(usize::MAX);
        // SAFETY: the target's memory is alive until after this copy in stream order and `bytes` long; the
        // source has the same length (checked by the callers), and the callers hold it or wait.
        self.check("cuMemcpyHtoDAsync", unsafe {
            (context.driver.cuMemcpyHtoDAsync_v2)(target.address(), source.cast(), bytes, self.handle())
        })?;
        context.uploaded.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Queues a copy between buffers, or parts of them, of the same length.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the lengths differ; the errors of the device.
    pub fn copy<'a, 'b, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<()> {
        let (target, source) = (target.into(), source.into());
        same_size("copy on the device", source.len() as u64, target.len() as u64)?;
        if source.is_empty() {
            return Ok(());
        }
        let context = self.context();
        target.allocation().used_by(self)?;
        source.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(target.bytes()).unwrap_or(usize::MAX);
        // SAFETY: both are alive until after this copy in stream order, `bytes` long, and disjoint: the
        // target is exclusively borrowed.
        self.check("cuMemcpyDtoDAsync", unsafe {
            (context.driver.cuMemcpyDtoDAsync_v2)(target.address(), source.address(), bytes, self.handle())
        })
    }

    /// Queues a fill, which sets every byte of a buffer, or of a part of one, to `byte`.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn fill<'a, T: Pod>(&self, target: impl Into<DeviceSliceMut<'a, T>>, byte: u8) -> Result<()> {
        let target = target.into();
        if target.is_empty() {
            return Ok(());
        }
        let context = self.context();
        target.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(target.bytes()).unwrap_or(usize::MAX);
        // SAFETY: the target is alive until after this fill in stream order and `bytes` long.
        self.check("cuMemsetD8Async", unsafe {
            (context.driver.cuMemsetD8Async)(target.address(), byte, bytes, self.handle())
        })
    }

    /// Queues the store of a word. Before the store, all work queued earlier becomes visible to the whole
    /// device. A running kernel may wait for the word, with an acquire of system scope. The word is one of
    /// [`crate::Device::words`].
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the target is not one word; the errors of the device, which refuses words in
    /// other memory.
    pub fn write_word<'a>(&self, target: impl Into<DeviceSliceMut<'a, u32>>, value: u32) -> Result<()> {
        /// `CU_STREAM_WRITE_VALUE_DEFAULT`: preceding work becomes visible first.
        const AFTER_ALL: u32 = 0;
        let target = target.into();
        same_size("store of a word", 1, target.len() as u64)?;
        let context = self.context();
        target.allocation().used_by(self)?;
        context.bind()?;
        // SAFETY: the target is one word, and alive until after this store in stream order.
        self.check("cuStreamWriteValue32", unsafe {
            (context.driver.cuStreamWriteValue32_v2)(self.handle(), target.address(), value, AFTER_ALL)
        })
    }

    /// Reads a range of a buffer. Waits for all work queued so far.
    ///
    /// # Errors
    /// [`DeviceError::Range`]; the failure of any queued work.
    pub fn read<T: Pod>(&self, buffer: &DeviceBuffer<T>, range: impl RangeBounds<usize>) -> Result<Vec<T>> {
        let (start, len) = resolve("read of device memory", range, buffer.len())?;
        let mut values = vec![T::zeroed(); len];
        self.read_into(buffer.slice(start..start + len)?, &mut values)?;
        Ok(values)
    }

    /// Reads device memory into a slice of the same length. Waits for all work queued so far.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the lengths differ; the failure of any queued work.
    pub fn read_into<'a, T: Pod>(
        &self,
        source: impl Into<DeviceSlice<'a, T>>,
        target: &mut [T],
    ) -> Result<()> {
        let source = source.into();
        same_size("read of device memory", source.len() as u64, target.len() as u64)?;
        if !source.is_empty() {
            self.enqueue_download(&source, target.as_mut_ptr().cast())?;
        }
        self.settle()
    }

    /// Reads several pieces of device memory, each into bytes of the same length. Waits once, for all work
    /// queued so far.
    ///
    /// # Errors
    /// Those of [`Stream::read_into`].
    pub fn read_each<'a, 't>(
        &self,
        pieces: impl IntoIterator<Item = (DeviceSlice<'a, u8>, &'t mut [u8])>,
    ) -> Result<()> {
        let queued = pieces.into_iter().try_for_each(|(source, target)| {
            same_size("read of device memory", source.len() as u64, target.len() as u64)?;
            if source.is_empty() {
                return Ok(());
            }
            self.enqueue_download(&source, target.as_mut_ptr())
        });
        // Waits also after a failure: copies of earlier pieces may be in progress.
        let done = self.settle();
        queued.and(done)
    }

    /// Queues a copy of device memory to host memory, from byte `offset` on. Takes the only handle of the
    /// memory and returns it when the copy is done: see [`Download`].
    ///
    /// # Errors
    /// [`DeviceError::HostMemoryShared`] if other handles exist, [`DeviceError::Range`] if the copy does not
    /// fit; the errors of the device.
    pub fn copy_to_host<'a, T: Pod>(
        &self,
        source: impl Into<DeviceSlice<'a, T>>,
        mut memory: Arc<HostMemory>,
        offset: usize,
    ) -> Result<Download> {
        let source = source.into();
        let bytes = usize::try_from(source.bytes()).unwrap_or(usize::MAX);
        checked_end("copy of device memory to the host", offset, bytes, memory.len())?;
        let len = memory.len() as u64;
        let target = Arc::get_mut(&mut memory)
            .ok_or(DeviceError::HostMemoryShared { bytes: len })?
            .as_mut_slice();
        let target = target[offset..].as_mut_ptr();
        if bytes > 0 {
            self.enqueue_download(&source, target)?;
        }
        let done = match self.mark() {
            Ok(done) => done,
            Err(error) => {
                // The copy is queued, so the memory has to outlive it.
                let _ = self.settle();
                return Err(error);
            }
        };
        Ok(Download {
            memory: Some(memory),
            done,
            stream: self.clone(),
        })
    }

    /// Queues a copy of device memory to memory that kernels and the host share, from byte `offset` on. The
    /// memory is kept alive until the copy is done.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the copy does not fit; the errors of the device.
    pub fn copy_to_shared<'a, T: Pod>(
        &self,
        source: impl Into<DeviceSlice<'a, T>>,
        target: &SharedMemory,
        offset: usize,
    ) -> Result<()> {
        let source = source.into();
        let bytes = usize::try_from(source.bytes()).unwrap_or(usize::MAX);
        checked_end("copy of device memory to the host", offset, bytes, target.len())?;
        if bytes == 0 {
            return Ok(());
        }
        // Rust has no references to shared memory, so the device may write it at any time.
        self.enqueue_download(&source, target.pointer().wrapping_add(offset))?;
        self.hold(vec![Arc::clone(target.memory())])
    }

    /// Queues the copy. The target must stay valid and unread until it is done.
    fn enqueue_download<T>(&self, source: &DeviceSlice<'_, T>, target: *mut u8) -> Result<()> {
        let context = self.context();
        source.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(source.bytes()).unwrap_or(usize::MAX);
        // SAFETY: the source is alive until after this copy in stream order and `bytes` long; the target has
        // the same length (checked by the callers), and the callers own it exclusively and hold it or wait.
        self.check("cuMemcpyDtoHAsync", unsafe {
            (context.driver.cuMemcpyDtoHAsync_v2)(target.cast(), source.address(), bytes, self.handle())
        })?;
        context.downloaded.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// A copy to host memory in progress. Dropping it waits, too: the memory is freed only after the device has
/// finished.
#[derive(Debug)]
pub struct Download {
    memory: Option<Arc<HostMemory>>,
    done: Event,
    stream: Stream,
}

impl Download {
    /// Whether the copy is done, or can never be done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done.is_complete().unwrap_or(true)
    }

    /// Waits for the copy and returns the memory.
    ///
    /// # Errors
    /// The failure of any work queued before the copy.
    pub fn wait(mut self) -> Result<Arc<HostMemory>> {
        self.stream.synchronize_event(&self.done)?;
        Ok(self.memory.take().expect("only taken here, by value"))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if self.memory.is_some() && self.stream.synchronize_event(&self.done).is_err() {
            let _ = self.stream.settle();
        }
    }
}

fn same_size(what: &'static str, source: u64, target: u64) -> Result<()> {
    if source == target {
        Ok(())
    } else {
        Err(DeviceError::Range {
            what,
            start: 0,
            end: source,
            len: target,
        })
    }
}
