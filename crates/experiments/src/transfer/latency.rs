//! The time of a load that depends on the previous one: along a chain through memory.

use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, HostMemory, Stream};
use galatea_kernels::flow::mix64;
use galatea_kernels::{Chain, LinkChase};
use galatea_memory::transfer::{Access, Method, Result, Transfer, TransferOptions, open};

use super::measure::{Rate, Source, seed_of};

/// Distance between neighbouring places of a chain in bytes, so that each load reads a cache line of its own.
const LINE_BYTES: usize = 128;

/// Nanoseconds of a load that depends on the previous one. One thread follows a chain through `bytes` bytes
/// with places 128 bytes apart, in random order, for `steps` steps. For pull methods, for memory of the
/// device, and for a thread of the CPU in its own memory.
///
/// Each run has another chain, and begins on the host if pages migrate. No place is visited twice unless the
/// places are fewer than the steps. No load thus finds data that another one has transferred.
///
/// # Errors
/// The errors of [`super::rates`].
///
/// # Panics
/// If the chain ended at a wrong place.
pub fn latency(device: &Device, source: Source, bytes: usize, steps: u64, runs: usize) -> Result<Rate> {
    let stride = LINE_BYTES / 4;
    let places = bytes / LINE_BYTES;
    let mut memory = match source {
        Source::Way(method) => Memory::pulled(device, method, bytes)?,
        Source::DeviceMemory => Memory::of_device(device, bytes)?,
        Source::Cpu => Memory::Own(HostMemory::new(bytes)?),
        // Not measured.
        Source::Peer(_) => {
            return Ok(Rate {
                source,
                access: Access::Read,
                piece: 128,
                random: true,
                values: Vec::new(),
            });
        }
    };
    let stream = device.stream()?;
    let kernel = LinkChase::new(device)?;
    let mut out = device.zeroed::<u64>(&stream, 2)?;
    let mut values = Vec::new();
    for run in 0..=runs {
        let next = cycle(places, seed_of(run));
        let expected = follow(&next, steps);
        let write = |memory: &mut [u32]| {
            for (line, next) in memory.chunks_exact_mut(stride).zip(&next) {
                line[0] = *next;
            }
        };
        let (last, nanoseconds) = match &mut memory {
            Memory::Own(memory) => {
                let memory: &mut [u32] = bytemuck::cast_slice_mut(memory.as_mut_slice());
                write(memory);
                let start = Instant::now();
                let place = (0..steps).fold(0, |place, _| memory[place as usize * stride]);
                let last = std::hint::black_box(place);
                (u64::from(last), start.elapsed().as_secs_f64() * 1e9)
            }
            memory => {
                let address = match memory {
                    Memory::Device(buffer) => {
                        let mut words = vec![0_u32; buffer.len()];
                        write(&mut words);
                        stream.copy_from_slice(&mut *buffer, &words)?;
                        buffer.address()
                    }
                    Memory::Pulled(transfer) => {
                        // The host writes again, so pages that migrate are back where they began.
                        write(bytemuck::cast_slice_mut(transfer.host()?));
                        transfer.bring(&stream, 0..bytes)?
                    }
                    Memory::Own(_) => 0,
                };
                stream.synchronize()?;
                let chain = Chain {
                    address,
                    stride: stride as u64,
                    warm_steps: 0,
                    steps,
                };
                kernel.launch(&stream, chain, &mut out)?;
                let found = stream.read(&out, ..)?;
                (found[0], found[1] as f64)
            }
        };
        assert_eq!(last, u64::from(expected), "{source}: the end of the chain");
        if run > 0 {
            values.push(nanoseconds / steps as f64);
        }
    }
    Ok(Rate {
        source,
        access: Access::Read,
        piece: LINE_BYTES as u64,
        random: true,
        values,
    })
}

/// A chain through a large memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes from the start of its first place to the end of its last.
    pub extent: usize,
    /// Distance between neighbouring places in memory, in bytes.
    pub stride: usize,
}

