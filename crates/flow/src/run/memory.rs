//! The memory of a run: topics, heaps, and the kernel's arguments.

use std::sync::Arc;

use galatea_device::{Device, DeviceBuffer, SharedMemory, Stream};
use galatea_kernels::FlowArguments;
use galatea_kernels::flow::{
    ABSENT, CONTROL_LINE, FlowCursor, FlowHeap, FlowOperator, FlowOutbox, FlowTopic, FrameMemory,
    GENERATIONS, HostHeap, HostPublisher, HostSubscriber, MOST_NOTES, MOST_OPERATORS, NOTE_WORDS, OPEN,
    TIMES_OF_BLOCK, TopicWords, Words,
};

use super::blocks::{BlockHeap, Catalogue, within_reach};
use super::partition::first_partition;
use crate::error::{FlowError, Result};
use crate::options::{Assignment, FlowOptions, IndexPolicy};
use crate::topology::{Operator, Topology};

/// The inputs of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) topology: &'a Topology,
    pub(super) device: &'a Device,
    pub(super) options: &'a FlowOptions,
    /// Blocks of the kernel; 0 without one.
    pub(super) blocks: u32,
}

/// Frames in host memory that blocks of the kernel publish: one entry for each frame size.
pub(super) type BlockFrames = Vec<Arc<FrameMemory>>;

/// A topic's memory, as the host uses it.
#[derive(Debug)]
pub(super) struct TopicMemory {
    /// The index of the topic, if the host publishes or reads the topic.
    pub(super) words: Option<Arc<TopicWords>>,
    /// The host's publisher, if the host publishes the topic.
    pub(super) publisher: Option<Arc<HostPublisher>>,
    /// The frames of the topic, if the host reads or writes them. Inline frames are in `words`.
    pub(super) frames: Option<Arc<FrameMemory>>,
}

/// The host's part of a run.
#[derive(Debug)]
pub(super) struct HostMemory {
    pub(super) topics: Vec<TopicMemory>,
    /// Subscription of each link; none for links without a previous topic or with an operator on the device.
    pub(super) subscribers: Vec<Option<Arc<HostSubscriber>>>,
    /// Heap of the host for each frame size.
    pub(super) heaps: Vec<Arc<HostHeap>>,
    /// Spare buffers.
    pub(super) spares: Vec<Arc<SharedMemory>>,
    pub(super) control: Words,
}

/// The device's part of a run.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    pub(super) arguments: FlowArguments,
    pub(super) heaps: Vec<BlockHeap>,
    /// Warps of each operator at the start.
    pub(super) partition: Vec<u32>,
    /// For each cursor in `cursors`, the number of its topic and the number of the topic's heap. Inline
    /// topics have no heap.
    published: Vec<(usize, Option<usize>)>,
    cursors: DeviceBuffer<FlowCursor>,
    _outbox: (DeviceBuffer<FlowOutbox>, DeviceBuffer<u64>),
    pub(super) times: Option<DeviceBuffer<u64>>,
    _held: Vec<DeviceBuffer<u32>>,
    _words: Vec<DeviceBuffer<u64>>,
    _state: DeviceBuffer<u64>,
    _parameters: Vec<DeviceBuffer<u64>>,
    _catalogue: Vec<DeviceBuffer<u64>>,
    _remote: Option<Words>,
}

/// The division of a heap of `frames` frames into buffers.
struct Division {
    buffers: usize,
    frames_per_buffer: usize,
    /// Minimum number of buffers, which the heap always has.
    least: usize,
    /// Initial number of buffers.
    initial: usize,
}

impl Division {
    /// Threads and blocks take a frame before they have anything to write, and keep it while they wait. The
    /// heap therefore always has at least `takers` frames, one for each of them. If one of them finds no free
    /// frame, at least one frame is published, and will be released once it is read.
    fn new(frames: usize, takers: usize, options: &FlowOptions) -> Self {
        let buffers = options.heap_buffers.clamp(1, frames);
        let frames_per_buffer = frames.div_ceil(buffers);
        let least = takers.div_ceil(frames_per_buffer).clamp(1, buffers);
        Self {
            buffers,
            frames_per_buffer,
            least,
            initial: options.initial_buffers.unwrap_or(buffers).clamp(least, buffers),
        }
    }
}

/// A buffer of frames in host memory.
fn buffer_of(device: &Device, bytes: usize) -> Result<Arc<SharedMemory>> {
    let buffer = SharedMemory::new(device, bytes)?;
    within_reach(buffer.address(), bytes)?;
    Ok(Arc::new(buffer))
}

