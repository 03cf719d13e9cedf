//! Uploads of the inputs of a launch besides columns.

use crate::aggregate::group_table::copies_merge;
use crate::device::chunk_table::{ChunkTable, LaunchInputs};
use crate::device::columns::ChunkAddresses;
use crate::device::{DeviceRuntime, RunError};
use galatea_codegen::bound::BoundPipeline;
use galatea_device::{DeviceBuffer, Stream};
use galatea_expression::LookupTable;
use galatea_store::TableView;

impl LaunchInputs {
    /// Uploads the lookup tables of a launch of `bound`.
    pub(crate) fn lookups(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
    ) -> Result<Vec<Option<DeviceBuffer<u8>>>, RunError> {
        let tables = bound.parameters.tables.iter();
        tables
            .map(|table| {
                let bytes = match table {
                    LookupTable::Host(bytes) if bytes.is_empty() => &[0],
                    LookupTable::Host(bytes) => &bytes[..],
                    LookupTable::Interned | LookupTable::Built { .. } => return Ok(None),
                };
                runtime.upload(stream, bytes, "a lookup table").map(Some)
            })
            .collect()
    }

    /// Uploads the chunk table of a launch of `bound` over the chunks of `order`. `place` returns the
    /// addresses of a column of the chunk at a position.
    pub(crate) fn upload(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        view: &TableView,
        lookups: Vec<Option<DeviceBuffer<u8>>>,
        order: Vec<usize>,
        place: impl Fn(usize, usize) -> ChunkAddresses,
    ) -> Result<Self, RunError> {
        let mut table = ChunkTable::new(view, &order, bound.morsel_rows, place);
        let words = runtime.upload(stream, &std::mem::take(&mut table.words), "the table of chunks")?;
        let merges = copies_merge(bound)
            .map(|merges| runtime.upload(stream, &merges, "how groups merge"))
            .transpose()?;
        Ok(Self {
            order,
            table,
            words,
            lookups,
            merges,
        })
    }
}
