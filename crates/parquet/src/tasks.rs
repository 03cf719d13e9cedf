//! The tasks of the kernels that decode pages: pages, and parts of pages.

use std::cmp::Reverse;
use std::ops::Range;

use galatea_kernels::{ParquetCodec, ParquetEncoding, ParquetFixed};

use crate::batch::Batch;
use crate::shape::{ColumnShape, ValueKind};

/// A kernel with the tasks of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Decompress,
    Levels,
    Hybrid,
    Fixed,
    Delta,
    Strings,
    /// Pages of `Strings` whose strings have to be joined.
    Joined,
    /// Tasks of pages of `Strings` that are numbers.
    Converted,
}

const KERNELS: usize = Kernel::Converted as usize + 1;

/// The tasks of all kernels.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// A task is the number of a page in the high 32 bits, and its first value in the low ones.
    pub(crate) all: Vec<u64>,
    /// End of the tasks of each kernel.
    ends: [usize; KERNELS],
}

impl Tasks {
    pub(crate) fn new(batch: &Batch<'_>, shape: &ColumnShape) -> Self {
        let mut lists: [Vec<u64>; KERNELS] = Default::default();
        for (number, ((_, page), entry)) in batch.pages.iter().zip(&batch.table).enumerate() {
            let task = (number as u64) << 32;
            let parts = || {
                (0..page.rows)
                    .step_by(ParquetFixed::TASK_VALUES as usize)
                    .map(move |first| task | u64::from(first))
            };
            let mut add = |kernel: Kernel| lists[kernel as usize].push(task);
            if entry.codec != ParquetCodec::Uncompressed as u32 {
                add(Kernel::Decompress);
            }
            add(Kernel::Levels);
            if page.rows == 0 {
                continue;
            }
            match page.encoding {
                ParquetEncoding::Rle | ParquetEncoding::Dictionary => add(Kernel::Hybrid),
                ParquetEncoding::DeltaBinaryPacked => add(Kernel::Delta),
                ParquetEncoding::ByteStreamSplit => lists[Kernel::Fixed as usize].extend(parts()),
                ParquetEncoding::Plain if shape.value_bytes > 0 => {
                    lists[Kernel::Fixed as usize].extend(parts());
                }
                ParquetEncoding::Plain
                | ParquetEncoding::DeltaLengthByteArray
                | ParquetEncoding::DeltaByteArray => {
                    add(Kernel::Strings);
                    if page.encoding == ParquetEncoding::DeltaByteArray {
                        add(Kernel::Joined);
                    }
                    if matches!(shape.kind, ValueKind::Fixed { .. }) {
                        lists[Kernel::Converted as usize].extend(parts());
                    }
                }
            }
        }
        // A block decompresses a page, so that the largest pages have to begin first.
        lists[Kernel::Decompress as usize].sort_by_key(|task| {
            let page = (task >> 32) as usize;
            Reverse(batch.table[page].body_bytes)
        });
        let mut end = 0;
        let ends = lists.each_ref().map(|list| {
            end += list.len();
            end
        });
        Self {
            all: lists.concat(),
            ends,
        }
    }

    /// The tasks of a kernel.
    pub(crate) fn range(&self, kernel: Kernel) -> Range<usize> {
        let number = kernel as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[number]
    }
}
