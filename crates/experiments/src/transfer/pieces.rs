//! Kernels' own accesses of host memory: their granularity and alignment.

use galatea_device::{Device, DeviceBuffer, Stream};
use galatea_kernels::{LinkAccess, Pieces};
use galatea_memory::transfer::{Access, Method, Result, Transfer, TransferOptions, fill, open};
use rayon::prelude::*;

use super::measure::{Rate, Source, seed_of};

/// Maximum number of pieces at random places that a run accesses, because small ones are slow.
const RANDOM_PIECES: u64 = 32 << 20;

/// Host memory with pieces that kernels read and write in place, by a pull method.
pub struct InPlace {
    kernel: LinkAccess,
    stream: Stream,
    sum: DeviceBuffer<u64>,
    transfer: Box<dyn Transfer>,
    bytes: usize,
}

impl InPlace {
    /// Allocates `bytes` bytes of memory.
    ///
    /// # Errors
    /// The errors of [`super::rates`].
    pub fn new(device: &Device, method: Method, bytes: usize) -> Result<Self> {
        let options = TransferOptions {
            chunk_bytes: bytes,
            ..TransferOptions::default()
        };
        let stream = device.stream()?;
        Ok(Self {
            kernel: LinkAccess::new(device)?,
            sum: device.zeroed(&stream, 1)?,
            stream,
            transfer: open(device, method, bytes, &options)?,
            bytes,
        })
    }

    /// The rate of accessing pieces of a given size, in order or at random places. Pieces are misaligned by
    /// `shift` bytes, a multiple of the word size. The host writes other values before each run.
    ///
    /// # Errors
    /// The errors of [`super::rates`].
    ///
    /// # Panics
    /// If a kernel read or wrote wrong values.
    pub fn rate(
        &mut self,
        access: Access,
        (piece, shift, random): (u64, u64, bool),
        runs: usize,
    ) -> Result<Rate> {
        let bytes = self.bytes as u64 - shift;
        let writes = access == Access::Write;
        let places = bytes / piece;
        let count = if random { places.min(RANDOM_PIECES) } else { places };
        let (kernel, stream, sum) = (&self.kernel, &self.stream, &mut self.sum);
        let mut values = Vec::new();
        for run in 0..=runs {
            let mut pieces = Pieces {
                address: 0,
                bytes,
                piece,
                count,
                random,
                writes,
                seed: seed_of(run),
            };
            fill(self.transfer.host()?, pieces.seed);
            let expected = match access {
                Access::Read => read(self.transfer.host()?, &pieces, shift),
                Access::Write => 0,
            };
            stream.fill(&mut *sum, 0)?;
            pieces.address = shift
                + match access {
                    Access::Read => self.transfer.bring(stream, 0..self.bytes)?,
                    Access::Write => self.transfer.room(stream, 0..self.bytes)?,
                };
            stream.synchronize()?;
            let start = stream.record()?;
            kernel.launch(stream, pieces, sum)?;
            let end = stream.record()?;
            stream.synchronize()?;
            let seconds = end.elapsed_since(&start)?.as_secs_f64();
            let right = match access {
                Access::Read => stream.read(sum, ..)? == [expected],
                Access::Write => {
                    self.transfer.collect(stream, 0..self.bytes)?;
                    written(self.transfer.host()?, &pieces, shift)
                }
            };
            assert!(
                right,
                "{access:?} of pieces of {piece} bytes, shift {shift}, random {random}"
            );
            if run > 0 {
                values.push((count * piece) as f64 / seconds);
            }
        }
        Ok(Rate {
            source: Source::Way(self.transfer.method()),
            access,
            piece,
            random,
            values,
        })
    }
}

/// The indices and values of a piece's words.
fn words<'a>(
    memory: &'a [u8],
    pieces: &Pieces,
    shift: u64,
    piece: u64,
) -> impl Iterator<Item = (u64, u32)> + use<'a> {
    let memory: &[u32] = bytemuck::cast_slice(&memory[shift as usize..]);
    let len = pieces.piece / 4;
    let first = pieces.place(piece) * len;
    let words = &memory[first as usize..(first + len) as usize];
    (first..).zip(words.iter().copied())
}

/// The sum of the words that the pieces read.
fn read(memory: &[u8], pieces: &Pieces, shift: u64) -> u64 {
    let sum = |piece| words(memory, pieces, shift, piece).fold(0_u64, |sum, (_, word)| sum + u64::from(word));
    (0..pieces.count)
        .into_par_iter()
        .map(sum)
        .reduce(|| 0, u64::wrapping_add)
}

/// Whether the pieces have been written.
fn written(memory: &[u8], pieces: &Pieces, shift: u64) -> bool {
    let written = |piece| {
        words(memory, pieces, shift, piece)
            .all(|(word, value)| value == LinkAccess::written(pieces.seed, word))
    };
    (0..pieces.count).into_par_iter().all(written)
}
