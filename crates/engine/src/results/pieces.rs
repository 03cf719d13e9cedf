//! Reads results in pieces: several threads each copy a piece into their own pinned memory and decode it
//! there, so that neither the link nor a single core limits the throughput of a large result.

use crate::device::check;
use crate::device::{DeviceRuntime, RunError, Staging};
use bytemuck::Pod;
use galatea_base::policy::policy;
use galatea_device::{DeviceBuffer, DeviceSlice, Stream};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

policy! {
    /// How results are decoded on the host.
    pub(crate) struct ResultPolicy {
        /// Maximum number of threads that decode a result.
        threads: usize = 8,
        /// Maximum number of rows of a piece, and the number of rows of a result below which one thread
        /// decodes all of it.
        piece_rows: usize = 256 << 10,
    }
}

const POLICY: ResultPolicy = ResultPolicy::DEFAULT;

/// One column of a result in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    /// Words, starting at an index.
    Words(&'a DeviceBuffer<u64>, usize),
    /// Records of a number of words each, starting at an index.
    Records(&'a DeviceBuffer<u64>, usize, usize),
    /// Values of a number of bytes each.
    Bytes(&'a DeviceBuffer<u8>, usize),
    /// Words with the start positions of strings, which [`Piece::read`] reads.
    Starts(&'a DeviceBuffer<u64>),
}

impl Part<'_> {
    fn width(self) -> usize {
        match self {
            Self::Words(..) | Self::Starts(_) => 8,
            Self::Records(_, _, words) => 8 * words,
            Self::Bytes(_, width) => width,
        }
    }

    /// The bytes of some rows.
    fn slice(&self, rows: &Range<usize>) -> Result<DeviceSlice<'_, u8>, RunError> {
        Ok(match *self {
            Self::Words(buffer, first) => {
                let range = first + rows.start..first + rows.end;
                buffer.slice(range)?.into_bytes()
            }
            Self::Records(buffer, first, words) => {
                let range = first + words * rows.start..first + words * rows.end;
                buffer.slice(range)?.into_bytes()
            }
            Self::Bytes(buffer, width) => buffer.slice(rows.start * width..rows.end * width)?,
            Self::Starts(buffer) => buffer.slice(rows.clone())?.into_bytes(),
        })
    }
}

/// Some rows of every part, on the host.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// Number of rows.
    pub rows: usize,
    /// Number of the first row.
    pub first: usize,
    bytes: &'a [u8],
    /// Range of each part in `bytes`.
    places: &'a [Range<usize>],
    /// The stream and the buffer through which other data are read.
    link: RefCell<(&'a Stream, &'a mut [u8])>,
}

impl<'a> Piece<'a> {
    /// The bytes of part `index`.
    pub(super) fn bytes(&self, index: usize) -> &'a [u8] {
        &self.bytes[self.places[index].clone()]
    }

    /// The words of part `index`, which must consist of words.
    pub(super) fn words(&self, index: usize) -> &'a [u64] {
        bytemuck::cast_slice(self.bytes(index))
    }

    /// Reads values that the rows refer to from device memory.
    pub(crate) fn read<T: Pod>(
        &self,
        source: &DeviceBuffer<T>,
        range: Range<usize>,
    ) -> Result<Vec<u8>, RunError> {
        let (stream, through) = &mut *self.link.borrow_mut();
        let mut read = Vec::with_capacity(range.len() * size_of::<T>());
        for start in range.clone().step_by(through.len() / size_of::<T>()) {
            let part = start..range.end.min(start + through.len() / size_of::<T>());
            let target = &mut through[..part.len() * size_of::<T>()];
            stream.read_each(vec![(source.slice(part)?.into_bytes(), &mut *target)])?;
            read.extend_from_slice(target);
        }
        Ok(read)
    }

    /// The words of all parts, which must consist of words, one part after the other.
    pub(super) fn all_words(&self) -> &'a [u64] {
        bytemuck::cast_slice(&self.bytes[..self.places.last().map_or(0, |place| place.end)])
    }
}

/// Decoded pieces, passed on in their order.
struct InOrder<T, G> {
    next: usize,
    waiting: BTreeMap<usize, T>,
    give: G,
}

impl<T, G: FnMut(T) -> Result<(), RunError>> InOrder<T, G> {
    fn add(&mut self, index: usize, piece: T) -> Result<(), RunError> {
        self.waiting.insert(index, piece);
        while let Some(piece) = self.waiting.remove(&self.next) {
            self.next += 1;
            (self.give)(piece)?;
        }
        Ok(())
    }
}

