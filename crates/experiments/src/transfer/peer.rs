//! The probe side of a join in the memory of another device (figure 3.11 with that device in the CPU's
//! place), and kernels' reads of that memory.
//!
//! | way | mechanism |
//! | --- | --- |
//! | in place | each load of the kernel crosses the link, as with zero-copy and coherence |
//! | copy by chunk | the copy engine fills one buffer while the kernel probes another, as with pinned copies |
//! | copy in pieces | the same, with many copies per chunk |
//! | unified prefetch | pages of a chunk move before the kernel |
//! | unified migration | pages move when the kernel accesses them |
//!
//! The other methods of the thesis differ only in the treatment of pageable memory of the host, which the
//! memory of a device is not ([`WITHOUT_MEANING`]).

use std::ops::Range;
use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, Event, HybridMemory, ManagedMemory, PageOrder, Side, Stream};
use galatea_kernels::{LinkAccess, Pieces, Tuples};
use galatea_memory::transfer::{Access, Method, Result, TransferOptions};
use rayon::prelude::*;

use super::join::{Join, TUPLE_BYTES};
use super::measure::{PeerWay, Rate, Source, seed_of};

/// Methods of figure 3.11 without a meaning between devices.
pub const WITHOUT_MEANING: [Method; 4] = [
    Method::Pageable,
    Method::Staged,
    Method::DynamicPinning,
    Method::Coherence,
];

/// Tuples in the memory of another device.
enum Memory {
    Mapped(HybridMemory),
    Managed(ManagedMemory),
}

/// A buffer for chunks. `copied` and `probed` mark the ends of its last copy and of its last use.
struct Slot {
    buffer: DeviceBuffer<u8>,
    probed: Option<Event>,
}

/// Tuples in the memory of another device, with one way to read them.
pub(super) struct PeerTuples {
    way: PeerWay,
    device: Device,
    peer: Device,
    memory: Memory,
    host: Vec<u64>,
    /// The stream of copies.
    copies: Stream,
    slots: Vec<Slot>,
    options: TransferOptions,
}

impl PeerTuples {
    /// Allocates memory for tuples. `None` if the device cannot access the other one's memory in this way.
    pub(super) fn new(
        (device, peer): (&Device, &Device),
        way: PeerWay,
        bytes: usize,
        options: &TransferOptions,
    ) -> Result<Option<Self>> {
        let memory = match way {
            PeerWay::UnifiedPrefetch | PeerWay::UnifiedMigration => {
                device.managed(bytes)?.map(Memory::Managed)
            }
            _ => device
                .hybrid_on_peer(peer, bytes as u64, 0, PageOrder::DeviceFirst)?
                .map(Memory::Mapped),
        };
        let Some(memory) = memory else {
            return Ok(None);
        };
        let copies = device.stream()?;
        let buffer = || -> Result<Slot> {
            let buffer = device.alloc::<u8>(&copies, options.chunk_bytes)?;
            Ok(Slot {
                buffer: buffer.assume_written(),
                probed: None,
            })
        };
        let slots = match way {
            PeerWay::Copy | PeerWay::CopyPieces => vec![buffer()?, buffer()?],
            _ => Vec::new(),
        };
        Ok(Some(Self {
            way,
            device: device.clone(),
            peer: peer.clone(),
            memory,
            host: vec![0; bytes / 8],
            copies,
            slots,
            options: *options,
        }))
    }

    /// Moves new tuples to the memory of the other device. Returns the sum of the payloads of their matches.
    fn renew(&mut self, join: &Join, seed: u64) -> Result<u64> {
        match &mut self.memory {
            Memory::Mapped(memory) => {
                let sum = join.fill(bytemuck::cast_slice_mut(&mut self.host), seed);
                let chunk = self.options.chunk_bytes / 8;
                for (number, words) in self.host.chunks(chunk.max(1)).enumerate() {
                    let staged = self.device.upload(&self.copies, words)?;
                    self.copies.copy_to_hybrid(memory, number * 8 * chunk, &staged)?;
                }
                self.copies.synchronize()?;
                Ok(sum)
            }
            Memory::Managed(memory) => {
                let bytes = 8 * self.host.len();
                let sum = join.fill(&mut memory.bytes_mut()?[..bytes], seed);
                memory.prefetch_to_peer(&self.copies, 0..bytes, &self.peer)?;
                self.copies.synchronize()?;
                Ok(sum)
            }
        }
    }

