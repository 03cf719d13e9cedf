//! The ways across the link between host and device, behind one trait.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, chapter 3 (Table 3.1). A way
//! either *pushes*: the host copies a range before a kernel that reads it; or is *pulled*: the kernel's loads
//! fetch it.
//!
//! | method | | how | host memory | granularity |
//! | --- | --- | --- | --- | --- |
//! | pageable copy | push | the driver copies through a buffer of its own | any | chunk |
//! | staged copy | push | threads copy into a pinned ring, the copy engine from there | any | chunk |
//! | dynamic pinning | push | each range is pinned, copied, unpinned | any | chunk |
//! | pinned copy | push | the copy engine alone; also in many pieces queued at once | pinned | chunk |
//! | unified prefetch | push | pages are moved before the kernel | managed | page |
//! | unified migration | pull | pages move when the kernel touches them | managed | page |
//! | zero-copy | pull | each load and store crosses the link | pinned | byte |
//! | coherence | pull | loads of any memory, kept coherent by the link | any | byte |
//!
//! [`Capabilities::probe`] says which ones a device has, and the reason for each that it lacks; [`open`]
//! makes one. All of them hold their host memory and give a kernel an address: [`Transfer::bring`] for ranges
//! that it reads, [`Transfer::room`] and [`Transfer::collect`] for ranges that it writes. So a consumer does
//! not know which one it is given.
//!
//! How fast each is on a device is measured by [`link_rates`], which a calibration keeps, and
//! [`Method::fastest`] chooses by it. [`Meter`] checks what kernels have read or written.
//!
//! Managed memory is charged to the device's budget: a card asked for more of it than it has can hang.

mod copied;
mod meter;
mod probe;
mod staged;
mod unified;

use std::ops::Range;

use galatea_device::{Device, DeviceError, LinkRates, Stream};

pub use meter::{Access, Meter, fill, link_rates};
pub use probe::{Absent, Capabilities};

/// A way across the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Pageable copy: the driver stages it.
    Pageable,
    /// Staged copy: threads of ours do.
    Staged,
    /// Dynamic pinning: pinned for the copy.
    DynamicPinning,
    /// Pinned copy: by the copy engine alone.
    Pinned,
    /// Pinned copy, in many pieces that are queued at once.
    PinnedPieces,
    /// Managed memory, moved before it is used.
    UnifiedPrefetch,
    /// Managed memory, moved when it is touched.
    UnifiedMigration,
    /// Pinned memory, read and written over the link.
    ZeroCopy,
    /// Pageable memory, read and written over a coherent link.
    Coherence,
}

impl Method {
    /// All, in the order of the thesis' table.
    pub const ALL: [Self; 9] = [
        Self::Pageable,
        Self::Staged,
        Self::DynamicPinning,
        Self::Pinned,
        Self::PinnedPieces,
        Self::UnifiedPrefetch,
        Self::UnifiedMigration,
        Self::ZeroCopy,
        Self::Coherence,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "pageable copy",
            Self::Staged => "staged copy",
            Self::DynamicPinning => "dynamic pinning",
            Self::Pinned => "pinned copy",
            Self::PinnedPieces => "pinned copy in pieces",
            Self::UnifiedPrefetch => "unified prefetch",
            Self::UnifiedMigration => "unified migration",
            Self::ZeroCopy => "zero-copy",
            Self::Coherence => "coherence",
        }
    }

    /// Its rate among those of a calibration.
    pub(crate) fn rate_in(self, rates: &mut LinkRates) -> &mut Option<f64> {
        match self {
            Self::Pageable => &mut rates.pageable,
            Self::Staged => &mut rates.staged,
            Self::DynamicPinning => &mut rates.dynamic_pinning,
            Self::Pinned => &mut rates.pinned,
            Self::PinnedPieces => &mut rates.pinned_pieces,
            Self::UnifiedPrefetch => &mut rates.unified_prefetch,
            Self::UnifiedMigration => &mut rates.unified_migration,
            Self::ZeroCopy => &mut rates.zero_copy,
            Self::Coherence => &mut rates.coherence,
        }
    }

    /// The fastest of some ways, by a calibration; the first of them where it does not say, or they are
    /// alike.
    #[must_use]
    pub fn fastest(among: &[Self], mut rates: LinkRates) -> Option<Self> {
        let mut rated = among
            .iter()
            .map(|way| (*way, way.rate_in(&mut rates).unwrap_or(0.0)));
        let first = rated.next()?;
        let best = rated.fold(first, |best, way| if way.1 > best.1 { way } else { best });
        Some(best.0)
    }

    /// Whether the host moves a range before a kernel uses it, rather than the kernel by using it.
    #[must_use]
    pub fn is_push(self) -> bool {
        !matches!(self, Self::UnifiedMigration | Self::ZeroCopy | Self::Coherence)
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An error of a transfer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device does not have the method.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// A range longer than a chunk.
    #[error(
        "a transfer of {asked} bytes by {method}: its chunks have {limit}\nhint: raise TransferOptions::chunk_bytes"
    )]
    Chunk {
        /// The method.
        method: Method,
        /// Bytes asked for.
        asked: u64,
        /// Bytes of a chunk.
        limit: u64,
    },
    /// Threads for copying could not be started.
    #[error("no {asked} threads for staged copies: {reason}")]
    Threads {
        /// Threads asked for.
        asked: u64,
        /// Why not.
        reason: String,
    },
}

