//! Typed device memory.
//!
//! A buffer is allocated and freed in the order of one stream, its *home* (`cuMemAllocAsync`,
//! `cuMemFreeAsync` on the device's pool): neither waits for the device. Other streams may use it. The first
//! use by another stream makes that stream wait for the work queued in the home stream so far, and freeing
//! makes the home stream wait for the work queued by every other user. So a buffer is never used before it is
//! allocated or after it is freed. The caller orders later writes and reads on several streams by events.
//!
//! Words that a stream stores by itself ([`Stream::write_word`]) are in memory outside of the pool. The
//! memory is reused after its users are done; dropping the words waits for that.
//!
//! Buffers contain only plain data ([`Pod`]), so any bytes are a valid value. [`Unwritten`] memory holds
//! unspecified values, not undefined ones, and has a type of its own to prevent accidental reads.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::sys::{CUdeviceptr, CUresult};
use parking_lot::Mutex;

use crate::budget::{HINT, MemoryBudget};
use crate::context::Context;
use crate::errors::{DeviceError, Result};
use crate::host::checked_end;
use crate::stream::{Guest, Stream};
use crate::sys::Code;

/// Minimum size in bytes of memory outside of the pool.
const LEAST_WORDS: u64 = 4 << 10;

/// Device memory of one buffer, charged to the budget.
pub(crate) struct Allocation {
    address: CUdeviceptr,
    /// Bytes charged; 0 for an empty buffer, which has no memory.
    charge: u64,
    /// Whether the memory is in the pool. The driver refuses to store words by itself in memory of the pool.
    pooled: bool,
    home: Stream,
    /// Other streams that have used the buffer and may still use it.
    guests: Mutex<Vec<Guest>>,
}

impl Allocation {
    fn new(stream: &Stream, bytes: u64, pooled: bool) -> Result<Self> {
        let context = stream.context();
        context.bind()?;
        let charge = match pooled {
            true => MemoryBudget::charge_of(bytes),
            // Few different sizes, for reuse.
            false => bytes.next_power_of_two().max(LEAST_WORDS),
        };
        let mut allocation = Self {
            address: 0,
            charge: 0,
            pooled,
            home: stream.clone(),
            guests: Mutex::default(),
        };
        if charge == 0 {
            return Ok(allocation);
        }
        context.budget.charge(charge)?;
        let kept = if pooled { None } else { context.idle_words(charge) };
        match kept.map_or_else(|| Self::ask(context, stream, charge, pooled), Ok) {
            Ok(address) => {
                allocation.address = address;
                allocation.charge = charge;
                Ok(allocation)
            }
            Err(error) => {
                context.budget.release(charge);
                Err(error)
            }
        }
    }

    /// Calls the driver, and once more after its pool has released the memory that it keeps for reuse.
    fn ask(context: &Context, stream: &Stream, bytes: u64, pooled: bool) -> Result<CUdeviceptr> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let call = if pooled { "cuMemAllocAsync" } else { "cuMemAlloc" };
        let mut address: CUdeviceptr = 0;
        let mut ask = || match pooled {
            // SAFETY: the pointer is valid for a write, the context is current and the stream is one of its.
            true => unsafe { (context.driver.cuMemAllocAsync)(&raw mut address, size, stream.handle()) },
            // SAFETY: as above.
            false => unsafe { (context.driver.cuMemAlloc_v2)(&raw mut address, size) },
        };
        let mut code = ask();
        if code.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            // Another stream has queued frees, or the pool is too fragmented: wait, release the slack, retry.
            context.trim()?;
            code = ask();
        }
        if code == Code::SUCCESS {
            return Ok(address);
        }
        if code.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            // Bytes in use by this process (without the current charge), and the memory that the card had
            // left for it.
            let used = context.budget.used().saturating_sub(bytes);
            let free = context.memory_info().map_or(0, |(free, _)| free);
            return Err(DeviceError::OutOfMemory {
                requested: bytes,
                used,
                limit: used + free,
                hint: HINT,
            });
        }
        Err(context
            .check(call, code)
            .err()
            .unwrap_or_else(|| context.driver.error(call, code)))
    }

    /// Orders a use by `stream` after the allocation, and the free after that use.
    pub(crate) fn used_by(&self, stream: &Stream) -> Result<()> {
        if self.charge == 0 || stream.is(&self.home) {
            return Ok(());
        }
        if !stream.same_device(&self.home) {
            return Err(DeviceError::WrongDevice {
                what: "device buffer",
            });
        }
        let mut guests = self.guests.lock();
        if guests.iter().any(|guest| guest.is(stream)) {
            return Ok(());
        }
        guests.retain(|guest| !guest.is_retired());
        stream.wait(&self.home.mark()?)?;
        guests.push(stream.downgrade());
        Ok(())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.charge == 0 {
            return;
        }
        let context = self.home.context();
        if context.bind_for_drop() {
            let mut guests = self.guests.get_mut().iter();
            let ordered = guests.all(|guest| guest.precede(&self.home).is_ok());
            // The driver refused an event, possibly for lack of host memory: then the host waits. If the host
            // cannot wait, the device is lost, and the driver frees the memory with the context.
            let unused = ordered || context.synchronize().is_ok();
            if !unused {
                tracing::debug!(bytes = self.charge, "memory is left to the driver");
            } else if self.pooled {
                // SAFETY: allocated by cuMemAllocAsync and freed once; every user's work is ordered before.
                let _ = unsafe { (context.driver.cuMemFreeAsync)(self.address, self.home.handle()) };
            } else if self.home.synchronize().is_ok() {
                context.keep_words(self.address, self.charge);
            }
        }
        context.budget.release(self.charge);
    }
}

