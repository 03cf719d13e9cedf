//! One 64-bit sum by group, by every method: those that need only the original column, and the laid-out
//! column.

use galatea_device::DeviceBuffer;
use galatea_layout::{Budget, Goal, SlotMap};

use super::Experiment;
use super::bed::{Bed, Launched, Operands, Query};
use super::data::{self, Column};
use super::layouts::{all_threads, lay_out_column};
use super::report::{ConflictsReport, Row};
use super::way::Way;
use crate::Result;

/// All methods for all groups and skews of the extent.
pub(super) fn run(bed: &Bed, report: &mut ConflictsReport) -> Result<()> {
    let extent = &bed.extent;
    let rows = whole_waves(bed);
    for &groups in &extent.groups {
        for &theta in &extent.group_thetas {
            if groups == 1 && theta > 0.0 {
                continue;
            }
            let codes = data::zipf(extent, groups, theta, rows)?;
            let column = Column::new(extent, groups, &codes);
            let original = bed.device.upload(&bed.stream, &codes)?;
            for way in Way::all() {
                let mut row = Row::new(&way.to_string());
                row.query = Query::Sum.name().to_string();
                row.set_data(rows, groups, theta);
                row.way = Some(way);
                let shared_bytes = way.shared_bytes(groups as u64, extent.threads);
                if shared_bytes > u64::from(bed.device.info().shared_memory_per_block) {
                    continue;
                }
                let launched = match way {
                    Way::ReadsOnly => bed.reads(Query::Sum, &column, &original)?,
                    Way::OneCopy => bed.query(Query::Sum, &column, &original, None, 0)?,
                    Way::Slots => laid_out(bed, &column, &mut row)?,
                    _ => match way.kernel(groups) {
                        Some(kernel) => measure(bed, way, kernel, shared_bytes, &column, &original)?,
                        None => continue,
                    },
                };
                row.set_launch(launched);
                report.push(Experiment::Alternatives, row);
            }
        }
    }
    Ok(())
}

/// Number of rows for two blocks on every multiprocessor. With one or two concurrent blocks, each
/// multiprocessor then has the same work.
fn whole_waves(bed: &Bed) -> usize {
    let blocks = usize::try_from(2 * bed.multiprocessors()).unwrap_or(usize::MAX);
    bed.extent.morsel_rows.saturating_mul(blocks).min(bed.extent.rows)
}

/// Lays out the column for writes, for half of the shared memory so that two blocks fit, and sums.
fn laid_out(bed: &Bed, column: &Column<'_>, row: &mut Row) -> Result<Launched> {
    let info = bed.device.info();
    let half = info.shared_memory_per_multiprocessor / 2 - info.reserved_shared_memory_per_block;
    let limit = half.min(info.shared_memory_per_block);
    let budget = Budget::shared_memory(limit.into(), Query::Sum.slot_bytes());
    let goal = Goal::Writes { window: 0 };
    let laid_out = lay_out_column(
        &bed.extent,
        column.codes,
        column.values,
        goal,
        budget,
        all_threads(),
    )?;
    row.set_layout(goal, &laid_out.report);
    let slots = bed.device.upload(&bed.stream, &laid_out.slots)?;
    let map: Option<&SlotMap> = Some(&laid_out.map);
    bed.query(Query::Sum, column, &slots, map, 0)
}

/// Measures a method that has its own kernel, over the original column.
fn measure(
    bed: &Bed,
    way: Way,
    kernel: &str,
    shared_bytes: u64,
    column: &Column<'_>,
    codes: &DeviceBuffer<u32>,
) -> Result<Launched> {
    let groups = column.values as u64;
    let shape = bed.shape(shared_bytes);
    let kernel = bed.kernel(kernel)?;
    let mut operands = Operands {
        slots: groups,
        copies: 1,
        stride: 1,
        ..Operands::default()
    };
    let mut scratch = None;
    match way {
        Way::Replicated { copies, stride } => {
            (operands.copies, operands.stride) = (copies.into(), stride.into());
        }
        Way::Global { copies } => {
            // Each copy begins in another 128-byte line.
            operands.copies = copies.into();
            operands.stride = groups.next_multiple_of(16);
            let words = usize::try_from(operands.copies * operands.stride).unwrap_or(usize::MAX);
            let buffer = bed.device.zeroed::<u64>(&bed.stream, words)?;
            operands.scratch = buffer.address();
            scratch = Some(buffer);
        }
        _ => {}
    }
    let merge = bed.kernel("merge_replicas")?;
    let mut result = bed.device.zeroed::<u64>(&bed.stream, column.values)?;
    let summary = bed.checked(&way.to_string(), &mut result, &column.sums, |result| {
        match &mut scratch {
            Some(scratch) => bed.stream.fill(scratch, 0)?,
            None => bed.stream.fill(&mut *result, 0)?,
        }
        bed.launch(&kernel, shape, codes, result, operands)?;
        if scratch.is_some() {
            bed.launch_merge(&merge, result, operands)?;
        }
        Ok(())
    })?;
    bed.launched(&kernel, shape, summary)
}
