//! Trees from which frames of a window are folded.

use galatea_device::{DevicePointer, Geometry, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

/// Number of children of a tree node. Device twin: `WINDOW_FAN` of `galatea/windows.cuh`.
const FAN: u64 = 16;

kernel_arguments! {
    /// Arguments of `window_tree`.
    pub struct WindowTreeArguments in "galatea/args/window_tree.h" {
        /// A level of the tree.
        pub below: DevicePointer<u8>,
        /// Receives the level above it.
        pub above: DevicePointer<u8>,
        /// Nodes of the level below.
        pub nodes: u64,
        /// A [`Fold`].
        pub fold: u32,
        /// Padding.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Folds the nodes of a tree, level by level.
    WindowTree, "window_tree", WindowTreeArguments
}

/// How nodes are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Fold {
    /// The sum of doubles.
    SumF64,
    /// The greatest unsigned integer of 64 bits.
    Max64,
    /// The greatest unsigned integer of 128 bits.
    Max128,
}

impl Fold {
    /// Bytes of a node.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::SumF64 | Self::Max64 => 8,
            Self::Max128 => 16,
        }
    }
}

impl WindowTree {
    /// Number of nodes of a tree over `values` values, which are its lowest level and are stored first.
    #[must_use]
    pub fn nodes(values: u64) -> u64 {
        Self::levels(values).sum()
    }

    /// Number of nodes of each level.
    fn levels(values: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(values), |nodes| (*nodes >= FAN).then(|| nodes.div_ceil(FAN)))
    }

    /// Folds the `values` at the beginning of the tree into the levels after them.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when the size of `tree` is not that of [`Self::nodes`] nodes;
    /// the device's.
    pub fn launch(&self, stream: &Stream, tree: InOut<'_, u8>, values: u64, fold: Fold) -> Result<()> {
        let bytes = fold.bytes() as u64;
        same_length(
            "bytes of a tree",
            (Self::nodes(values) * bytes) as usize,
            tree.len(),
        )?;
        let mut below = 0;
        let levels: Vec<u64> = Self::levels(values).collect();
        for pair in levels.windows(2) {
            let above = below + pair[0] * bytes;
            let arguments = WindowTreeArguments {
                below: DevicePointer::new(tree.pointer().address() + below),
                above: DevicePointer::new(tree.pointer().address() + above),
                nodes: pair[0],
                fold: fold as u32,
                unused: 0,
            };
            let geometry = Geometry::grid_stride(pair[1], BLOCK.into(), BLOCK, self.blocks);
            self.function
                .launch(stream, geometry, &arguments, &[tree.reference()])?;
            below = above;
        }
        Ok(())
    }
}
