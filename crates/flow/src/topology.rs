//! A topology: topics, operators, and the links that connect them to pipelines.

use std::sync::Arc;

pub use galatea_kernels::flow::MOST_INLINE_BYTES;
use galatea_kernels::flow::{ABSENT, GENERATIONS, MOST_OPERATORS, MOST_TOPICS, TopicShape};

use crate::error::{FlowError, Result};
use crate::operator::{CpuOperator, GpuOperator};

/// Bytes of a page. Frames consist of whole pages.
pub const PAGE: usize = 4096;
/// Maximum bytes of a frame.
pub(crate) const MOST_FRAME_BYTES: usize = 16 << 20;
const MOST_DEPTH: u32 = 1 << 16;
const DEPTH_HINT: &str = "raise Topic::depth or lower the threads of the operator (Cpu::new)";

/// A topic of a topology, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicId(pub(crate) usize);

/// Properties of a topic.
#[derive(Debug, Clone)]
pub struct Topic {
    pub(crate) name: String,
    pub(crate) frame_bytes: usize,
    pub(crate) inline: bool,
    pub(crate) depth: u32,
}

impl Topic {
    /// A topic of frames of 64 KiB, 256 of them.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            frame_bytes: 64 << 10,
            inline: false,
            depth: 256,
        }
    }

    /// Sets the bytes of a frame: whole pages of 4 KiB, at most 16 MiB.
    #[must_use]
    pub fn frame_bytes(mut self, bytes: usize) -> Self {
        (self.frame_bytes, self.inline) = (bytes, false);
        self
    }

    /// Sets the maximum bytes of a frame, at most [`MOST_INLINE_BYTES`], and stores frames in the offset
    /// index itself. A reader finds the frame in the slot that it polls, and needs no fence. For streams that
    /// need low latency more than a high rate.
    #[must_use]
    pub fn inline(mut self, bytes: usize) -> Self {
        (self.frame_bytes, self.inline) = (bytes, true);
        self
    }

    /// Sets the maximum number of frames that are in use, or published but not yet read by all: a power of
    /// two. Publishers wait for subscribers when it is reached.
    #[must_use]
    pub fn depth(mut self, frames: u32) -> Self {
        self.depth = frames;
        self
    }
}

type Factory = Arc<dyn Fn(usize) -> Box<dyn CpuOperator> + Send + Sync>;

/// An operator with the side that it runs on.
#[derive(Clone)]
pub enum Operator {
    /// Runs on CPU threads.
    Cpu(Cpu),
    /// Runs on the device.
    Gpu(Arc<dyn GpuOperator>),
}

impl From<Cpu> for Operator {
    fn from(operator: Cpu) -> Self {
        Self::Cpu(operator)
    }
}

impl<G: GpuOperator + 'static> From<G> for Operator {
    fn from(operator: G) -> Self {
        Self::Gpu(Arc::new(operator))
    }
}

impl Operator {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Cpu(cpu) => cpu.name.clone(),
            Self::Gpu(gpu) => gpu.name().into_owned(),
        }
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name())
    }
}

/// An operator on CPU threads.
#[derive(Clone)]
pub struct Cpu {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) factory: Factory,
}

impl Cpu {
    /// An operator with `threads` threads, each with its own instance. `factory` gets the thread's number.
    pub fn new<O: CpuOperator + 'static>(
        name: impl Into<String>,
        threads: usize,
        factory: impl Fn(usize) -> O + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            threads,
            factory: Arc::new(move |thread| Box::new(factory(thread))),
        }
    }
}

impl std::fmt::Debug for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} threads", self.name, self.threads)
    }
}

/// A pipeline: an operator, the topic that it reads, and the topic that it publishes.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) previous: Option<usize>,
    pub(crate) operator: Operator,
    pub(crate) next: Option<usize>,
}

/// Topics, operators and links; see the crate's documentation for an example.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    pub(crate) topics: Vec<Topic>,
    pub(crate) links: Vec<Link>,
}

impl Topology {
    /// An empty topology.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a topic.
    pub fn topic(&mut self, topic: Topic) -> TopicId {
        self.topics.push(topic);
        TopicId(self.topics.len() - 1)
    }

    /// Links an operator between the topic that it reads (`None` for a source) and the one that it publishes
    /// (`None` for a sink).
    pub fn link(
        &mut self,
        previous: Option<TopicId>,
        operator: impl Into<Operator>,
        next: Option<TopicId>,
    ) -> &mut Self {
        self.links.push(Link {
            previous: previous.map(|topic| topic.0),
            operator: operator.into(),
            next: next.map(|topic| topic.0),
        });
        self
    }

    /// Links of operators on the device, in order.
    pub(crate) fn device_links(&self) -> impl Iterator<Item = &Link> {
        self.links
            .iter()
            .filter(|link| matches!(link.operator, Operator::Gpu(_)))
    }

    /// The link that publishes a topic.
    pub(crate) fn publisher(&self, topic: usize) -> &Link {
        let found = self.links.iter().find(|link| link.next == Some(topic));
        found.expect("a checked topology has a publisher for each topic")
    }