    /// The address of a chunk for the next kernel of a stream.
    fn bring(&mut self, stream: &Stream, number: usize, range: Range<usize>) -> Result<u64> {
        let memory = match &self.memory {
            Memory::Managed(memory) => {
                if self.way == PeerWay::UnifiedPrefetch {
                    memory.prefetch(&self.copies, range.clone(), Side::Device)?;
                    stream.wait(&self.copies.record()?)?;
                }
                return Ok(memory.address() + range.start as u64);
            }
            Memory::Mapped(memory) => memory,
        };
        let count = self.slots.len();
        let Some(slot) = self.slots.get_mut(number % count.max(1)) else {
            memory.used_by(stream)?;
            return Ok(memory.address() + range.start as u64);
        };
        if let Some(probed) = slot.probed.take() {
            self.copies.wait(&probed)?;
        }
        let piece = match self.way {
            PeerWay::CopyPieces => self.options.piece_bytes.min(range.len()).max(1),
            _ => range.len(),
        };
        for start in (0..range.len()).step_by(piece) {
            let part = start..(start + piece).min(range.len());
            let target = slot.buffer.slice_mut(part)?;
            self.copies
                .copy_from_hybrid(target, memory, range.start + start)?;
        }
        stream.wait(&self.copies.record()?)?;
        slot.buffer.used_by(stream)?;
        Ok(slot.buffer.address())
    }

    /// Marks the end of the last kernel that uses a chunk.
    fn used(&mut self, stream: &Stream, number: usize) -> Result<()> {
        let count = self.slots.len();
        if let Some(slot) = self.slots.get_mut(number % count.max(1)) {
            slot.probed = Some(stream.record()?);
        }
        Ok(())
    }
}

/// The rate at which tuples of another device are probed, in bytes of tuples per second.
///
/// # Panics
/// If the sum of the payloads of all matches is wrong.
pub(super) fn probe_rate(join: &mut Join, tuples: &mut PeerTuples, runs: usize) -> Result<Rate> {
    let bytes = 8 * tuples.host.len() / TUPLE_BYTES * TUPLE_BYTES;
    let chunk = tuples.options.chunk_bytes / TUPLE_BYTES * TUPLE_BYTES;
    let mut values = Vec::new();
    for run in 0..=runs {
        let expected = tuples.renew(join, seed_of(run))?;
        join.reset()?;
        let start = Instant::now();
        for (number, first) in (0..bytes).step_by(chunk.max(TUPLE_BYTES)).enumerate() {
            let range = first..(first + chunk).min(bytes);
            let count = (range.len() / TUPLE_BYTES) as u64;
            let address = tuples.bring(join.stream(), number, range)?;
            join.probe(Tuples { address, count })?;
            tuples.used(join.stream(), number)?;
        }
        join.stream().synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(join.sum()?, expected, "{}: the sum of payloads", tuples.way);
        if run > 0 {
            values.push(bytes as f64 / seconds);
        }
    }
    Ok(Rate {
        source: Source::Peer(tuples.way),
        access: Access::Read,
        piece: chunk as u64,
        random: false,
        values,
    })
}

/// The rate at which kernels read pieces of `piece` bytes of another device's memory in place, in order or at
/// random places. `None` if the device cannot access it. Kernels write other values before each run.
///
/// # Errors
/// An error of the device.
///
/// # Panics
/// If a kernel read wrong values.
pub fn peer_reads(
    (device, peer): (&Device, &Device),
    bytes: usize,
    (piece, random): (u64, bool),
    runs: usize,
) -> Result<Option<Rate>> {
    let Some(memory) = device.hybrid_on_peer(peer, bytes as u64, 0, PageOrder::DeviceFirst)? else {
        return Ok(None);
    };
    let stream = device.stream()?;
    memory.used_by(&stream)?;
    let kernel = LinkAccess::new(device)?;
    let mut sum = device.zeroed::<u64>(&stream, 1)?;
    let mut values = Vec::new();
    for run in 0..=runs {
        let seed = seed_of(run);
        let all = Pieces {
            address: memory.address(),
            bytes: bytes as u64,
            piece: 512,
            count: bytes as u64 / 512,
            random: false,
            writes: true,
            seed,
        };
        kernel.launch(&stream, all, &mut sum)?;
        let pieces = Pieces {
            piece,
            count: bytes as u64 / piece,
            random,
            writes: false,
            ..all
        };
        let words = piece / 4;
        let of_piece = |number| {
            let first = pieces.place(number) * words;
            let words = (first..first + words).map(|word| u64::from(LinkAccess::written(seed, word)));
            words.fold(0, u64::wrapping_add)
        };
        let expected = (0..pieces.count)
            .into_par_iter()
            .map(of_piece)
            .reduce(|| 0, u64::wrapping_add);
        stream.fill(&mut sum, 0)?;
        stream.synchronize()?;
        let start = stream.record()?;
        kernel.launch(&stream, pieces, &mut sum)?;
        let end = stream.record()?;
        stream.synchronize()?;
        let seconds = end.elapsed_since(&start)?.as_secs_f64();
        assert_eq!(
            stream.read(&sum, ..)?,
            [expected],
            "reads of {piece} bytes of another device"
        );
        if run > 0 {
            values.push((pieces.count * piece) as f64 / seconds);
        }
    }
    Ok(Some(Rate {
        source: Source::Peer(PeerWay::InPlace),
        access: Access::Read,
        piece,
        random,
        values,
    }))
}