fn grant(device: &Device, memory: &FrameMemory) -> Result<()> {
    let buffer = buffer_of(device, memory.buffer_bytes())?;
    let granted = memory.grant(buffer);
    debug_assert!(granted.is_ok(), "a heap has room for its own buffers");
    Ok(())
}

fn is_cpu(operator: &Operator) -> bool {
    matches!(operator, Operator::Cpu(_))
}

impl HostMemory {
    /// Allocates the host's part, and the frames in host memory that blocks of the kernel publish, because
    /// the host reads them.
    pub(super) fn new(parts: Parts<'_>) -> Result<(Self, BlockFrames)> {
        let Parts {
            topology,
            device,
            options,
            blocks,
        } = parts;
        let mut heaps: Vec<Arc<HostHeap>> = Vec::new();
        let mut block_frames = BlockFrames::new();
        let mut topics = Vec::new();
        for (number, topic) in topology.topics.iter().enumerate() {
            let publisher = &topology.publisher(number).operator;
            let hosted = is_cpu(publisher)
                || topology
                    .subscribers(number)
                    .any(|(_, link)| is_cpu(&link.operator));
            if !hosted {
                topics.push(TopicMemory {
                    words: None,
                    publisher: None,
                    frames: None,
                });
                continue;
            }
            let words = Arc::new(TopicWords::new(device, topology.shape(number))?);
            let same = |frames: &FrameMemory| frames.frame_bytes() == topic.frame_bytes;
            let (publisher, frames) = match publisher {
                Operator::Cpu(cpu) if topic.inline => {
                    let publisher = HostPublisher::new(Arc::clone(&words), None, cpu.threads as u32);
                    (Some(Arc::new(publisher)), None)
                }
                Operator::Gpu(_) if topic.inline => (None, None),
                Operator::Cpu(cpu) => {
                    let heap = match heaps.iter().find(|heap| same(heap.memory())) {
                        Some(heap) => Arc::clone(heap),
                        None => {
                            let memory = frames_of(parts, topic.frame_bytes, true)?;
                            let heap = Arc::new(HostHeap::new(Arc::new(memory)));
                            heaps.push(Arc::clone(&heap));
                            heap
                        }
                    };
                    let frames = Arc::clone(heap.memory());
                    let publisher = HostPublisher::new(Arc::clone(&words), Some(heap), cpu.threads as u32);
                    (Some(Arc::new(publisher)), Some(frames))
                }
                Operator::Gpu(_) => {
                    let frames = match block_frames.iter().find(|frames| same(frames)) {
                        Some(frames) => Arc::clone(frames),
                        None => {
                            let memory = Arc::new(frames_of(parts, topic.frame_bytes, false)?);
                            block_frames.push(Arc::clone(&memory));
                            memory
                        }
                    };
                    (None, Some(frames))
                }
            };
            topics.push(TopicMemory {
                words: Some(words),
                publisher,
                frames,
            });
        }
        let subscribers = topology.links.iter().map(|link| {
            let topic = &topics[link.previous?];
            let words = topic.words.as_ref()?;
            is_cpu(&link.operator)
                .then(|| Arc::new(HostSubscriber::new(Arc::clone(words), topic.frames.clone())))
        });
        let subscribers = subscribers.collect();
        let sizes = heaps.iter().map(|heap| heap.memory().buffer_bytes());
        let mut sizes: Vec<usize> = sizes
            .chain(block_frames.iter().map(|frames| frames.buffer_bytes()))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut spares = Vec::new();
        for bytes in sizes {
            for _ in 0..options.spare_buffers {
                spares.push(buffer_of(device, bytes)?);
            }
        }
        let control = Words::new(device, control_words(blocks))?;
        let host = Self {
            topics,
            subscribers,
            heaps,
            spares,
            control,
        };
        Ok((host, block_frames))
    }

    /// Number of leaked frames of the host's heaps: the difference between the frames in use and those that
    /// topics have published and not reclaimed.
    pub(super) fn leaked(&self) -> u64 {
        let in_use: usize = self.heaps.iter().map(|heap| heap.in_use()).sum();
        let publishers = self.topics.iter().filter_map(|topic| topic.publisher.as_ref());
        let publishers = publishers.filter(|publisher| publisher.heap().is_some());
        let outstanding: u64 = publishers.map(|publisher| publisher.outstanding()).sum();
        (in_use as u64).abs_diff(outstanding)
    }
}

/// Number of control words: a line for the host, a line for each block, then two words for each operator (its
/// clocks and bytes).
fn control_words(blocks: u32) -> usize {
    times_at(blocks) + 2 * MOST_OPERATORS
}