/// `len` values of `T` in device memory, freed in stream order when dropped.
pub struct DeviceBuffer<T> {
    allocation: Allocation,
    len: usize,
    values: PhantomData<fn() -> T>,
}

impl<T: Pod> DeviceBuffer<T> {
    pub(crate) fn new(stream: &Stream, len: usize) -> Result<Self> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Self {
            allocation: Allocation::new(stream, bytes, true)?,
            len,
            values: PhantomData,
        })
    }

    /// Allocates memory for [`Stream::write_word`].
    pub(crate) fn for_words(stream: &Stream, len: usize) -> Result<Self> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Self {
            allocation: Allocation::new(stream, bytes, false)?,
            len,
            values: PhantomData,
        })
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it contains no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of the values in bytes; the budget is charged [`MemoryBudget::charge_of`] this size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.len as u64 * size_of::<T>() as u64
    }

    /// Address on the device, a multiple of 256; 0 for an empty buffer.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.allocation.address
    }

    /// The stream of its allocation and free.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.allocation.home
    }

    /// The whole buffer, for reading.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice {
            address: self.address(),
            len: self.len,
            allocation: &self.allocation,
            values: PhantomData,
        }
    }

    /// The whole buffer, for writing.
    #[must_use]
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut {
            address: self.address(),
            len: self.len,
            allocation: &self.allocation,
            values: PhantomData,
        }
    }

    /// A range of the buffer, for reading.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the range is not inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        let (start, len) = resolve("device slice", range, self.len)?;
        let address = self.address() + (start * size_of::<T>()) as u64;
        Ok(DeviceSlice {
            address,
            len,
            allocation: &self.allocation,
            values: PhantomData,
        })
    }

    /// A range of the buffer, for writing.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the range is not inside.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        let (start, len) = resolve("device slice", range, self.len)?;
        let address = self.address() + (start * size_of::<T>()) as u64;
        Ok(DeviceSliceMut {
            address,
            len,
            allocation: &self.allocation,
            values: PhantomData,
        })
    }

    #[cfg(test)]
    pub(crate) fn guests(&self) -> usize {
        self.allocation.guests.lock().len()
    }

    /// Orders the next work of `stream` after this buffer's allocation, and the buffer's end after that work.
    /// The copies of [`Stream`] and launches that list their references do this themselves. It must be called
    /// once before a launch that passes a bare [`DeviceBuffer::address`] on a stream that is not the buffer's
    /// home.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn used_by(&self, stream: &Stream) -> Result<()> {
        self.allocation.used_by(stream)
    }
}

impl<T> std::fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DeviceBuffer<{}>[{}]@{:#x}",
            std::any::type_name::<T>(),
            self.len,
            self.allocation.address
        )
    }
}

/// Device memory that was not written yet: its values are unspecified.
#[derive(Debug)]
pub struct Unwritten<T>(DeviceBuffer<T>);

impl<T: Pod> Unwritten<T> {
    pub(crate) fn new(stream: &Stream, len: usize) -> Result<Self> {
        DeviceBuffer::new(stream, len).map(Self)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it contains no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Address on the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// The whole buffer, to be written by a copy or a kernel.
    #[must_use]
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.0.as_slice_mut()
    }

    /// Returns the buffer. The caller asserts that all values that are read have been written before in
    /// stream order. The call is sound in any case: all bytes are values of `T`.
    #[must_use]
    pub fn assume_written(self) -> DeviceBuffer<T> {
        self.0
    }
}

/// Values in device memory, for reading.
pub struct DeviceSlice<'a, T> {
    address: u64,
    len: usize,
    allocation: &'a Allocation,
    values: PhantomData<fn() -> T>,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

/// Values in device memory, for writing.
pub struct DeviceSliceMut<'a, T> {
    address: u64,
    len: usize,
    allocation: &'a Allocation,
    values: PhantomData<fn() -> T>,
}

macro_rules! slice_methods {
    ($slice:ident) => {
        impl<'a, T> $slice<'a, T> {
            /// Number of values.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether it contains no values.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Size in bytes.
            #[must_use]
            pub fn bytes(&self) -> u64 {
                self.len as u64 * size_of::<T>() as u64
            }

            /// Address on the device.
            #[must_use]
            pub fn address(&self) -> u64 {
                self.address
            }

            /// The same memory as bytes.
            #[must_use]
            pub fn into_bytes(self) -> $slice<'a, u8> {
                $slice {
                    address: self.address,
                    len: self.len * size_of::<T>(),
                    allocation: self.allocation,
                    values: PhantomData,
                }
            }

            pub(crate) fn allocation(&self) -> &'a Allocation {
                self.allocation
            }
        }

        impl<T> std::fmt::Debug for $slice<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(
                    f,
                    "{}<{}>[{}]@{:#x}",
                    stringify!($slice),
                    std::any::type_name::<T>(),
                    self.len,
                    self.address
                )
            }
        }
    };
}
slice_methods!(DeviceSlice);
slice_methods!(DeviceSliceMut);

impl<'a, T: Pod> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: Pod> From<&'a Arc<DeviceBuffer<T>>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a Arc<DeviceBuffer<T>>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: Pod> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_slice_mut()
    }
}

impl<'a, T: Pod> From<&'a mut Unwritten<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut Unwritten<T>) -> Self {
        buffer.as_slice_mut()
    }
}

/// Checks a range. Returns its start and length.
pub(crate) fn resolve(
    what: &'static str,
    range: impl RangeBounds<usize>,
    len: usize,
) -> Result<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    if start > end {
        return Err(DeviceError::Range {
            what,
            start: start as u64,
            end: end as u64,
            len: len as u64,
        });
    }
    checked_end(what, start, end - start, len)?;
    Ok((start, end - start))
}
