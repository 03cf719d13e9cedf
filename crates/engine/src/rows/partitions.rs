//! Rows in partitions, on the device: counted, then written (`sink/partition.rs`), then the rows of another
//! pipeline.

use crate::device::RunError;
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use galatea_codegen::build_plan::PartitionPlan;
use galatea_kernels::PipelineArguments;
use galatea_memory::regions::WorkingRegion;

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct PartitionedRows {
    /// Of each partition the rows, where they are counted, else the next free position.
    cursors: WorkingRegion<u64>,
    values: Vec<DeviceColumn>,
    /// Rows of each partition, once they are counted.
    counted: Vec<u64>,
}

impl PartitionedRows {
    /// Without rows, of which there will be so many in each partition; none: they are to be counted.
    pub(crate) fn new(
        allocator: &Allocator<'_>,
        plan: &PartitionPlan,
        counted: Option<&[u64]>,
    ) -> Result<Self, RunError> {
        let Some(counted) = counted else {
            return Ok(Self {
                cursors: allocator.zeroed(plan.parts.into())?,
                values: Vec::new(),
                counted: Vec::new(),
            });
        };
        let mut rows = 0;
        let firsts = counted.iter().map(|count| {
            let first = rows;
            rows += count;
            first
        });
        let firsts: Vec<u64> = firsts.collect();
        check_rows(rows)?;
        let cursors = allocator
            .runtime
            .upload(allocator.stream, &firsts, allocator.what)?;
        let values = plan.columns.iter();
        let values = values.map(|column| allocator.unwritten_column(column, rows));
        Ok(Self {
            cursors: (allocator.runtime.memory()).working(allocator.owner, allocator.what, cursors),
            values: values.collect::<Result<_, _>>()?,
            counted: counted.to_vec(),
        })
    }

    /// Points the kernel that fills it at it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.groups = self.cursors.address();
        DeviceColumn::bind(&self.values, args);
    }

    /// After the last launch: reads what was counted.
    pub(crate) fn complete(&mut self, allocator: &Allocator<'_>) -> Result<(), RunError> {
        if self.counted.is_empty() {
            self.counted = allocator.stream.read(&self.cursors, ..)?;
        }
        Ok(())
    }

    /// Rows of each partition.
    pub(crate) fn counted(&self) -> &[u64] {
        &self.counted
    }

    /// The entries of the column at a position.
    pub(crate) fn column(&self, position: usize) -> &DeviceColumn {
        &self.values[position]
    }

    pub(crate) fn regions(&self) -> Vec<&dyn Region> {
        let cursors: &dyn Region = &self.cursors;
        let values = self.values.iter().flat_map(DeviceColumn::regions);
        [cursors].into_iter().chain(values).collect()
    }

    pub(crate) fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let cursors: &mut dyn Region = &mut self.cursors;
        let values = self.values.iter_mut().flat_map(DeviceColumn::regions_mut);
        [cursors].into_iter().chain(values).collect()
    }
}