/// Result of this module.
pub type Result<T, E = TransferError> = std::result::Result<T, E>;

/// Settings of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct TransferOptions {
    /// Bytes that are brought or collected at once, at most; default 16 MiB. Ways that push have two such
    /// buffers on the device.
    pub chunk_bytes: usize,
    /// Threads that stage; default 8.
    pub threads: usize,
    /// Bytes of a piece of [`Method::PinnedPieces`], and of a staging buffer; default 1 MiB.
    pub piece_bytes: usize,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 16 << 20,
            threads: 8,
            piece_bytes: 1 << 20,
        }
    }
}

/// Host memory with one way across the link. Work of one stream at a time.
///
/// What [`Transfer::bring`] and [`Transfer::room`] return is valid for kernels that are queued on the same
/// stream before the call after next of either; the transfer must outlive them.
pub trait Transfer: Send {
    /// The way.
    fn method(&self) -> Method;

    /// The host's bytes, to be filled or read; waits for copies under way.
    ///
    /// # Errors
    /// The failure of any work.
    fn host(&mut self) -> Result<&mut [u8]>;

    /// Makes a range readable for kernels queued on `stream` from now on; its address for them.
    ///
    /// # Errors
    /// [`TransferError::Chunk`]; the device's.
    fn bring(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64>;

    /// The address at which kernels queued on `stream` from now on write the new content of a range: all of
    /// it.
    ///
    /// # Errors
    /// As [`Transfer::bring`].
    fn room(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64>;

    /// Brings the range that kernels have written, in the memory asked for last, to the host; returns when it
    /// is there.
    ///
    /// # Errors
    /// As [`Transfer::bring`].
    fn collect(&mut self, stream: &Stream, range: Range<usize>) -> Result<()>;
}

/// Makes host memory of so many bytes, zeroed, with a way across the link.
///
/// # Errors
/// [`TransferError::Absent`] for a method that the device does not have; the device's.
pub fn open(
    device: &Device,
    method: Method,
    bytes: usize,
    options: &TransferOptions,
) -> Result<Box<dyn Transfer>> {
    Capabilities::probe(device).has(method)?;
    Ok(match method {
        Method::Pageable
        | Method::Pinned
        | Method::PinnedPieces
        | Method::DynamicPinning
        | Method::ZeroCopy => Box::new(copied::Copied::new(device, method, bytes, options)?),
        Method::Staged => Box::new(staged::Staged::new(device, bytes, options)?),
        Method::UnifiedPrefetch | Method::UnifiedMigration => {
            Box::new(unified::Unified::new(device, method, bytes)?)
        }
        Method::Coherence => {
            return Err(Absent {
                method,
                reason: "no device that has it was at hand to write it for".to_owned(),
            }
            .into());
        }
    })
}
