//! The device layer: all GPU functions that the rest of Galatea uses, behind safe types.
//!
//! ```text
//!   Device ── Stream ── Event              queues of work
//!     │   ├── DeviceBuffer ── MemoryBudget memory on the device, charged
//!     │   ├── HostMemory ── HostView       host memory, pinned on demand
//!     │   ├── SharedMemory                 memory that kernels and the host use at once
//!     │   ├── ManagedMemory                memory whose pages migrate, for comparison
//!     │   └── Program ─► Module ─► Function   CUDA C++, compiled at run time, cached on disk, launched with checked geometry
//!     │
//!   Context    one per device and process: budget, pinned memory, loss
//!     │
//!   sys        function tables, filled by dlsym on NVIDIA's libraries, or by the emulator's look-up
//! ```
//!
//! NVIDIA's driver and compiler are loaded at run time ([`probe`]): the same binary builds and runs without
//! them, and reports what is missing. The emulated device ([`Device::emulated`], feature `emulator`, Linux on
//! x86-64) is the same host code over another implementation of the driver's functions, so tests and users
//! run the same code. Without the feature, nothing here depends on a processor or on an operating system
//! other than Unix.
//!
//! Only this crate calls foreign functions. Failures are typed ([`DeviceError`]); nothing panics, and a lost
//! device does not affect the process and other devices.

pub mod environment;
pub mod testing;

mod arguments;
mod budget;
mod buffer;
mod cache;
mod cache_folder;
mod calibration;
mod compilation;
mod compiler;
mod compilers;
mod context;
mod copies;
mod device;
#[cfg_attr(
    not(all(feature = "emulator", target_os = "linux", target_arch = "x86_64")),
    path = "no_emulator.rs"
)]
mod emulator;
mod ending;
mod errors;
mod event;
mod geometry;
mod host;
mod hybrid;
mod info;
mod lines;
mod machine_memory;
mod managed;
mod module;
mod pins;
mod probe;
mod process;
mod program;
mod programs;
mod retry;
mod shared;
mod stream;
mod sys;
mod threads;

#[cfg(test)]
mod tests;
mod vectors;

#[doc(hidden)]
pub use bytemuck;
#[cfg(all(feature = "emulator", target_os = "linux", target_arch = "x86_64"))]
pub use galatea_emulator::{Counters, DriverCall, FaultCode, Faults};

pub use arguments::{
    Access, ArgumentBytes, ArgumentStruct, DevicePointer, Field, In, InOut, KernelArguments, Layout, Out,
    Reference,
};
pub use budget::{GRANULARITY, MemoryBudget};
pub use buffer::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Unwritten};
pub use cache::{DISK_LIMIT, KEY_VERSION};
pub use cache_folder::{CacheFolder, CacheRefusal, free_disk_space};
pub use calibration::{
    CalibratedDevice, Calibration, CalibrationRefusal, ChunkTimes, GroupingRates, LinkRates, StaleCalibration,
};
pub use compiler::{Nvrtc, compile_for};
pub use copies::Download;
pub use device::{Device, DeviceOptions, MemoryUse};
pub use emulator::EmulatorOptions;
pub use ending::{before_the_end, wait_before_exit};
pub use errors::{DeviceError, Missing, Result};
pub use event::Event;
pub use geometry::{Dim, Geometry, Resources};
pub use host::{HostMemory, HostView};
pub use hybrid::{HybridMemory, PageOrder};
pub use info::{Architecture, DeviceInfo};
pub use lines::{LINE_WORDS, LineWriter, write_lines};
pub use machine_memory::MachineMemory;
pub use managed::{ManagedMemory, Side};
pub use module::{Function, Module};
pub use probe::{DriverInfo, NvrtcInfo, Probe, driver_is_installed, probe};
pub use process::exit_at_once;
pub use program::{Headers, Program, Tier};
pub use programs::{Compiled, Origin, PendingModule};
pub use retry::{RETRY, Retried};
pub use shared::SharedMemory;
pub use stream::Stream;
pub use threads::{has_low_priority, in_parallel, low_priority_pool, lower_thread_priority, timed_together};
pub use vectors::{VectorWork, in_vectors};
