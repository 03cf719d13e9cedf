//! The persistent kernel of a topology: its arguments, and how it is compiled and launched.
//!
//! `galatea-flow` generates the operators' bodies; this type defines everything around them: the one entry
//! point `flow`, its by-value argument and the headers it may include. The memory at the addresses is
//! described in [`crate::flow`].

use galatea_device::{
    Compiled, Device, Function, Geometry, Program, Resources, Result, Stream, Tier, kernel_arguments,
};

use crate::headers;
use crate::heap::HEAP_CHECK;
use crate::kernel::kernel;

kernel_arguments! {
    /// The argument of the kernel; the header describes each field.
    pub struct FlowArguments in "galatea/args/flow.h" {
        /// Topics of the catalogue.
        pub topics: u64,
        /// Operators of the catalogue.
        pub operators: u64,
        /// Heaps of the catalogue.
        pub heaps: u64,
        /// Control words, in host memory.
        pub control: u64,
        /// Notes of blocks to the host.
        pub outbox: u64,
        /// Entries of the outbox.
        pub notes: u64,
        /// Clocks by step, or 0.
        pub times: u64,
        /// Nanoseconds without a heartbeat of the host after which a block gives up.
        pub patience: u64,
        /// Topics.
        pub topic_count: u32,
        /// Operators.
        pub operator_count: u32,
        /// Heaps.
        pub heap_count: u32,
        /// 1: warps serve operators that have a frame; 0: all unfinished operators.
        pub ready_only: u32,
        /// Notes that a station leaves before it waits for the delivery of the first; 1 to
        /// [`MOST_NOTES`](crate::flow::MOST_NOTES).
        pub notes_in_flight: u32,
        /// Unused.
        pub unused: u32,
    }
}

kernel!(Flow, "flow", FlowArguments);

/// A compiled topology.
#[derive(Debug, Clone)]
pub struct Flow {
    function: Function,
}

impl Flow {
    /// The program of a generated source.
    #[must_use]
    pub fn program(source: &str) -> Program {
        Program::new("flow", source)
            .headers(headers())
            .entry("flow")
            .tier(Tier::Optimised)
    }

    /// Compiles a generated source, or finds it compiled. On the emulated device frames that are released
    /// twice are counted.
    ///
    /// # Errors
    /// See [`Device::compile`].
    pub fn compile(device: &Device, source: &str) -> Result<Self> {
        let mut program = Self::program(source);
        if device.info().emulated {
            program.options.push(format!("-D{HEAP_CHECK}"));
        }
        let Compiled { module, .. } = device.compile(&program)?;
        Ok(Self {
            function: module.function("flow")?,
        })
    }

    /// Maximum number of resident blocks on the whole device.
    ///
    /// # Errors
    /// The device's.
    pub fn resident_blocks(&self, threads: u32) -> Result<u64> {
        self.function.resident_blocks(threads, 0)
    }

    /// Registers, shared and local memory.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.function.resources()
    }

    /// Queues the launch. It ends when every operator has finished or the control words request a stop; until
    /// then its memory must live, and nothing may wait for the stream.
    ///
    /// # Errors
    /// [`DeviceError::Geometry`](galatea_device::DeviceError::Geometry); the device's.
    pub fn launch(&self, stream: &Stream, geometry: Geometry, arguments: &FlowArguments) -> Result<()> {
        self.function.launch(stream, geometry, arguments)
    }
}
