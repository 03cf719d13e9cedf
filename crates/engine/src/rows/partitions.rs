//! Partitioned rows on the device: counted, then written (`sink/partition.rs`), then read as the input of
//! another pipeline, all at once or one partition at a time.

use crate::device::RunError;
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region, WORD_ROWS};
use galatea_codegen::build_plan::PartitionPlan;
use galatea_expression::BuiltColumn;
use galatea_kernels::PipelineArguments;
use galatea_memory::regions::WorkingRegion;
use std::ops::Range;

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

    /// Rows of other partitioned rows, one range after another, each at the next multiple of [`WORD_ROWS`];
    /// and the bytes that were read from the host. The copies are queued on the allocator's stream.
    pub(crate) fn gathered(
        allocator: &Allocator<'_>,
        columns: &[BuiltColumn],
        ranges: &[(&Self, Range<u64>)],
    ) -> Result<(Self, u64), RunError> {
        let places = ranges.iter().scan(0, |end, (_, rows)| {
            let first = *end;
            *end = (first + (rows.end - rows.start)).next_multiple_of(WORD_ROWS);
            Some(first)
        });
        let places: Vec<u64> = places.collect();
        let rows = ranges
            .iter()
            .map(|(_, rows)| (rows.end - rows.start).next_multiple_of(WORD_ROWS))
            .sum();
        check_rows(rows)?;
        let mut values = Vec::new();
        let mut bytes = 0;
        for (number, column) in columns.iter().enumerate() {
            let mut into = allocator.unwritten_column(column, rows)?;
            for ((from, rows), at) in ranges.iter().zip(&places) {
                let from = &from.values[number];
                bytes += into.read_from(allocator.stream, from, column.width as u64, rows.clone(), *at)?;
            }
            values.push(into);
        }
        let gathered = Self {
            cursors: None,
            values,
            counted: vec![rows],
            owner: allocator.owner,
        };
        Ok((gathered, bytes))
    }

    /// The position of the first row of a partition.
    pub(crate) fn first(&self, partition: usize) -> u64 {
        let before = self.counted[..partition].iter();
        before.fold(0, |first, rows| (first + rows).next_multiple_of(WORD_ROWS))
    }

    /// Releases the memory of the rows before a position. Pages that also contain later rows are kept.
    pub(crate) fn discard_before(&self, columns: &[BuiltColumn], row: u64) {
        for (values, column) in self.values.iter().zip(columns) {
            values.discard_before(column.width as u64, row);
        }
    }

    /// Number of the query that owns the rows.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
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
