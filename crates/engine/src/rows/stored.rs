//! Rows on the device by position, which form a part of the rows of another pipeline (`sink/store.rs`).

use crate::device::{DeviceRuntime, RunError};
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use galatea_codegen::build_plan::StorePlan;
use galatea_device::{DeviceBuffer, Stream};
use galatea_kernels::PipelineArguments;

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct StoredRows {
    values: Vec<DeviceColumn>,
    /// The addresses of the entries and of the NULLs of each column, at the last launch.
    directory: Option<DeviceBuffer<u64>>,
}

impl StoredRows {
    /// Space for `rows` rows, not written yet.
    pub(crate) fn new(allocator: &Allocator<'_>, plan: &StorePlan, rows: u64) -> Result<Self, RunError> {
        check_rows(rows)?;
        Ok(Self {
            values: allocator.columns(&plan.columns, rows)?,
            directory: None,
        })
    }

    /// Points the arguments of the kernel that fills it to it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        DeviceColumn::bind(&self.values, args);
    }

    /// Writes the directory, before a launch that reads it.
    pub(crate) fn locate(&mut self, runtime: &DeviceRuntime, stream: &Stream) -> Result<(), RunError> {
        let columns = self.values.iter();
        let words: Vec<u64> = columns
            .flat_map(|column| [column.values(), column.nulls()])
            .collect();
        // There are no columns if rows are only counted.
        if !words.is_empty() {
            self.directory = Some(runtime.upload(stream, &words, "the directory of a union")?);
        }
        Ok(())
    }

    /// Address of the directory.
    pub(crate) fn address(&self) -> u64 {
        self.directory.as_ref().map_or(0, DeviceBuffer::address)
    }

    pub(crate) fn regions(&self) -> Vec<&dyn Region> {
        self.values.iter().flat_map(DeviceColumn::regions).collect()
    }

    pub(crate) fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        (self.values.iter_mut())
            .flat_map(DeviceColumn::regions_mut)
            .collect()
    }
}
