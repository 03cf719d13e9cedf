//! Loads the kernels that operators share when a GPU is opened.
//!
//! The kernel of a pipeline is generated, and compiled as early as its plan is known. Beside it, a query may
//! need kernels that never change: to merge groups, to sort, to sum up counts. If no earlier process compiled
//! them, each takes up to 0.4 s, and the query that needs one first would wait for it. So they are compiled
//! in the background, on threads of low priority, while the first query loads its columns.

use galatea_device::{Device, Result};
use galatea_kernels::{
    CollectGroups, CountBits, CountWritten, DenseFold, GatherStrings, HashMerge, HashRehash, HeapGather,
    HeapReset, KeyWidth, ListRows, PrefixSum, RankKeys, RowsInOrder, SortGather, SortHistogram, SortPass,
    StringRanks, StringSort, UnpackCodes, WindowBounds, WindowStarts, WindowTree, WindowValues,
};
use galatea_memory::HeapBuild;

/// Loads a kernel.
type Load = fn(&Device) -> Result<()>;

/// The kernels, those of more queries first.
const LOADS: &[Load] = &[
    |device| HashMerge::new(device, HeapBuild::default()).map(drop),
    |device| HeapReset::new(device).map(drop),
    |device| HeapGather::new(device, HeapBuild::default()).map(drop),
    |device| CollectGroups::new(device).map(drop),
    |device| CountWritten::new(device).map(drop),
    |device| HashRehash::new(device).map(drop),
    |device| SortPass::new(device, KeyWidth::Eight, 0).map(drop),
    |device| SortHistogram::new(device, KeyWidth::Eight).map(drop),
    |device| SortPass::new(device, KeyWidth::Four, 0).map(drop),
    |device| SortHistogram::new(device, KeyWidth::Four).map(drop),
    |device| SortGather::new(device).map(drop),
    |device| RowsInOrder::new(device).map(drop),
    |device| PrefixSum::new(device).map(drop),
    |device| ListRows::new(device).map(drop),
    |device| UnpackCodes::new(device).map(drop),
    |device| DenseFold::new(device).map(drop),
    |device| CountBits::new(device).map(drop),
    |device| GatherStrings::new(device).map(drop),
    |device| WindowStarts::new(device).map(drop),
    |device| WindowBounds::new(device).map(drop),
    |device| WindowValues::new(device).map(drop),
    |device| WindowTree::new(device).map(drop),
    |device| StringSort::new(device).map(drop),
    |device| StringRanks::new(device).map(drop),
    |device| RankKeys::new(device).map(drop),
];

/// Loads the kernels of a GPU in the background. The kernels of the emulated device are not loaded ahead: its
/// compiler would take cores from its kernels.
pub(super) fn load_in_background(device: &Device) {
    if !device.info().emulated {
        for load in LOADS {
            device.load_in_background(load);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use galatea_device::{DeviceOptions, EmulatorOptions};

    #[test]
    fn kernels_load() {
        let device =
            Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("it opens");
        for load in LOADS {
            device.load_in_background(load);
        }
        Device::finish_compiling();
        for load in LOADS {
            load(&device).expect("the kernel compiles");
        }
    }
}