/// Nanoseconds of a load along chains through memory, of the device or with a pull method, to measure the
/// reach of the TLB: after figure 4.6 of the thesis. The memory has the size of the largest extent and is
/// allocated once. Only the words of the chains are written to it.
///
/// Places are visited in random order, which differs in each run. The kernel follows the chain one and a half
/// times before it reads the clock, and at least 4,096 steps after that.
///
/// # Errors
/// The errors of [`super::rates`].
///
/// # Panics
/// If the chain ended at a wrong place, or has no places: its extent must be at least its stride.
pub(super) fn by_extent(
    device: &Device,
    source: Source,
    chains: &[Reach],
    runs: usize,
    out: &mut dyn FnMut(Reach, Rate),
) -> Result<()> {
    const LEAST_STEPS: usize = 4096;
    let Some(bytes) = chains.iter().map(|chain| chain.extent).max() else {
        return Ok(());
    };
    let mut memory = match source {
        Source::Way(method) => Memory::pulled(device, method, bytes)?,
        Source::DeviceMemory => Memory::of_device(device, bytes)?,
        // The CPU has another TLB, and other devices are not measured.
        Source::Cpu | Source::Peer(_) => return Ok(()),
    };
    let stream = device.stream()?;
    let kernel = LinkChase::new(device)?;
    let mut result = device.zeroed::<u64>(&stream, 2)?;
    for chain in chains {
        let places = chain.extent / chain.stride;
        let warm_steps = (places + places / 2) as u64;
        // Whole rounds end where they began, and so would a memory of zeros, so the steps are not whole
        // rounds.
        let steps = (LEAST_STEPS.next_multiple_of(places) + places / 4) as u64;
        let mut values = Vec::new();
        for run in 0..=runs {
            let next = cycle(places, seed_of(run));
            let expected = follow(&next, warm_steps + steps);
            let words = next
                .iter()
                .enumerate()
                .map(|(place, next)| (place * chain.stride / 4, *next));
            let address = memory.write(&stream, words)?;
            stream.synchronize()?;
            let launched = Chain {
                address,
                stride: chain.stride as u64 / 4,
                warm_steps,
                steps,
            };
            kernel.launch(&stream, launched, &mut result)?;
            let found = stream.read(&result, ..)?;
            assert_eq!(
                found[0],
                u64::from(expected),
                "{source}, {chain:?}: the end of the chain"
            );
            if run > 0 {
                values.push(found[1] as f64 / steps as f64);
            }
        }
        let rate = Rate {
            source,
            access: Access::Read,
            piece: 4,
            random: true,
            values,
        };
        out(*chain, rate);
    }
    Ok(())
}

/// The memory of a chain.
enum Memory {
    /// Memory of the device.
    Device(DeviceBuffer<u32>),
    /// Host memory that kernels access.
    Pulled(Box<dyn Transfer>),
    /// Host memory that only the CPU accesses.
    Own(HostMemory),
}

impl Memory {
    fn of_device(device: &Device, bytes: usize) -> Result<Self> {
        let buffer = device.alloc::<u32>(&device.stream()?, bytes / 4)?;
        Ok(Self::Device(buffer.assume_written()))
    }

    fn pulled(device: &Device, method: Method, bytes: usize) -> Result<Self> {
        let options = TransferOptions {
            chunk_bytes: bytes,
            ..TransferOptions::default()
        };
        Ok(Self::Pulled(open(device, method, bytes, &options)?))
    }

    /// Writes words, by their indices. Returns the address of the memory for kernels that are queued on
    /// `stream` from now on.
    fn write(&mut self, stream: &Stream, words: impl Iterator<Item = (usize, u32)>) -> Result<u64> {
        match self {
            Self::Device(buffer) => {
                for (word, value) in words {
                    stream.copy_from_slice(buffer.slice_mut(word..=word)?, &[value])?;
                }
                Ok(buffer.address())
            }
            Self::Pulled(transfer) => {
                let memory: &mut [u32] = bytemuck::cast_slice_mut(transfer.host()?);
                for (word, value) in words {
                    memory[word] = value;
                }
                let bytes = 4 * memory.len();
                transfer.bring(stream, 0..bytes)
            }
            Self::Own(_) => Ok(0),
        }
    }
}

/// A random cycle through places: for each, the next place (Sattolo's shuffle).
fn cycle(places: usize, seed: u64) -> Vec<u32> {
    let mut next: Vec<u32> = (0..places as u32).collect();
    for place in (1..places).rev() {
        let random = mix64((seed << 40) ^ place as u64);
        next.swap(place, (random % place as u64) as usize);
    }
    next
}

/// The place after `steps` steps from place 0.
fn follow(next: &[u32], steps: u64) -> u32 {
    (0..steps).fold(0, |place, _| next[place as usize])
}
