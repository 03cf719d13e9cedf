//! Transfer of column chunks to the device.
//!
//! ```text
//! chunks       which chunks are in device memory, which are transferred, and in what order they are scanned
//!    ├─ chunk_link   copies over the link; packed codes are unpacked by a kernel after the copy
//!    ├─ mapped       chunks that kernels read in host memory (zero-copy)
//!    ├─ slot_ring    slots that chunks pass through, if the columns exceed device memory
//!    ├─ launch_inputs  uploads of the chunk table and the lookup tables
//!    └─ arrivals     one kernel for several chunks, which waits for each (`galatea.tuning.persistent_scan`)
//! ```
//!
//! Reference: C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, section 3.3 (transfer
//! methods).

pub(crate) mod arrivals;
pub(crate) mod chunk_link;
pub(crate) mod chunks;
mod launch_inputs;
mod mapped;
pub(crate) mod slot_ring;

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![arrivals::ArrivalPolicy::listed(), chunks::LaunchPolicy::listed()]
}
