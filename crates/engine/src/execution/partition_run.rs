//! Runs a pipeline over its build sides, as two pipelines if its rows are partitioned
//! (`crates/codegen/src/partition.rs`).

use super::attempt::repeat;
use super::partition_choice::PartitionChoice;
use super::pipeline_run::{Output, Run};
use super::source::entries;
use crate::device::{RunError, demand};
use crate::joins::build_table::SideRows;
use crate::report::RunReport;
use galatea_base::reason::Reason;
use galatea_codegen::PartitionPasses;

/// The attempt after a partitioned one: rows access build sides in scan order, since a join must not depend
/// on memory for partitioned rows or on the supported column types.
fn direct_after(
    choice: PartitionChoice,
    failure: RunError,
    restart: impl FnOnce() -> bool,
) -> Result<PartitionChoice, RunError> {
    let why = match (&choice, &failure) {
        (PartitionChoice::Partitions(..), RunError::Unsupported(reason))
            if !matches!(reason, Reason::RepeatedKey { .. }) =>
        {
            format!("none: {reason}")
        }
        (PartitionChoice::Partitions(..), RunError::Memory { .. }) => format!("none: {failure}"),
        _ => return Err(failure),
    };
    match restart() {
        true => Ok(PartitionChoice::Direct(why)),
        false => Err(failure),
    }
}

impl Run<'_> {
    /// Runs the pipeline over these build sides, and completes its output if that is a part of a join.
    pub(super) fn execute_over(&self, mut sides: Vec<SideRows>) -> Result<(Output, RunReport), RunError> {
        let own = sides.len();
        let choice = Run {
            sides: &sides,
            ..*self
        }
        .choose_partitions();
        repeat(
            choice,
            |choice| match choice {
                PartitionChoice::Partitions(halves, why) => {
                    let (output, report) = self.in_two(halves, &mut sides)?;
                    let mut report = report.of_sides(own);
                    report.partitions = Some(std::mem::take(why));
                    Ok((output, report))
                }
                choice => {
                    sides.truncate(own);
                    let run = Run {
                        sides: &sides,
                        ..*self
                    };
                    let (output, mut report) = run.execute()?;
                    if let PartitionChoice::Direct(why) = choice {
                        report.partitions = Some(std::mem::take(why));
                    }
                    Ok((output, report))
                }
            },
            |choice, failure| direct_after(choice, failure, || self.result.restart()),
        )
        .map(|(output, report)| (output.joined(&mut sides), report))
    }

    /// Runs both pipelines. The second one reads the partitioned rows as an additional, last build side.
    fn in_two(
        &self,
        halves: &PartitionPasses,
        sides: &mut Vec<SideRows>,
    ) -> Result<(Output, RunReport), RunError> {
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
        // Without rows there is no chunk.
        let chunks: &[usize] = if rows.rows == 0 { &[] } else { &[0] };
        sides.push(SideRows::built(*rows));
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
