//! Partitioned rows on the device: counted, then written (`sink/partition.rs`), then read as the input of
//! another pipeline.

use crate::device::RunError;
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use galatea_codegen::build_plan::PartitionPlan;
use galatea_kernels::PipelineArguments;
use galatea_memory::regions::WorkingRegion;

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct PartitionedRows {
    /// The row counts of the partitions in a counting pass, else the next free position of each.
    cursors: WorkingRegion<u64>,
    values: Vec<DeviceColumn>,
    /// Number of rows in each partition, once they are counted.
    counted: Vec<u64>,
}

impl PartitionedRows {
    /// Empty partitions with space for `counted` rows each; `None` for a pass that counts the rows.
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

    /// Points the arguments of the kernel that fills it to it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.groups = self.cursors.address();
        DeviceColumn::bind(&self.values, args);
    }

    /// After the last launch: reads the counts.
    pub(crate) fn complete(&mut self, allocator: &Allocator<'_>) -> Result<(), RunError> {
        if self.counted.is_empty() {
            self.counted = allocator.stream.read(&self.cursors, ..)?;
        }
        Ok(())
    }

    /// Number of rows in each partition.
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