/// Index of the first operator's clocks among the control words.
pub(super) fn times_at(blocks: u32) -> usize {
    (blocks as usize + 1) * CONTROL_LINE
}

/// Host memory for frames of `frame_bytes` bytes. It serves the topics with this frame size that the host
/// publishes if `host_publishes` is set, else those that the device publishes and the host reads.
fn frames_of(parts: Parts<'_>, frame_bytes: usize, host_publishes: bool) -> Result<FrameMemory> {
    let Parts {
        topology,
        device,
        options,
        blocks,
    } = parts;
    let of_heap = topology.topics.iter().enumerate().filter(|(number, topic)| {
        let publisher = is_cpu(&topology.publisher(*number).operator);
        let read = topology
            .subscribers(*number)
            .any(|(_, link)| is_cpu(&link.operator));
        !topic.inline
            && topic.frame_bytes == frame_bytes
            && publisher == host_publishes
            && (publisher || read)
    });
    let (mut frames, mut takers) = (0, 0);
    for (number, topic) in of_heap {
        frames += topic.depth as usize;
        takers += match &topology.publisher(number).operator {
            Operator::Cpu(cpu) => cpu.threads,
            Operator::Gpu(_) => blocks as usize,
        };
    }
    let division = Division::new(frames, takers, options);
    let Division {
        buffers,
        frames_per_buffer,
        least,
        ..
    } = division;
    let memory = FrameMemory::new(frame_bytes, frames_per_buffer, least, buffers);
    for _ in 0..division.initial {
        grant(device, &memory)?;
    }
    Ok(memory)
}

impl DeviceMemory {
    /// Allocates the device's part.
    pub(super) fn new(
        parts: Parts<'_>,
        stream: &Stream,
        host: &HostMemory,
        block_frames: BlockFrames,
        bodies: &[u32],
    ) -> Result<Self> {
        let Parts {
            topology,
            device,
            options,
            blocks,
        } = parts;
        let partition = first_partition(topology, options)?;
        let mut heaps = Vec::new();
        for memory in block_frames {
            let frame_bytes = memory.frame_bytes();
            heaps.push(BlockHeap::new(device, stream, frame_bytes, Some(memory), 0)?);
        }
        let (mut topics, mut words, mut held, mut published) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, topic) in topology.topics.iter().enumerate() {
            let mut described: FlowTopic = bytemuck::Zeroable::zeroed();
            described.frame_bytes = topic.frame_bytes as u32;
            described.heap = ABSENT;
            match &host.topics[number].words {
                Some(of_host) => of_host.describe(&mut described),
                None => {
                    let shape = topology.shape(number);
                    let mut values = vec![0_u64; shape.words()];
                    values[shape.end()] = OPEN;
                    let buffer = device.upload(stream, &values)?;
                    shape.describe(buffer.address(), &mut described);
                    words.push(buffer);
                }
            }
            if !is_cpu(&topology.publisher(number).operator) {
                let system = host.topics[number].words.is_some();
                described.system = u32::from(system);
                let same = |heap: &BlockHeap| heap.frame_bytes == topic.frame_bytes && heap.system == system;
                let heap = match heaps.iter().position(same) {
                    _ if topic.inline => None,
                    None => {
                        let frames = device_frames(topology, host, topic.frame_bytes);
                        heaps.push(BlockHeap::new(device, stream, topic.frame_bytes, None, frames)?);
                        Some(heaps.len() - 1)
                    }
                    found => found,
                };
                described.heap = heap.map_or(ABSENT, |heap| heap as u32);
                let numbers = device.zeroed::<u32>(stream, topic.depth as usize)?;
                described.held = numbers.address();
                held.push(numbers);
                published.push((number, heap));
            }
            let hosted = is_cpu(&topology.publisher(number).operator) && !topic.inline;
            if hosted && options.index == IndexPolicy::CopyOnRead {
                let replica = device.zeroed::<u64>(stream, topic.depth as usize)?;
                described.replica = replica.address();
                words.push(replica);
            }
            topics.push(described);
            let ahead = u64::from(blocks);
            let limit = (GENERATIONS - 1) * u64::from(topic.depth);
            if ahead > limit {
                return Err(FlowError::TooMany {
                    what: "blocks for the depth of a topic",
                    asked: ahead,
                    limit,
                    hint: "raise Topic::depth or lower FlowOptions::blocks",
                });
            }
        }
        let cursors = device.zeroed::<FlowCursor>(stream, published.len().max(1))?;
        for (cursor, (topic, _)) in published.iter().enumerate() {
            topics[*topic].cursor = cursors.address() + (cursor * size_of::<FlowCursor>()) as u64;
        }