    /// The number of slots and subscribers of a topic, and the format of a slot.
    pub(crate) fn shape(&self, topic: usize) -> TopicShape {
        let subscribers = self.subscribers(topic).count() as u32;
        let Topic {
            depth,
            inline,
            frame_bytes,
            ..
        } = self.topics[topic];
        match inline {
            true => TopicShape::inline(depth, subscribers, frame_bytes),
            false => TopicShape::of_frames(depth, subscribers),
        }
    }

    /// Links that subscribe to a topic, in order.
    pub(crate) fn subscribers(&self, topic: usize) -> impl Iterator<Item = (usize, &Link)> {
        self.links
            .iter()
            .enumerate()
            .filter(move |(_, link)| link.previous == Some(topic))
    }

    /// Rejects topologies that are invalid or exceed a limit.
    pub(crate) fn check(&self) -> Result<()> {
        if self.links.is_empty() {
            return Err(FlowError::topology("it has no operators"));
        }
        for (number, topic) in self.topics.iter().enumerate() {
            let name = &topic.name;
            if topic.inline {
                within(
                    "bytes of an inline frame",
                    topic.frame_bytes,
                    MOST_INLINE_BYTES,
                    "give the topic whole pages (Topic::frame_bytes)",
                )?;
            } else if topic.frame_bytes == 0
                || topic.frame_bytes % PAGE != 0
                || topic.frame_bytes > MOST_FRAME_BYTES
            {
                return Err(FlowError::topology(format!(
                    "frames of topic {name} are {} bytes, not whole pages of {PAGE} up to {MOST_FRAME_BYTES}",
                    topic.frame_bytes
                )));
            }
            if !topic.depth.is_power_of_two() || topic.depth > MOST_DEPTH {
                return Err(FlowError::topology(format!(
                    "the depth of topic {name} is {}, not a power of two up to {MOST_DEPTH}",
                    topic.depth
                )));
            }
            let publishers = self.links.iter().filter(|link| link.next == Some(number)).count();
            if publishers != 1 {
                return Err(FlowError::topology(format!(
                    "topic {name} is published by {publishers} operators, not by one"
                )));
            }
            if self.subscribers(number).next().is_none() {
                return Err(FlowError::topology(format!("topic {name} has no subscriber")));
            }
        }
        for link in &self.links {
            let name = link.operator.name();
            let known = |topic: Option<usize>| topic.is_none_or(|topic| topic < self.topics.len());
            if !known(link.previous) || !known(link.next) {
                return Err(FlowError::topology(format!(
                    "operator {name} is linked to a topic of another topology"
                )));
            }
            match &link.operator {
                Operator::Gpu(_) if link.previous.is_none() => {
                    return Err(FlowError::topology(format!(
                        "operator {name} is a source on the device: sources run on the CPU"
                    )));
                }
                Operator::Cpu(cpu) if cpu.threads == 0 => {
                    return Err(FlowError::topology(format!("operator {name} has no threads")));
                }
                Operator::Cpu(cpu) => self.check_threads(link, cpu.threads)?,
                Operator::Gpu(_) => {}
            }
        }
        self.check_cycles()?;
        let operators = self.device_links().count();
        const HINT: &str = "split the topology in two";
        within("operators on the device", operators, MOST_OPERATORS, HINT)?;
        within(
            "topics",
            self.topics.len(),
            MOST_TOPICS.min(ABSENT as usize),
            HINT,
        )
    }

    /// Each thread that reads a topic waits for a frame of its own, so n threads wait for n successive
    /// frames. Before that, each takes a frame for its output. Too many threads for a shallow topic would
    /// take an old frame for theirs, or take all frames from the thread that needs one next.
    fn check_threads(&self, link: &Link, threads: usize) -> Result<()> {
        let Some(previous) = link.previous.map(|topic| &self.topics[topic]) else {
            return Ok(());
        };
        if !previous.inline {
            within(
                "threads for the depth of the topic that they read",
                threads,
                (GENERATIONS as usize - 1) * previous.depth as usize,
                DEPTH_HINT,
            )?;
        }
        let Some(next) = link.next.map(|topic| &self.topics[topic]) else {
            return Ok(());
        };
        within(
            "threads for the depth of the topic that they publish",
            threads,
            next.depth as usize,
            DEPTH_HINT,
        )
    }

    fn check_cycles(&self) -> Result<()> {
        // Walks back from each operator to a source. More steps than links mean a cycle.
        for link in &self.links {
            let mut previous = link.previous;
            for steps in 0.. {
                let Some(topic) = previous else { break };
                if steps > self.links.len() {
                    let name = link.operator.name();
                    return Err(FlowError::topology(format!("operator {name} is part of a cycle")));
                }
                previous = self.publisher(topic).previous;
            }
        }
        Ok(())
    }
}

fn within(what: &'static str, asked: usize, limit: usize, hint: &'static str) -> Result<()> {
    if asked <= limit {
        return Ok(());
    }
    Err(FlowError::TooMany {
        what,
        asked: asked as u64,
        limit: limit as u64,
        hint,
    })
}
