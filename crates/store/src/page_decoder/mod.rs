//! A device that decodes pages of Parquet files.
//!
//! ```text
//! column chunk ─ PageDecoder::choose ─> host, with a reason │ kernels ─ PageDecoder::lane ─> a lane for it
//!   prices    predicted and measured times of both ways
//!   kernels   compiled on a thread of their own, at the first load
//! ```

mod kernels;
mod prices;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use galatea_device::Device;
use galatea_parquet::{Decoder, LaneInUse, Lanes};

use self::kernels::DecoderKernels;
use self::prices::Prices;
pub(crate) use self::prices::{ColumnChunkSize, DecodingPrices, Side};
use crate::error::Result;
use crate::load_report::HostReason;
use crate::pool::Cancellation;

/// Longest wait between two checks whether a load was cancelled.
const CHECK: Duration = Duration::from_millis(20);

/// A device that decodes pages, shared by all loads of a store.
pub struct PageDecoder {
    device: Device,
    kernels: Arc<DecoderKernels>,
    lanes: Lanes,
    prices: Prices,
    /// Whether it decodes every column chunk that it can, regardless of prices.
    always: AtomicBool,
}

impl PageDecoder {
    /// A decoder that chooses the cheaper side for each column chunk. `link_rate`: bytes per second that the
    /// device receives. Kernels are compiled on a thread of their own when a column chunk first needs them.
    #[must_use]
    pub fn new(device: &Device, link_rate: f64) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            kernels: DecoderKernels::new(device),
            lanes: Lanes::new(device),
            prices: Prices::new(link_rate),
            always: AtomicBool::new(false),
        })
    }

    /// Changes whether the device decodes every column chunk that it can, regardless of prices.
    pub fn set_always(&self, always: bool) {
        self.always.store(always, Ordering::Relaxed);
    }

    /// Whether the device decodes every column chunk that it can.
    fn always(&self) -> bool {
        self.always.load(Ordering::Relaxed)
    }

    /// Number of chunks that the device decodes together. `size`: the column's size in one of these chunks.
    pub(crate) fn together(&self, size: &ColumnChunkSize) -> usize {
        let policy = DecodingPrices::DEFAULT;
        let is_device = self.always() || self.prices.prefers_device(size);
        if !is_device || self.device.alive().is_err() {
            return 1;
        }
        let of_memory = self.device.budget().available() / policy.memory_parts / size.device_bytes().max(1);
        (policy.batch_bytes / size.plain.max(size.rows * 8).max(1))
            .min(of_memory)
            .max(1) as usize
    }

    /// The kernels, if the device is to decode column chunks.
    ///
    /// # Errors
    /// [`crate::StoreError::Cancelled`], while kernels are awaited.
    pub(crate) fn choose(
        &self,
        size: &ColumnChunkSize,
        cancellation: &Cancellation,
    ) -> Result<Result<Arc<Decoder>, HostReason>> {
        if self.device.alive().is_err() {
            return Ok(Err(HostReason::DeviceFailed));
        }
        // Queries that run at the same time keep most of the memory. None of theirs is evicted.
        let free = self.device.budget().available();
        if size.device_bytes() > free / DecodingPrices::DEFAULT.memory_parts {
            return Ok(Err(HostReason::DeviceMemory));
        }
        let always = self.always();
        if !always && self.prices.cheaper_side(size) == Side::Host {
            return Ok(Err(HostReason::Price));
        }
        loop {
            cancellation.check()?;
            match self.kernels.within(if always { CHECK } else { Duration::ZERO }) {
                kernels::State::Ready(kernels) => return Ok(Ok(kernels)),
                kernels::State::Failed => return Ok(Err(HostReason::DeviceFailed)),
                kernels::State::Compiling if always => {}
                kernels::State::Compiling => return Ok(Err(HostReason::Compiling)),
            }
        }
    }

    /// A lane for a column chunk. If all lanes are in use, the host decodes it, unless the device always
    /// does. Must not be called by a thread that has a lane.
    ///
    /// # Errors
    /// [`crate::StoreError::Cancelled`], while a lane is awaited.
    pub(crate) fn lane(&self, cancellation: &Cancellation) -> Result<Result<LaneInUse<'_>, HostReason>> {
        let always = self.always();
        loop {
            cancellation.check()?;
            match self.lanes.take(if always { CHECK } else { Duration::ZERO }) {
                Ok(Some(lane)) => return Ok(Ok(lane)),
                Ok(None) if always => {}
                Ok(None) => return Ok(Err(HostReason::DeviceBusy)),
                Err(error) => {
                    tracing::debug!(%error, "no lane for a column chunk");
                    return Ok(Err(HostReason::of(&error)));
                }
            }
        }
    }

    /// Time of decoding and encoding large column chunks, of strings or numbers, relative to the host's time:
    /// at most 1.
    pub fn relative_time(&self, strings: bool) -> f64 {
        self.prices.relative_time(strings)
    }

    /// Records the time that a thread has taken for a column chunk.
    pub(crate) fn measured(&self, side: Side, size: &ColumnChunkSize, time: Duration) {
        self.prices.measured(side, size, time);
    }
}

impl fmt::Debug for PageDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageDecoder")
            .field("device", &self.device.info().name)
            .finish_non_exhaustive()
    }
}
