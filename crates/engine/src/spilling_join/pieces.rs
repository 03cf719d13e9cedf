//! Joining a build side that no hash divides: rows of one key that exceed the memory pool.
//!
//! The build side is split into pieces that fit, and each piece is joined with all rows of the probe side. A
//! row of the build side is in one piece, so its result is final after that piece. A row of the probe side is
//! unmatched only after all pieces: those without a match so far are written to a file after each piece and
//! read with the next.
//!
//! | join | each piece | probe rows | at the end, unmatched probe rows |
//! | --- | --- | --- | --- |
//! | inner | inner | all | |
//! | left, left semi, left anti, left mark | the same | all | |
//! | right | inner | all | right, with no build rows |
//! | full | left | all | right, with no build rows |
//! | right semi | right semi | unmatched | |
//! | right anti | | unmatched | as they are |
//! | right mark | right semi, marked | unmatched | right mark, with no build rows |

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::record_batch::RecordBatchOptions;
use datafusion::common::{JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::buckets::Bucket;
use super::collect::{Collected, Held, Rest, piece};
use super::join::{GraceJoin, Kind, Lent, Output};

/// The joins of each piece, and after the last one.
struct Steps {
    /// The join of each piece.
    each: Option<Kind>,
    /// Whether that join reads only the unmatched probe rows.
    of_unmatched: bool,
    /// Whether unmatched probe rows are collected.
    unmatched: bool,
    /// The join of unmatched probe rows without build rows.
    last: Option<JoinType>,
}

impl Steps {
    fn of(join_type: JoinType) -> Self {
        let (each, of_unmatched, last) = match join_type {
            JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark => (Some(Kind::whole(join_type)), false, None),
            JoinType::Right => (Some(Kind::whole(JoinType::Inner)), false, Some(JoinType::Right)),
            JoinType::Full => (Some(Kind::whole(JoinType::Left)), false, Some(JoinType::Right)),
            JoinType::RightSemi => (Some(Kind::whole(JoinType::RightSemi)), true, None),
            JoinType::RightAnti => (None, true, Some(JoinType::RightAnti)),
            JoinType::RightMark => (
                Some(Kind {
                    join_type: JoinType::RightSemi,
                    projected: false,
                }),
                true,
                Some(JoinType::RightMark),
            ),
        };
        Self {
            each,
            of_unmatched,
            unmatched: of_unmatched || last.is_some(),
            last,
        }
    }
}

impl GraceJoin {
    /// Joins a build side in pieces; `held` is the first of them.
    pub(super) async fn join_pieces(
        &self,
        held: Held,
        rest: Rest,
        probe: Option<&Bucket>,
        output: &Output,
    ) -> Result<()> {
        let steps = Steps::of(*self.join.join_type());
        let mut unmatched = probe.cloned();
        let mut next = Some(piece(held, rest, self.table));
        while let Some((held, rest)) = next {
            let lent = self.lend(held);
            let read = if steps.of_unmatched {
                unmatched.as_ref()
            } else {
                probe
            };
            if let Some(kind) = steps.each {
                let rows = self.in_memory(&lent, self.probe.read(read)?, kind)?;
                self.send(self.as_joined(rows, kind)?, output).await?;
            }
            if steps.unmatched {
                unmatched = self.unmatched(&lent, unmatched.as_ref()).await?;
            }
            drop(lent);
            next = match self.collect(rest).await? {
                Collected::Whole(held) if held.rows == 0 => None,
                Collected::Whole(held) => Some((held, self.build.read(None)?)),
                Collected::Part(held, rest) => Some(piece(held, rest, self.table)),
            };
        }
        match steps.last {
            Some(join_type) => {
                self.join_with_nothing(unmatched.as_ref(), join_type, output)
                    .await
            }
            None => Ok(()),
        }
    }

    /// The probe rows without a match in a piece.
    async fn unmatched(&self, piece: &Lent, probe: Option<&Bucket>) -> Result<Option<Bucket>> {
        let kind = Kind {
            join_type: JoinType::RightAnti,
            projected: false,
        };
        let rows = self.in_memory(piece, self.probe.read(probe)?, kind)?;
        self.probe.keep(rows).await
    }

    async fn join_with_nothing(
        &self,
        probe: Option<&Bucket>,
        join_type: JoinType,
        output: &Output,
    ) -> Result<()> {
        let nothing = self.lend(Held {
            batches: Vec::new(),
            rows: 0,
            reservation: MemoryConsumer::new("SpillingJoin").register(self.context.memory_pool()),
        });
        let rows = self.in_memory(&nothing, self.probe.read(probe)?, Kind::whole(join_type))?;
        self.send(rows, output).await
    }

    /// Rows of a piece with the columns of the whole join: those of a right mark join get their mark.
    fn as_joined(&self, rows: SendableRecordBatchStream, kind: Kind) -> Result<SendableRecordBatchStream> {
        if kind.projected {
            return Ok(rows);
        }
        let schema = self.schema();
        let marked = {
            let (join, schema) = (Arc::clone(&self.join), Arc::clone(&schema));
            move |batch: RecordBatch| {
                let count = batch.num_rows();
                let mut columns = batch.columns().to_vec();
                columns.push(Arc::new(BooleanArray::from(vec![true; count])) as ArrayRef);
                if let Some(projection) = &join.projection {
                    columns = projection.iter().map(|at| Arc::clone(&columns[*at])).collect();
                }
                let count = RecordBatchOptions::new().with_row_count(Some(count));
                Ok(RecordBatch::try_new_with_options(
                    Arc::clone(&schema),
                    columns,
                    &count,
                )?)
            }
        };
        let rows = rows.map(move |batch| batch.and_then(&marked));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
