//! Topologies: operators on CPU and GPU that live as long as a stream and exchange frames through shared
//! topics.
//!
//! The usual way to use a GPU within a stream copies each batch to it, launches a kernel, and copies the
//! result back. For small batches, these three calls cost more than their work. This crate follows Z. Li, B.
//! Peng, C. Weng, *XeFlow: Streamlining Inter-Processor Pipeline Execution for the Discrete CPU-GPU Platform*
//! (IEEE TC 2020), and needs no call per batch. One kernel runs from the start of the stream to its end. It
//! polls topics in host memory for the frames that CPU threads publish, reads them in place, and publishes
//! its own. [`Topic`] describes where small frames are stored, and [`paging`] describes the layout of frames
//! that are read only in part.
//!
//! ```text
//!   Topology ── topics, operators, links: ⟨previous topic, operator, next topic⟩
//!     │ run
//!     ├ generate   the operators' bodies around cuda/galatea/flow/run.cuh: one kernel for all of them
//!     ├ run/memory topics, heaps, the catalogue ── the layout of their words: galatea_kernels::flow
//!     ├ run/host   operators on CPU threads
//!     ├ run/supply buffers for exhausted heaps
//!     ├ run/partition number of warps of each operator
//!     └ run        watches for operators that hang or fail
//! ```
//!
//! A pipeline that doubles numbers on the device:
//!
//! ```
//! use galatea_device::{Device, DeviceOptions, EmulatorOptions};
//! use galatea_flow::{Cpu, CpuWork, FlowOptions, Map, Step, Topic, Topology};
//! use std::sync::{Arc, Mutex};
//!
//! # let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).unwrap();
//! let mut topology = Topology::new();
//! let numbers = topology.topic(Topic::new("numbers").frame_bytes(4096).depth(16));
//! let doubled = topology.topic(Topic::new("doubled").frame_bytes(4096).depth(16));
//! let sum = Arc::new(Mutex::new(0_u64));
//!
//! let source = Cpu::new("source", 1, |_| {
//!     let mut frames = 0;
//!     move |work: &mut CpuWork<'_>| {
//!         work.output::<u32>().fill(frames);
//!         frames += 1;
//!         Ok(if frames < 20 { Step::Next } else { Step::Last })
//!     }
//! });
//! let sink = {
//!     let sum = Arc::clone(&sum);
//!     Cpu::new("sink", 1, move |_| {
//!         let sum = Arc::clone(&sum);
//!         move |work: &mut CpuWork<'_>| {
//!             let values = work.input::<u32>().iter().map(|value| u64::from(*value));
//!             *sum.lock().unwrap() += values.sum::<u64>();
//!             Ok(Step::Next)
//!         }
//!     })
//! };
//! topology
//!     .link(None, source, Some(numbers))
//!     .link(Some(numbers), Map::new("double", "u32", "u32", "value * 2u"), Some(doubled))
//!     .link(Some(doubled), sink, None);
//! let outcome = topology.run(&device, &FlowOptions { blocks: Some(2), ..FlowOptions::default() }).unwrap();
//! assert_eq!(*sum.lock().unwrap(), 1024 * 2 * (0..20).sum::<u64>());
//! assert_eq!((outcome.launches, outcome.copied), (1, 0));
//! ```
//!
//! # Differences from the paper
//! * A poll for an offset that is not published returns at once and is repeated later. So an operator that
//!   waits does not keep its block from running another operator. Otherwise two operators on the device, with
//!   a topic between them, could wait for each other forever.
//! * Virtual threads of an operator are numbered from 0 within its warps. The paper's formula numbers them
//!   within the block: an operator on warps 24 to 31 begins at item 768, and no warp computes items 0 to 767.
//! * The CPU and the device never update the same word atomically over PCIe. The device writes frames for the
//!   CPU over the link to host memory, because the CPU cannot map device memory.
//! * Blocks publish their outputs in any order, and each frame contains its position in the order of the
//!   source. Inline frames ([`Topic::inline`]) are published in the order of their inputs.
//! * Errors and timeouts end a topology; the paper has neither.
#![forbid(unsafe_code)]

mod error;
mod generate;
mod operator;
mod options;
mod outcome;
pub mod paging;
mod run;
mod topology;
pub mod tuner;

pub use error::{FlowError, Result};
pub use operator::{CpuOperator, CpuWork, GpuOperator, Map, OperatorError, Step};
pub use options::{Assignment, CataloguePolicy, FlowOptions, IndexPolicy, Retune};
pub use outcome::{Outcome, Steps};
pub use topology::{Cpu, MOST_INLINE_BYTES, Operator, PAGE, Topic, TopicId, Topology};
