//! Partitioned rows on the device: counted, then written (`sink/partition.rs`), then read as the input of
//! another pipeline, all at once or one partition at a time.

use crate::device::{DeviceRuntime, RunError};
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region, WORD_ROWS};
use galatea_codegen::build_plan::PartitionPlan;
use galatea_device::Stream;
use galatea_expression::BuiltColumn;
use galatea_kernels::PipelineArguments;
use galatea_memory::regions::WorkingRegion;

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct PartitionedRows {
    /// The row counts of the partitions in a counting pass, else the next free position of each. `None` for
    /// the rows of one partition.
    cursors: Option<WorkingRegion<u64>>,
    values: Vec<DeviceColumn>,
    /// Number of rows in each partition, once they are counted.
    counted: Vec<u64>,
    /// Number of the query.
    owner: u64,
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
                cursors: Some(allocator.zeroed(plan.parts.into())?),
                values: Vec::new(),
                counted: Vec::new(),
                owner: allocator.owner,
            });
        };
        let mut rows: u64 = 0;
        let firsts = counted.iter().map(|count| {
            if plan.aligned {
                rows = rows.next_multiple_of(WORD_ROWS);
            }
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
        let cursors = (allocator.runtime.memory()).working(allocator.owner, allocator.what, cursors);
        Ok(Self {
            cursors: Some(cursors),
            values: values.collect::<Result<_, _>>()?,
            counted: counted.to_vec(),
            owner: allocator.owner,
        })
    }

    /// The rows of each partition in regions of their own, which can be evicted separately. The partitions
    /// are aligned.
    pub(crate) fn split(
        &self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        columns: &[BuiltColumn],
    ) -> Result<Vec<Self>, RunError> {
        let allocator = Allocator {
            runtime,
            stream,
            owner: self.owner,
            what: "rows of a partition",
        };
        let mut end: u64 = 0;
        let partitions = self.counted.iter().map(|rows| {
            let first = end.next_multiple_of(WORD_ROWS);
            end = first + rows;
            let values = self.values.iter().zip(columns);
            let values = values.map(|(from, column)| {
                let into = allocator.unwritten_column(column, *rows)?;
                into.copied(stream, from, column.width as u64, first..end)
            });
            Ok(Self {
                cursors: None,
                values: values.collect::<Result<_, RunError>>()?,
                counted: vec![*rows],
                owner: self.owner,
            })
        });
        partitions.collect()
    }

    /// Points the arguments of the kernel that fills it to it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.groups = self.cursors.as_ref().map_or(0, |cursors| cursors.address());
        DeviceColumn::bind(&self.values, args);
    }

    /// After the last launch: reads the counts.
    pub(crate) fn complete(&mut self, allocator: &Allocator<'_>) -> Result<(), RunError> {
        if let (true, Some(cursors)) = (self.counted.is_empty(), &self.cursors) {
            self.counted = allocator.stream.read(cursors, ..)?;
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
        let cursors = self.cursors.iter().map(|cursors| -> &dyn Region { cursors });
        cursors
            .chain(self.values.iter().flat_map(DeviceColumn::regions))
            .collect()
    }

    pub(crate) fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let cursors = self
            .cursors
            .iter_mut()
            .map(|cursors| -> &mut dyn Region { cursors });
        let values = self.values.iter_mut().flat_map(DeviceColumn::regions_mut);
        cursors.chain(values).collect()
    }
}
