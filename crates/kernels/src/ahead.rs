//! The kernels that queries launch besides those of their pipelines.

use crate::heap::HeapBuild;
use crate::kernel::{Kernel, KernelEntry};
use crate::kernels::{
    CollectBits, CollectGroups, CountBits, CountWritten, DenseFold, HashMerge, HashRehash, HeapGather,
    HeapReset, ListRows, ParquetCopyStrings, ParquetDecompress, ParquetDelta, ParquetDivisor, ParquetFixed,
    ParquetHybrid, ParquetLevels, ParquetPack, ParquetRows, ParquetStrings, PrefixSum, SortGather,
    SortHistogram, SortPass, UnpackCodes, WindowBounds, WindowStarts, WindowTree, WindowValues,
};
use crate::sort::KeyWidth;
use galatea_device::Program;

/// The programs of the kernels that queries of any kind launch: loading, joins, groups, orders and windows.
/// If they are compiled as soon as the device is opened, the first queries need not wait for them. The
/// programs with the longest compilations, and those that loads launch, are first.
#[must_use]
pub fn query_programs() -> Vec<Program> {
    let plain: [&KernelEntry; 25] = [
        &ParquetDecompress::ENTRY,
        &ParquetStrings::ENTRY,
        &ParquetFixed::ENTRY,
        &ParquetLevels::ENTRY,
        &ParquetHybrid::ENTRY,
        &ParquetRows::ENTRY,
        &ParquetDelta::ENTRY,
        &ParquetDivisor::ENTRY,
        &ParquetPack::ENTRY,
        &ParquetCopyStrings::ENTRY,
        &UnpackCodes::ENTRY,
        &CountBits::ENTRY,
        &CountWritten::ENTRY,
        &PrefixSum::ENTRY,
        &ListRows::ENTRY,
        &SortGather::ENTRY,
        &CollectBits::ENTRY,
        &CollectGroups::ENTRY,
        &HashRehash::ENTRY,
        &DenseFold::ENTRY,
        &WindowBounds::ENTRY,
        &WindowStarts::ENTRY,
        &WindowValues::ENTRY,
        &WindowTree::ENTRY,
        &HeapReset::ENTRY,
    ];
    let sorts = KeyWidth::ALL.into_iter().flat_map(|width| {
        [
            SortHistogram::ENTRY.program_with([width.option()]),
            SortPass::ENTRY.program_with(SortPass::options(width, false)),
        ]
    });
    let heaps = [&HashMerge::ENTRY, &HeapGather::ENTRY]
        .map(|kernel| kernel.program_with(HeapBuild::default().options()));
    let plain = plain.into_iter().map(KernelEntry::program);
    plain.chain(sorts).chain(heaps).collect()
}
