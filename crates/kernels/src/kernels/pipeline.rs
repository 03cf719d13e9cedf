//! The generated pipeline kernel: its arguments, and how it is compiled and launched.
//!
//! The engine generates the body; this type defines everything around it: the one entry point `pipeline`, its
//! by-value argument (`cuda/galatea/args/pipeline.h`) and the headers it may include. Addresses in the
//! arguments are those of buffers that the engine keeps alive until the launch has finished.

use crate::headers;
use crate::heap::PageChainsView;
use crate::kernel::kernel;
use galatea_device::{
    Compiled, Device, Function, Geometry, PendingModule, Program, Result, Stream, Tier, kernel_arguments,
};

/// Maximum number of literals of a pipeline.
pub const MAX_LITERALS: usize = 184;
/// Maximum number of lookup tables of a pipeline.
pub const MAX_TABLES: usize = 40;
/// Maximum number of output buffers of a pipeline: values, then validity. With the rest, the argument stays
/// below the 4 KiB that every device supports.
pub const MAX_OUTPUTS: usize = 256;
/// Words of a [`PageChainsView`].
pub const CHAINS_VIEW_WORDS: usize = size_of::<PageChainsView>() / 8;
/// Words of a chunk before its columns: rows, first morsel, rows of the table before it.
pub const CHUNK_HEADER_WORDS: usize = 3;
/// Words of a column in a chunk: data, validity, base, offsets.
pub const COLUMN_WORDS: usize = 4;

kernel_arguments! {
    /// The argument of a pipeline kernel; the header describes each field.
    pub struct PipelineArguments in "galatea/args/pipeline.h" {
        /// Chunk table.
        pub chunks: u64,
        /// Per block: its next morsel.
        pub progress: u64,
        /// Per chunk: whether it has arrived; 0: all have.
        pub arrivals: u64,
        /// Group words, or hash slots.
        pub groups: u64,
        /// Error word.
        pub error: u64,
        /// Five counters.
        pub counters: u64,
        /// Groups or rows at which blocks stop.
        pub limit: u64,
        /// Hash slots.
        pub capacity: u64,
        /// First morsel of the launch.
        pub first_morsel: u32,
        /// End of the launch's morsels.
        pub end_morsel: u32,
        /// Words per chunk in the table.
        pub chunk_words: u32,
        /// Rows per morsel.
        pub morsel_rows: u32,
        /// Maximum number of morsels of a chunk.
        pub morsels_per_chunk: u32,
        /// 1: start at `progress`.
        pub resume: u32,
        /// Lookup tables.
        pub tables: [u64; MAX_TABLES],
        /// Outputs.
        pub outputs: [u64; MAX_OUTPUTS],
        /// Literals.
        pub literals: [u64; MAX_LITERALS],
        /// Page chains, for sinks that write them.
        pub chains_view: [u64; CHAINS_VIEW_WORDS],
    }
}

const _: () = assert!(size_of::<PipelineArguments>() <= 4096);

kernel!(Pipeline, "pipeline", PipelineArguments);

impl PipelineArguments {
    /// Arguments with these literals, everything else zero.
    ///
    /// # Panics
    /// With more than [`MAX_LITERALS`] literals, which binding rejects.
    pub fn new(literals: &[u64]) -> Self {
        let mut args: Self = bytemuck::Zeroable::zeroed();
        args.literals[..literals.len()].copy_from_slice(literals);
        args
    }

    /// Sets the page chains for sinks that write them.
    pub fn set_chains(&mut self, chains: &PageChainsView) {
        self.chains_view
            .copy_from_slice(bytemuck::cast_slice(bytemuck::bytes_of(chains)));
    }
}

/// A compiled pipeline kernel.
#[derive(Debug, Clone)]
pub struct Pipeline {
    function: Function,
}

impl Pipeline {
    /// The program of a generated source.
    pub fn program(source: &str, tier: Tier) -> Program {
        Program::new("pipeline", source)
            .headers(headers())
            .entry("pipeline")
            .tier(tier)
    }

    /// Compiles a generated source, or finds it compiled.
    ///
    /// # Errors
    /// See [`Device::compile`].
    pub fn compile(device: &Device, source: &str, tier: Tier) -> Result<(Self, Compiled)> {
        Self::of(device.compile(&Self::program(source, tier))?)
    }

    /// Finds it compiled, or compiles it soon; see [`Device::compile_soon`].
    ///
    /// # Errors
    /// See [`Device::compile_soon`].
    pub fn compile_soon(device: &Device, source: &str) -> Result<(Self, Compiled, Option<PendingModule>)> {
        let (compiled, pending) = device.compile_soon(&Self::program(source, Tier::Optimised))?;
        let (kernel, compiled) = Self::of(compiled)?;
        Ok((kernel, compiled, pending))
    }

    /// The optimised kernel of a module that [`Self::compile_soon`] returned, once it is compiled.
    ///
    /// # Errors
    /// See [`Device::compile`].
    pub fn optimised(pending: &PendingModule) -> Result<Option<(Self, Compiled)>> {
        pending.get().cloned().map(Self::of).transpose()
    }

    fn of(compiled: Compiled) -> Result<(Self, Compiled)> {
        let function = compiled.module.function("pipeline")?;
        Ok((Self { function }, compiled))
    }

    /// Maximum number of resident blocks on the whole device.
    ///
    /// # Errors
    /// The device's.
    pub fn resident_blocks(&self, block: u32, dynamic_shared: u32) -> Result<u64> {
        self.function.resident_blocks(block, dynamic_shared)
    }

    /// Queues a launch.
    ///
    /// # Errors
    /// [`DeviceError::Geometry`](galatea_device::DeviceError::Geometry); the device's.
    pub fn launch(&self, stream: &Stream, geometry: Geometry, args: &PipelineArguments) -> Result<()> {
        self.function.launch(stream, geometry, args)
    }

    /// Registers, shared and local memory.
    pub fn resources(&self) -> galatea_device::Resources {
        self.function.resources()
    }
}
