//! A device that decodes pages of Parquet files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use galatea_device::Device;
use galatea_parquet::{Decoder, ParquetError};

/// A device with the kernels that decode pages, shared by all loads of a store.
pub struct PageDecoder {
    device: Device,
    decoder: Decoder,
    on_device: AtomicU64,
    on_host: AtomicU64,
}

/// Numbers of columns of chunks that were loaded from Parquet files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodedColumnChunks {
    /// Decoded on the device.
    pub on_device: u64,
    /// Decoded on the host: their type, encoding or codec is not supported, or the device failed.
    pub on_host: u64,
}

impl PageDecoder {
    /// Compiles or finds the kernels.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Arc<Self>, ParquetError> {
        Ok(Arc::new(Self {
            device: device.clone(),
            decoder: Decoder::new(device)?,
            on_device: AtomicU64::new(0),
            on_host: AtomicU64::new(0),
        }))
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The kernels.
    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Counts a column of a chunk.
    pub(crate) fn count(&self, on_device: bool) {
        let counter = if on_device { &self.on_device } else { &self.on_host };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Numbers of columns of chunks since the decoder was created.
    pub fn decoded(&self) -> DecodedColumnChunks {
        DecodedColumnChunks {
            on_device: self.on_device.load(Ordering::Relaxed),
            on_host: self.on_host.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for PageDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageDecoder")
            .field("device", &self.device.info().name)
            .field("decoded", &self.decoded())
            .finish()
    }
}
