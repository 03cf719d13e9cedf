//! The hand-written kernels, one file each.

mod checksum;
mod collect_bits;
mod collect_groups;
mod copy_bandwidth;
mod count_bits;
mod count_written;
mod dense_fold;
mod fill_pattern;
mod flow;
mod gather_strings;
mod global_atomics;
mod hash_merge;
mod hash_rehash;
mod heap_allocate;
mod heap_gather;
mod heap_release;
mod heap_reset;
mod heap_verify;
mod join_build;
mod join_clear;
mod join_probe;
mod kmeans_fit;
mod kmeans_masses;
mod kmeans_pass;
mod kmeans_update;
mod link_access;
mod link_chase;
mod link_probe;
mod link_select;
mod list_rows;
mod match_lanes;
mod merge_marks;
mod nothing;
mod parquet;
mod pipeline;
mod prefix_sum;
mod radix;
mod random_access;
mod rank_keys;
mod read_bandwidth;
mod read_chunks;
mod repetition;
mod rows_in_order;
mod shared_updates;
mod sort_gather;
mod sort_histogram;
mod sort_pass;
mod sort_runs;
mod string_ranks;
mod string_sort;
mod unpack_codes;
mod window_bounds;
mod window_starts;
mod window_tree;
mod window_values;

pub use checksum::{Checksum, ChecksumArguments, checksum_of};
pub use collect_bits::{CollectBits, CollectBitsArguments};
pub use collect_groups::{CollectGroups, CollectGroupsArguments, GroupEntries};
pub use copy_bandwidth::{CopyBandwidth, CopyBandwidthArguments};
pub use count_bits::{CountBits, CountBitsArguments};
pub use count_written::{CountWritten, CountWrittenArguments};
pub use dense_fold::{DenseFold, DenseFoldArguments};
pub use fill_pattern::{FillPattern, FillPatternArguments, pattern};
pub use flow::{Flow, FlowArguments};
pub use gather_strings::{GatherStrings, GatherStringsArguments, StringChunk, WantedStrings};
pub use global_atomics::{GlobalAtomics, GlobalAtomicsArguments};
pub use hash_merge::{HashMerge, HashMergeArguments};
pub use hash_rehash::{HashRehash, HashRehashArguments};
pub use heap_allocate::{HeapAllocate, HeapAllocateArguments};
pub use heap_gather::{HeapGather, HeapGatherArguments};
pub use heap_release::{HeapRelease, HeapReleaseArguments};
pub use heap_reset::{HeapReset, HeapResetArguments};
pub use heap_verify::{HeapCounts, HeapVerify, HeapVerifyArguments};
pub use join_build::{JoinBuild, JoinBuildArguments, JoinHashing, JoinRows, JoinTable};
pub use join_clear::{JoinClear, JoinClearArguments};
pub use join_probe::{JoinProbe, JoinProbeArguments};
pub use kmeans_fit::{FitMemory, KmeansFit, KmeansFitArguments};
pub use kmeans_masses::{KmeansMasses, KmeansMassesArguments, MassSum};
pub use kmeans_pass::{KmeansPass, KmeansPassArguments, PassMemory};
pub use kmeans_update::{KmeansState, KmeansUpdate, KmeansUpdateArguments, UpdateRule};
pub use link_access::{LinkAccess, LinkAccessArguments, Pieces};
pub use link_chase::{Chain, LinkChase, LinkChaseArguments};
pub use link_probe::{LinkProbe, LinkProbeArguments, Tuples};
pub use link_select::{LinkSelect, LinkSelectArguments, Selection};
pub use list_rows::{ListRows, ListRowsArguments};
pub use match_lanes::{MatchLanes, MatchLanesArguments};
pub use merge_marks::{ChosenRows, MergeMarks, MergeMarksArguments, SliceMatches};
pub use nothing::{Nothing, NothingArguments};
pub use parquet::{
    PARQUET_PADDING, ParquetBounds, ParquetCodec, ParquetCopyStrings, ParquetCopyStringsArguments,
    ParquetDecode, ParquetDecodeArguments, ParquetDecompress, ParquetDelta, ParquetDivisor,
    ParquetDivisorArguments, ParquetEncoding, ParquetFailure, ParquetFixed, ParquetForm, ParquetHybrid,
    ParquetLevels, ParquetLevelsKind, ParquetOrder, ParquetPack, ParquetPackArguments, ParquetPacking,
    ParquetPage, ParquetPageState, ParquetPages, ParquetRowKind, ParquetRows, ParquetRowsArguments,
    ParquetRowsOutput, ParquetSlots, ParquetStep, ParquetStrings,
};
pub use pipeline::{
    CHAINS_VIEW_WORDS, CHUNK_HEADER_WORDS, COLUMN_WORDS, MAX_LITERALS, MAX_OUTPUTS, MAX_TABLES, Pipeline,
    PipelineArguments,
};
pub use prefix_sum::{PrefixSum, PrefixSumArguments};
pub use radix::{
    RADIX_MOST_BITS, RADIX_TUPLE_BYTES, RadixAlgorithm, RadixBits, RadixCheck, RadixCheckArguments,
    RadixGather, RadixGatherArguments, RadixGrid, RadixHistogram, RadixHistogramArguments, RadixIndex,
    RadixJoin, RadixJoinArguments, RadixMaterialise, RadixMaterialiseArguments, RadixOffsets,
    RadixOffsetsArguments, RadixOrder, RadixPages, RadixPair, RadixRefine, RadixRefineArguments, RadixRows,
    RadixScatter, RadixScatterArguments, RadixSlice, RadixSlices, RadixSlicesArguments, RadixTable,
    RadixTuples, RadixValues,
};
pub use random_access::{Accesses, RandomAccess, RandomAccessArguments};
pub use rank_keys::{PLACE_FIELD_BITS, PlaceField, RankKeys, RankKeysArguments};
pub use read_bandwidth::{ReadBandwidth, ReadBandwidthArguments};
pub use read_chunks::{ReadChunks, ReadChunksArguments};
pub use repetition::Repetition;
pub use rows_in_order::{ORDER_WORDS, RowsInOrder, RowsInOrderArguments};
pub use shared_updates::{ConflictingLanes, SharedUpdates, SharedUpdatesArguments, Update};
pub use sort_gather::{SortGather, SortGatherArguments};
pub use sort_histogram::{SortHistogram, SortHistogramArguments};
pub use sort_pass::{SortInput, SortOutput, SortPass, SortPassArguments, SortStep};
pub use sort_runs::{RunParts, SortRuns, SortRunsArguments};
pub use string_ranks::{StringRanks, StringRanksArguments};
pub use string_sort::{StringSort, StringSortArguments};
pub use unpack_codes::{PACKED_BLOCK_CODES, PackedColumn, UNPACK_COLUMNS, UnpackCodes, UnpackCodesArguments};
pub use window_bounds::{WINDOW_KEYS, WindowBounds, WindowBoundsArguments, WindowKeys};
pub use window_starts::{WindowStarts, WindowStartsArguments};
pub use window_tree::{Fold, WindowTree, WindowTreeArguments};
pub use window_values::{Entry, WindowColumn, WindowValue, WindowValues, WindowValuesArguments};

