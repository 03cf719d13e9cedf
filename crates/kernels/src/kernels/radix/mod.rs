//! Radix partitioning of tuples and joins of partitions, after C. Lutz, *Scalable Data Management using GPUs
//! with Fast Interconnects* (2022), chapter 4.
//!
//! Input and output are addresses, since they may be in device memory or in mapped host memory: a caller
//! calls [`DeviceBuffer::used_by`](galatea_device::DeviceBuffer::used_by) for buffers of other streams. All
//! positions are 32 bits, so an array has fewer than 2^32 tuples.

mod arguments;
mod check;
mod join;
mod materialise;
mod partition;
mod types;

pub use arguments::{
    RadixCheckArguments, RadixGatherArguments, RadixHistogramArguments, RadixJoinArguments,
    RadixMaterialiseArguments, RadixOffsetsArguments, RadixRefineArguments, RadixScatterArguments,
    RadixSlicesArguments,
};
pub use check::RadixCheck;
pub use join::{RadixGather, RadixIndex, RadixJoin, RadixPages, RadixPair, RadixSlices, RadixTable};
pub use materialise::RadixMaterialise;
pub use partition::{RadixAlgorithm, RadixHistogram, RadixOffsets, RadixOrder, RadixRefine, RadixScatter};
pub use types::{
    RADIX_MOST_BITS, RADIX_TUPLE_BYTES, RadixBits, RadixGrid, RadixRows, RadixSlice, RadixTuples, RadixValues,
};