/// Reads `rows` rows of the parts, decodes them piece by piece, and passes each piece to `give` in order,
/// until `cancelled` is set. Work queued on `stream` before is completed first. Returns the number of bytes
/// read.
pub(super) fn read_in_pieces<T: Send>(
    runtime: &DeviceRuntime,
    stream: &Stream,
    rows: usize,
    parts: &[Part<'_>],
    cancelled: &AtomicBool,
    decode: impl Fn(&Piece<'_>) -> Result<T, RunError> + Sync,
    give: impl FnMut(T) -> Result<(), RunError> + Send,
) -> Result<u64, RunError> {
    let row_bytes: usize = parts.iter().map(|part| part.width()).sum();
    let has_strings = parts.iter().any(|part| matches!(part, Part::Starts(_)));
    let through = if has_strings { Staging::BYTES / 2 } else { 0 };
    let fit = (Staging::BYTES - through) / row_bytes.max(1);
    if rows == 0 {
        return Ok(0);
    }
    // Parts of a piece begin at multiples of 8 bytes.
    let piece_rows = (fit.saturating_sub(8) & !7).clamp(8, POLICY.piece_rows);
    let pieces = rows.div_ceil(piece_rows);
    let next = AtomicUsize::new(0);
    let queued = stream.record()?;
    let in_order = Mutex::new(InOrder {
        next: 0,
        waiting: BTreeMap::new(),
        give,
    });
    let work = || -> Result<(), RunError> {
        let mut staging = runtime.take_staging()?;
        staging.stream.wait(&queued)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= pieces {
                break;
            }
            check(cancelled)?;
            let range = index * piece_rows..rows.min((index + 1) * piece_rows);
            let mut size = 0;
            let place = |part: &Part<'_>| {
                let start = size;
                size += (part.width() * range.len()).next_multiple_of(8);
                start..start + part.width() * range.len()
            };
            let places: Vec<Range<usize>> = parts.iter().map(place).collect();
            let stream = staging.stream.clone();
            let (bytes, through) = staging.bytes(size + through)?.split_at_mut(size);
            let mut reads = Vec::new();
            let mut rest = &mut bytes[..];
            for (part, place) in parts.iter().zip(&places) {
                let (target, after) = rest.split_at_mut(place.len().next_multiple_of(8));
                reads.push((part.slice(&range)?, &mut target[..place.len()]));
                rest = after;
            }
            stream.read_each(reads)?;
            let piece = Piece {
                rows: range.len(),
                first: range.start,
                bytes,
                places: &places,
                link: RefCell::new((&stream, through)),
            };
            // Done before the lock is taken, so that pieces are decoded concurrently.
            let decoded = decode(&piece)?;
            in_order.lock().add(index, decoded)?;
        }
        runtime.give_staging(staging);
        Ok(())
    };
    // The number of cores takes a dozen system calls.
    let threads = match POLICY.threads.min(pieces) {
        0 | 1 => 1,
        most => std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(most),
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().fold(own, |all, other| {
            let theirs = (other.join()).unwrap_or_else(|_| Err(RunError::Ended("it read results".into())));
            all.and(theirs)
        })
    })?;
    Ok((rows * row_bytes) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use galatea_device::{Device, DeviceOptions, EmulatorOptions};
    use std::time::{Duration, Instant};

    fn runtime() -> Result<(Device, DeviceRuntime), RunError> {
        let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default())?;
        let runtime = DeviceRuntime::new(device.clone())?;
        Ok((device, runtime))
    }

    #[test]
    fn result_pieces_are_decoded_in_parallel() -> Result<(), RunError> {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return Ok(());
        }
        let (device, runtime) = runtime()?;
        let stream = device.stream()?;
        let words = device.upload(&stream, &vec![7u64; 2 * POLICY.piece_rows])?;
        // Each thread waits for the other one.
        let (inside, met) = (AtomicUsize::new(0), AtomicBool::new(false));
        let decode = |_: &Piece<'_>| {
            let began = Instant::now();
            inside.fetch_add(1, Ordering::SeqCst);
            while inside.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            met.fetch_or(inside.load(Ordering::SeqCst) == 2, Ordering::SeqCst);
            Ok(())
        };
        let parts = [Part::Words(&words, 0)];
        read_in_pieces(
            &runtime,
            &stream,
            words.len(),
            &parts,
            &AtomicBool::new(false),
            decode,
            |()| Ok(()),
        )?;
        assert!(met.into_inner(), "one after the other");
        Ok(())
    }

    #[test]
    fn cancellation_stops_reading_a_result() -> Result<(), RunError> {
        let (device, runtime) = runtime()?;
        let stream = device.stream()?;
        let pieces = 40;
        let words = device.upload(&stream, &vec![7u64; pieces * POLICY.piece_rows])?;
        let cancelled = AtomicBool::new(false);
        let decoded = AtomicUsize::new(0);
        let read = |cancel: bool| {
            let mut firsts = Vec::new();
            let bytes = read_in_pieces(
                &runtime,
                &stream,
                words.len(),
                &[Part::Words(&words, 0)],
                &cancelled,
                |piece| {
                    decoded.fetch_add(1, Ordering::Relaxed);
                    cancelled.store(cancel, Ordering::Relaxed);
                    Ok(piece.first)
                },
                |first| {
                    firsts.push(first);
                    Ok(())
                },
            )?;
            Ok((firsts, bytes))
        };
        let (firsts, bytes) = read(false)?;
        assert_eq!((firsts.len(), bytes), (pieces, words.bytes()));
        assert!(firsts.is_sorted(), "pieces in their order");
        decoded.store(0, Ordering::Relaxed);
        assert!(matches!(read(true), Err(RunError::Cancelled)));
        let read_on = decoded.load(Ordering::Relaxed);
        assert!(
            read_on <= 2 * POLICY.threads,
            "{read_on} of {pieces} pieces after the cancellation"
        );
        Ok(())
    }
}
