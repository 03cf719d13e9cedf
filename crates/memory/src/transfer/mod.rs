//! Transfer methods between host and device, behind one trait.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, chapter 3 (Table 3.1). A
//! method either *pushes*: the host copies a range before a kernel that reads it; or *pulls*: the kernel's
//! loads fetch it.
//!
//! | method | | mechanism | host memory | granularity |
//! | --- | --- | --- | --- | --- |
//! | pageable copy | push | the driver copies through a buffer of its own | any | chunk |
//! | staged copy | push | threads copy into a pinned ring, the copy engine from there | any | chunk |
//! | dynamic pinning | push | each range is pinned, copied, unpinned | any | chunk |
//! | pinned copy | push | only the copy engine; also in many pieces queued at once | pinned | chunk |
//! | unified prefetch | push | pages are moved before the kernel | managed | page |
//! | unified migration | pull | pages move when the kernel accesses them | managed | page |
//! | zero-copy | pull | each load and store crosses the link | pinned | byte |
//! | coherence | pull | loads of any memory, kept coherent by the link | any | byte |
//!
//! [`Capabilities::probe`] returns the methods that a device supports, and the reason for each that it does
//! not support. [`open`] creates a transfer. All of them hold their host memory and return an address for
//! kernels: [`Transfer::bring`] for ranges that a kernel reads, [`Transfer::room`] and [`Transfer::collect`]
//! for ranges that it writes. So consumers do not depend on the method.
//!
//! [`link_rates`] measures the rate of each on a device, which a calibration stores, and [`Method::fastest`]
//! chooses by it. [`Meter`] checks the values that kernels have read or written.
//!
//! Managed memory is charged to the device's budget: a card with more managed memory than its size can hang.

mod copied;
mod meter;
mod probe;
mod staged;
mod unified;

use std::ops::Range;

use galatea_device::{Device, DeviceError, LinkRates, Stream};

pub use meter::{Access, Meter, fill, link_rates};
pub use probe::{Absent, Capabilities};

/// A transfer method. [`PinnedPieces`](Self::PinnedPieces) is a variant of the pinned copy, so there are
/// nine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Pageable copy: the driver stages it.
    Pageable,
    /// Staged copy: our threads stage it.
    Staged,
    /// Dynamic pinning: pinned for the duration of the copy.
    DynamicPinning,
    /// Pinned copy: only by the copy engine.
    Pinned,
    /// Pinned copy, in many pieces that are queued at once.
    PinnedPieces,
    /// Managed memory, moved before it is used.
    UnifiedPrefetch,
    /// Managed memory, moved when it is accessed.
    UnifiedMigration,
    /// Pinned memory, read and written over the link.
    ZeroCopy,
    /// Pageable memory, read and written over a coherent link.
    Coherence,
}

impl Method {
    /// All methods, in the order of the table in the module documentation.
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

    /// The name of the method.
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

    /// The method's rate among those of a calibration.
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

    /// The fastest of some methods, by a calibration. The first of them if they were not measured or have
    /// equal rates.
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
    /// The device does not support the method.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// The range is longer than a chunk.
    #[error(
        "a transfer of {asked} bytes by {method}: its chunks have {limit}\nhint: raise TransferOptions::chunk_bytes"
    )]
    Chunk {
        /// The method.
        method: Method,
        /// Bytes requested.
        asked: u64,
        /// Bytes of a chunk.
        limit: u64,
    },
    /// Threads for copying could not be started.
    #[error("no {asked} threads for staged copies: {reason}")]
    Threads {
        /// Number of threads requested.
        asked: u64,
        /// The reason.
        reason: String,
    },
}

/// Result of this module.
pub type Result<T, E = TransferError> = std::result::Result<T, E>;

/// Settings of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct TransferOptions {
    /// The most bytes that are transferred or collected at once; default 16 MiB. Methods that push have two
    /// buffers of this size on the device.
    pub chunk_bytes: usize,
    /// Number of threads that stage; default 8.
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

/// The parts of a range of bytes, of at most `piece` bytes each.
pub fn pieces(range: Range<usize>, piece: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(piece.min(isize::MAX as usize))
        .map(move |start| start..start.saturating_add(piece).min(end))
}

/// Host memory with one transfer method. Only one stream may use it at a time.
///
/// The address that [`Transfer::bring`] or [`Transfer::room`] returns is valid for kernels that are queued on
/// the same stream before the second next call of either. The transfer must outlive them.
pub trait Transfer: Send {
    /// The transfer method.
    fn method(&self) -> Method;

    /// The host's bytes, for reading or writing. Waits for copies in progress.
    ///
    /// # Errors
    /// The failure of any work.
    fn host(&mut self) -> Result<&mut [u8]>;

    /// Transfers a range for kernels queued on `stream` from now on. Returns its address for them.
    ///
    /// # Errors
    /// [`TransferError::Chunk`]; the errors of the device.
    fn bring(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64>;

    /// Returns the address at which kernels queued on `stream` from now on write the new content of a range.
    /// They must write all of it.
    ///
    /// # Errors
    /// Those of [`Transfer::bring`].
    fn room(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64>;

    /// Transfers the range that kernels have written, in the memory of the last call, to the host. Returns
    /// when it has arrived.
    ///
    /// # Errors
    /// Those of [`Transfer::bring`].
    fn collect(&mut self, stream: &Stream, range: Range<usize>) -> Result<()>;
}

/// Allocates host memory of that size, zeroed, with a transfer method.
///
/// # Errors
/// [`TransferError::Absent`] for a method that the device does not support; the errors of the device.
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
