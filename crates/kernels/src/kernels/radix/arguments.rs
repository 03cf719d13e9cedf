//! Arguments of radix kernels.

use galatea_device::{DevicePointer, kernel_arguments};

use super::types::RadixSlice;

kernel_arguments! {
    /// Arguments of `radix_histogram`; the header describes each field.
    pub struct RadixHistogramArguments in "galatea/args/radix_histogram.h" {
        /// Keys, or rows.
        pub keys: DevicePointer<u64>,
        /// Counts by block and partition.
        pub counts: DevicePointer<u32>,
        /// Tuples.
        pub count: u64,
        /// Tuples of a block.
        pub per_block: u64,
        /// 1: rows.
        pub rows: u32,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_offsets`; the header describes each field.
    pub struct RadixOffsetsArguments in "galatea/args/radix_offsets.h" {
        /// Counts, replaced by positions.
        pub counts: DevicePointer<u32>,
        /// Positions of partitions.
        pub starts: DevicePointer<u32>,
        /// Blocks.
        pub blocks: u32,
        /// Partitions.
        pub parts: u32,
        /// 1: the tuples of a block are contiguous.
        pub chunked: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_scatter`; the header describes each field.
    pub struct RadixScatterArguments in "galatea/args/radix_scatter.h" {
        /// Keys, or rows.
        pub keys: DevicePointer<u64>,
        /// Values, or null.
        pub values: DevicePointer<u64>,
        /// Positions by block and partition.
        pub offsets: DevicePointer<u32>,
        /// Output in one array.
        pub rows: DevicePointer<u64>,
        /// Addresses of pages of output, or null.
        pub pages: DevicePointer<u64>,
        /// Second-level buffers.
        pub second: DevicePointer<u64>,
        /// Tuples.
        pub count: u64,
        /// Tuples of a block.
        pub per_block: u64,
        /// Number of the first tuple.
        pub number: u64,
        /// Bits of a position in a page.
        pub page_bits: u32,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
        /// Tuples of a buffer.
        pub buffer: u32,
        /// 1: values are numbers of tuples.
        pub numbered: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_gather`; the header describes each field.
    pub struct RadixGatherArguments in "galatea/args/radix_gather.h" {
        /// Slices.
        pub slices: DevicePointer<RadixSlice>,
        /// Output.
        pub rows: DevicePointer<u64>,
        /// The first slice.
        pub first: u32,
        /// Number of slices.
        pub count: u32,
        /// Position of the first row of the output.
        pub origin: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_join`; the header describes each field.
    pub struct RadixJoinArguments in "galatea/args/radix_join.h" {
        /// Rows of the build side.
        pub build: DevicePointer<u64>,
        /// Rows of the probe side.
        pub probe: DevicePointer<u64>,
        /// Positions of partitions of the build side.
        pub build_starts: DevicePointer<u32>,
        /// Positions of partitions of the probe side.
        pub probe_starts: DevicePointer<u32>,
        /// Number of the next partition.
        pub next: DevicePointer<u32>,
        /// Sum of payloads, and matches.
        pub sums: DevicePointer<u64>,
        /// Keys are less.
        pub domain: u64,
        /// Partitions.
        pub parts: u32,
        /// Bits that all tuples of a partition share.
        pub shift: u32,
        /// Entries of a table.
        pub capacity: u32,
        /// Chains of a table; 0: perfect hashing.
        pub heads: u32,
        /// 1: hashes are keys.
        pub raw: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_check`; the header describes each field.
    pub struct RadixCheckArguments in "galatea/args/radix_check.h" {
        /// Rows in one array.
        pub rows: DevicePointer<u64>,
        /// Addresses of pages of rows, or null.
        pub pages: DevicePointer<u64>,
        /// Unpartitioned keys, or null.
        pub keys: DevicePointer<u64>,
        /// Their values.
        pub values: DevicePointer<u64>,
        /// Positions of partitions.
        pub starts: DevicePointer<u32>,
        /// Sum of hashes, and number of tuples in wrong partitions.
        pub sums: DevicePointer<u64>,
        /// Tuples.
        pub count: u64,
        /// Positions in `starts`, without the end.
        pub lists: u32,
        /// Bits of a position in a page.
        pub page_bits: u32,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_refine`; the header describes each field.
    pub struct RadixRefineArguments in "galatea/args/radix_refine.h" {
        /// Partitioned rows.
        pub rows: DevicePointer<u64>,
        /// Positions of their partitions.
        pub starts: DevicePointer<u32>,
        /// Output.
        pub output: DevicePointer<u64>,
        /// Positions of refined partitions.
        pub refined: DevicePointer<u32>,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
        /// Partitions of the first pass.
        pub parts: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_slices`; the header describes each field.
    pub struct RadixSlicesArguments in "galatea/args/radix_slices.h" {
        /// Addresses of pages of the build side.
        pub build_pages: DevicePointer<u64>,
        /// Addresses of pages of the probe side.
        pub probe_pages: DevicePointer<u64>,
        /// Positions of partitions in pages of the build side.
        pub build_starts: DevicePointer<u32>,
        /// Positions of partitions in pages of the probe side.
        pub probe_starts: DevicePointer<u32>,
        /// Number of the next partition.
        pub next: DevicePointer<u32>,
        /// Sum of payloads, and matches.
        pub sums: DevicePointer<u64>,
        /// Values of the probe side of matches, or null.
        pub index: DevicePointer<u64>,
        /// Elements of it in use.
        pub indexed: DevicePointer<u32>,
        /// Keys are less.
        pub domain: u64,
        /// Pages of the build side.
        pub builds: u32,
        /// Pages of the probe side.
        pub probes: u32,
        /// Partitions.
        pub parts: u32,
        /// Bits that all tuples of a partition share.
        pub shift: u32,
        /// Entries of a table.
        pub capacity: u32,
        /// Chains of a table; 0: perfect hashing.
        pub heads: u32,
        /// 1: hashes are keys.
        pub raw: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_materialise`; the header describes each field.
    pub struct RadixMaterialiseArguments in "galatea/args/radix_materialise.h" {
        /// Record numbers.
        pub index: DevicePointer<u64>,
        /// Addresses of columns.
        pub columns: DevicePointer<u64>,
        /// Sum of values, and number of records.
        pub sums: DevicePointer<u64>,
        /// Elements of the index.
        pub count: u64,
        /// Number of columns.
        pub width: u32,
        /// 0.
        pub unused: u32,
    }
}
