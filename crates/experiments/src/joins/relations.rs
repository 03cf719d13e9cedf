//! Relations in the memory of the device, of another device, or of the host.
//!
//! A workload is generated in host memory, and copied to another memory before the time of a run starts.

use galatea_device::{Device, DeviceBuffer, DeviceSliceMut, HybridMemory, InOut, PageOrder, Result, Stream};
use galatea_kernels::{JoinRows, JoinTable};

use super::chunks::Chunks;
use super::gpu::{GpuJoin, Phase, Run};
use super::workload::{Shape, Workload};

/// The memory of relations, in the order of their distance from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The device's own memory.
    Device,
    /// The memory of another device.
    Peer,
    /// Host memory, which kernels read over the link.
    Host,
    /// The memory of another device, copied to the device by chunk during the join.
    PeerByChunk,
    /// Host memory, copied to the device by chunk during the join.
    HostByChunk,
}

impl Place {
    /// The places that kernels read.
    pub const READ: [Self; 3] = [Self::Device, Self::Peer, Self::Host];
    /// All places.
    pub const ALL: [Self; 5] = [
        Self::Device,
        Self::Peer,
        Self::Host,
        Self::PeerByChunk,
        Self::HostByChunk,
    ];

    /// Number of the place: the value of a parameter.
    #[must_use]
    pub fn number(self) -> f64 {
        match self {
            Self::Device => 0.0,
            Self::Peer | Self::PeerByChunk => 1.0,
            Self::Host | Self::HostByChunk => 2.0,
        }
    }

    /// Suffix of the names of algorithms with relations in this memory.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Device => " (columns on the device)",
            Self::Peer => " (columns on the other device)",
            Self::Host => "",
            Self::PeerByChunk => " (columns copied by chunk from the other device)",
            Self::HostByChunk => " (columns copied by chunk)",
        }
    }
}

/// Bytes that are copied to another device at once.
const STAGE: usize = 64 << 20;
/// Columns begin at multiples of this number of bytes.
const ALIGNMENT: usize = 4096;

#[derive(Debug)]
enum Memory {
    Host,
    Device(DeviceBuffer<u8>),
    /// The memory of another device, and a buffer for parts on their way there.
    Peer(HybridMemory, DeviceBuffer<u8>),
}

/// Both relations of a workload in one memory.
#[derive(Debug)]
pub struct Relations {
    place: Place,
    memory: Memory,
    /// Memory for chunks, if kernels do not read the relations where they are.
    chunks: Option<Chunks>,
    /// Offsets of the four columns.
    offsets: [usize; 4],
}

impl Relations {
    /// Allocates memory for relations of a shape. `None` if the place is the memory of another device, and
    /// this one cannot access it.
    ///
    /// # Errors
    /// The device's.
    pub fn new(
        (device, peer): (&Device, Option<&Device>),
        stream: &Stream,
        shape: &Shape,
        place: Place,
    ) -> Result<Option<Self>> {
        let column = |rows: u64| {
            let bytes = rows.max(1) * u64::from(shape.word_bytes);
            usize::try_from(bytes)
                .unwrap_or(usize::MAX)
                .next_multiple_of(ALIGNMENT)
        };
        let (build, probe) = (column(shape.build_rows()), column(shape.probe_rows));
        let offsets = [0, build, 2 * build, 2 * build + probe];
        let bytes = 2 * (build + probe);
        let buffer =
            |bytes| Ok::<_, galatea_device::DeviceError>(device.alloc::<u8>(stream, bytes)?.assume_written());
        let memory = match place {
            Place::Host | Place::HostByChunk => Memory::Host,
            Place::Device => Memory::Device(buffer(bytes)?),
            Place::Peer | Place::PeerByChunk => {
                let Some(peer) = peer else {
                    return Ok(None);
                };
                let memory = device.hybrid_on_peer(peer, bytes as u64, 0, PageOrder::DeviceFirst)?;
                let Some(memory) = memory else {
                    return Ok(None);
                };
                memory.used_by(stream)?;
                Memory::Peer(memory, buffer(bytes.min(STAGE))?)
            }
        };
        let chunks = match place {
            Place::PeerByChunk | Place::HostByChunk => Some(Chunks::new(device, shape)?),
            _ => None,
        };
        Ok(Some(Self {
            place,
            memory,
            chunks,
            offsets,
        }))
    }

    /// Relations in host memory, where the workload is.
    pub(super) fn in_host_memory() -> Self {
        Self {
            place: Place::Host,
            memory: Memory::Host,
            chunks: None,
            offsets: [0; 4],
        }
    }

    /// The place of the relations.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Copies a workload that is at most as large as the shape, and waits. Nothing is copied in host memory.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for a larger workload; the device's.
    pub fn fill(&mut self, stream: &Stream, workload: &Workload) -> Result<()> {
        for (offset, column) in self.offsets.into_iter().zip(workload.columns()) {
            match &mut self.memory {
                Memory::Host => {}
                Memory::Device(buffer) => {
                    stream.copy_from_slice(buffer.slice_mut(offset..offset + column.len())?, column)?;
                }
                Memory::Peer(memory, stage) => {
                    for (number, part) in column.chunks(stage.len()).enumerate() {
                        stream.copy_from_slice(stage.slice_mut(..part.len())?, part)?;
                        let at = offset + number * stage.len();
                        stream.copy_to_hybrid(memory, at, stage.slice(..part.len())?)?;
                    }
                }
            }
        }
        stream.synchronize()
    }

    /// Joins the workload that was copied last. The table is cleared before the time starts.
    ///
    /// # Errors
    /// The device's.
    pub fn join(&mut self, join: &mut GpuJoin, workload: &Workload, table: &JoinTable) -> Result<Run> {
        let [build, probe] = self.rows(workload);
        let (memory, offsets) = (&self.memory, &self.offsets);
        let Some(chunks) = &mut self.chunks else {
            return join.run(build, probe, table);
        };
        // The copy of a part of a column of R (0) or S (1).
        let copy = |relation: usize| {
            move |stream: &Stream, target: DeviceSliceMut<'_, u8>, column: usize, first: usize| match memory {
                Memory::Peer(memory, _) => {
                    stream.copy_from_hybrid(target, memory, offsets[2 * relation + column] + first)
                }
                _ => {
                    let bytes = first..first + target.len();
                    stream.copy_to_device(target, &workload.view(relation, column, bytes)?)
                }
            }
        };
        let run = join.phases(table, |join, phase| match phase {
            Phase::Build => chunks.each(&join.stream, build.rows, copy(0), |rows| {
                join.build.launch(&join.stream, rows, table)
            }),
            Phase::Probe => chunks.each(&join.stream, probe.rows, copy(1), |rows| {
                let sum = InOut(&mut join.sum);
                join.probe.launch(&join.stream, rows, table, sum)
            }),
        })?;
        chunks.finish()?;
        Ok(run)
    }

    /// R and S of the workload that was copied last.
    fn rows(&self, workload: &Workload) -> [JoinRows; 2] {
        let first = match &self.memory {
            Memory::Host => return [workload.build_in_place(), workload.probe_in_place()],
            Memory::Device(buffer) => buffer.address(),
            Memory::Peer(memory, _) => memory.address(),
        };
        let [a, b, c, d] = self.offsets.map(|offset| first + offset as u64);
        let rows = [workload.build_in_place().rows, workload.probe_in_place().rows];
        [(a, b, rows[0]), (c, d, rows[1])].map(|(keys, payloads, rows)| JoinRows { keys, payloads, rows })
    }
}