use repetition::power_of_two;

use crate::kernel::{BLOCK, Kernel, KernelEntry};

/// Every kernel of this crate. A test compares the list with `cuda/kernels` and `cuda/galatea/args`.
pub const KERNELS: &[KernelEntry] = &[
    Checksum::ENTRY,
    CollectBits::ENTRY,
    CollectGroups::ENTRY,
    CopyBandwidth::ENTRY,
    CountBits::ENTRY,
    CountWritten::ENTRY,
    DenseFold::ENTRY,
    FillPattern::ENTRY,
    Flow::ENTRY,
    GatherStrings::ENTRY,
    GlobalAtomics::ENTRY,
    HashMerge::ENTRY,
    HashRehash::ENTRY,
    HeapAllocate::ENTRY,
    HeapGather::ENTRY,
    HeapRelease::ENTRY,
    HeapReset::ENTRY,
    HeapVerify::ENTRY,
    JoinBuild::ENTRY,
    JoinClear::ENTRY,
    JoinProbe::ENTRY,
    KmeansFit::ENTRY,
    KmeansMasses::ENTRY,
    KmeansPass::ENTRY,
    KmeansUpdate::ENTRY,
    LinkAccess::ENTRY,
    LinkChase::ENTRY,
    LinkProbe::ENTRY,
    LinkSelect::ENTRY,
    ListRows::ENTRY,
    MatchLanes::ENTRY,
    MergeMarks::ENTRY,
    Nothing::ENTRY,
    ParquetCopyStrings::ENTRY,
    ParquetDecompress::ENTRY,
    ParquetDelta::ENTRY,
    ParquetDivisor::ENTRY,
    ParquetFixed::ENTRY,
    ParquetHybrid::ENTRY,
    ParquetLevels::ENTRY,
    ParquetPack::ENTRY,
    ParquetRows::ENTRY,
    ParquetStrings::ENTRY,
    Pipeline::ENTRY,
    PrefixSum::ENTRY,
    RadixCheck::ENTRY,
    RadixGather::ENTRY,
    RadixHistogram::ENTRY,
    RadixJoin::ENTRY,
    RadixMaterialise::ENTRY,
    RadixOffsets::ENTRY,
    RadixRefine::ENTRY,
    RadixScatter::ENTRY,
    RadixSlices::ENTRY,
    RandomAccess::ENTRY,
    RankKeys::ENTRY,
    RowsInOrder::ENTRY,
    ReadBandwidth::ENTRY,
    ReadChunks::ENTRY,
    SharedUpdates::ENTRY,
    SortGather::ENTRY,
    SortHistogram::ENTRY,
    SortPass::ENTRY,
    SortRuns::ENTRY,
    StringRanks::ENTRY,
    StringSort::ENTRY,
    UnpackCodes::ENTRY,
    WindowBounds::ENTRY,
    WindowStarts::ENTRY,
    WindowTree::ENTRY,
    WindowValues::ENTRY,
];

/// Values in a 16-byte load of 64-bit values.
pub(crate) const PAIR: usize = 2;

/// Rejects a length that is not a whole number of pairs.
pub(crate) fn whole_pairs(what: &'static str, len: usize) -> galatea_device::Result<()> {
    if len.is_multiple_of(PAIR) {
        return Ok(());
    }
    let len = len as u64;
    Err(galatea_device::DeviceError::Range {
        what,
        start: 0,
        end: len.next_multiple_of(PAIR as u64),
        len,
    })
}

/// Rejects lengths that should be equal but are not.
pub(crate) fn same_length(what: &'static str, asked: usize, len: usize) -> galatea_device::Result<()> {
    if asked == len {
        return Ok(());
    }
    Err(galatea_device::DeviceError::Range {
        what,
        start: 0,
        end: asked as u64,
        len: len as u64,
    })
}