        let links: Vec<_> = topology.device_links().collect();
        // A line of words for each operator: ticket, remaining blocks.
        let mut state = vec![0_u64; links.len() * 8];
        for line in state.chunks_exact_mut(8) {
            line[1] = u64::from(blocks);
        }
        let state = device.upload(stream, &state)?;
        let mut seen = vec![0_u32; topology.topics.len()];
        let (mut operators, mut parameters) = (Vec::new(), Vec::new());
        for (number, link) in links.iter().enumerate() {
            let Operator::Gpu(operator) = &link.operator else {
                continue;
            };
            let previous = link.previous.expect("checked: no sources on the device");
            let subscriber = match &host.topics[previous].words {
                Some(words) => words.subscribe().expect("checked: as many as there are links"),
                None => {
                    seen[previous] += 1;
                    seen[previous] - 1
                }
            };
            let own = device.upload(stream, &operator.parameters())?;
            let line = state.address() + number as u64 * 64;
            operators.push(FlowOperator {
                ticket: line,
                remaining: line + 8,
                parameters: own.address(),
                previous: previous as u32,
                next: link.next.map_or(ABSENT, |topic| topic as u32),
                subscriber,
                body: bodies[number],
                warps: partition[number],
                unused: 0,
            });
            parameters.push(own);
        }
        let described: Vec<FlowHeap> = heaps.iter().map(BlockHeap::describe).collect();
        let times = match options.count_steps || options.retune.is_some() {
            true => Some(device.zeroed::<u64>(stream, blocks as usize * TIMES_OF_BLOCK)?),
            false => None,
        };
        // More entries than undelivered notes of all operators of all blocks, and at least the number of
        // entries that a warp reads at once.
        let entries = (2 * MOST_NOTES as usize * blocks as usize * operators.len())
            .next_power_of_two()
            .max(32);
        let mut outbox: FlowOutbox = bytemuck::Zeroable::zeroed();
        outbox.mask = entries as u32 - 1;
        let outbox = device.upload(stream, &[outbox])?;
        let notes = device.zeroed::<u64>(stream, entries * NOTE_WORDS)?;
        let mut catalogue = Catalogue::default();
        let parts = [
            catalogue.add(&topics),
            catalogue.add(&operators),
            catalogue.add(&described),
        ];
        let (base, buffers, remote) = catalogue.place(device, stream, options.catalogue)?;
        let arguments = FlowArguments {
            topics: base + parts[0],
            operators: base + parts[1],
            heaps: base + parts[2],
            control: host.control.address(0),
            outbox: outbox.address(),
            notes: notes.address(),
            times: times.as_ref().map_or(0, DeviceBuffer::address),
            patience: u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX),
            topic_count: topics.len() as u32,
            operator_count: operators.len() as u32,
            heap_count: described.len() as u32,
            ready_only: u32::from(options.assignment == Assignment::Ready),
            notes_in_flight: options.notes_in_flight.clamp(1, MOST_NOTES),
            unused: 0,
        };
        Ok(Self {
            arguments,
            heaps,
            partition,
            published,
            cursors,
            _outbox: (outbox, notes),
            times,
            _held: held,
            _words: words,
            _state: state,
            _parameters: parameters,
            _catalogue: buffers,
            _remote: remote,
        })
    }

    /// Number of frames published in each topic of the device, and number of leaked frames, including frames
    /// that were released twice. Valid after the kernel has ended.
    pub(super) fn accounts(&self, stream: &Stream) -> Result<(Vec<(usize, u64)>, u64)> {
        let cursors = stream.read(&self.cursors, ..)?;
        let published = self.published.iter().zip(&cursors);
        let tails = published
            .map(|((topic, _), cursor)| (*topic, cursor.tail))
            .collect();
        let mut leaked = 0;
        for (number, heap) in self.heaps.iter().enumerate() {
            let (in_use, twice) = heap.counts(stream)?;
            let own = self
                .published
                .iter()
                .zip(&cursors)
                .filter(|((_, heap), _)| *heap == Some(number));
            let outstanding: u64 = own.map(|(_, cursor)| cursor.tail - cursor.reclaimed).sum();
            leaked += in_use.abs_diff(outstanding) + twice;
        }
        Ok((tails, leaked))
    }
}

/// Number of frames of `frame_bytes` bytes for topics between operators on the device.
fn device_frames(topology: &Topology, host: &HostMemory, frame_bytes: usize) -> usize {
    let own = topology.topics.iter().zip(&host.topics);
    own.filter(|(topic, memory)| !topic.inline && topic.frame_bytes == frame_bytes && memory.words.is_none())
        .map(|(topic, _)| topic.depth as usize)
        .sum()
}
