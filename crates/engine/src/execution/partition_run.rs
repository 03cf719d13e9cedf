//! Runs a pipeline over its build sides, in two where its rows go through partitions
//! (`crates/codegen/src/partition.rs`).

use super::built::SideRows;
use super::partition_choice::PartitionChoice;
use super::run::{Output, Run};
use super::source::entries;
use crate::device::{RunError, demand};
use crate::report::RunReport;
use galatea_codegen::Halves;
use parking_lot::Mutex;

impl Run<'_> {
    /// Runs the pipeline over these build sides, and completes the part of a join that it made by them.
    pub(super) fn execute_over(&self, mut sides: Vec<SideRows>) -> Result<(Output, RunReport), RunError> {
        let own = sides.len();
        let choice = Run {
            sides: &sides,
            ..*self
        }
        .choose_partitions();
        let mut direct = None;
        match choice {
            PartitionChoice::None => {}
            PartitionChoice::Direct(why) => direct = Some(why),
            PartitionChoice::Partitions(halves, why) => match self.in_two(&halves, &mut sides) {
                Ok((output, mut report)) => {
                    report = report.of_sides(own);
                    report.partitions = Some(why);
                    return Ok((output.joined(sides), report));
                }
                // Memory for rows in partitions, and columns that can be kept, are no condition of the join.
                Err(RunError::Unsupported(reason)) if !reason.is_repeated_key() => {
                    direct = Some(format!("none: {reason}"));
                }
                Err(error @ RunError::Memory { .. }) => direct = Some(format!("none: {error}")),
                Err(error) => return Err(error),
            },
        }
        sides.truncate(own);
        let (output, mut report) = Run {
            sides: &sides,
            ..*self
        }
        .execute()?;
        report.partitions = direct;
        Ok((output.joined(sides), report))
    }

    /// Runs both halves. The second one reads the rows in between as a build side behind the others.
    fn in_two(&self, halves: &Halves, sides: &mut Vec<SideRows>) -> Result<(Output, RunReport), RunError> {
        let (output, first) = Run {
            plan: &halves.first,
            sides,
            keep: false,
            ..*self
        }
        .execute()?;
        let Output::Built(rows) = output else {
            unreachable!("partitions stay on the device");
        };
        let view = entries(rows.rows)?;
        // Without a row there is no chunk.
        let chunks: &[usize] = if rows.rows == 0 { &[] } else { &[0] };
        sides.push(SideRows::Built(Box::new(Mutex::new(*rows))));
        let (output, second) = Run {
            plan: &halves.second,
            view: &view,
            sides,
            chunks,
            ..*self
        }
        .execute()?;
        let shapes = (
            demand::shape(self.plan, self.view),
            demand::shape(&halves.second, &view),
        );
        (self.runtime.demands()).observe_halves(shapes.0, shapes.1, self.rows());
        Ok((output, second.of_partitions(first)))
    }
}
