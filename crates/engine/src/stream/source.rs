//! The source operator: converts batches of the input to frames, and completed windows to commands.

use super::bind::{BoundStream, Results};
use super::frame::{Command, EncodedColumn};
use super::sink::{Due, Ledger, Permit};
use super::strings::StreamStrings;
use super::watermark::Watermark;
use super::windows::WindowResults;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::error::{DataFusionError, Result};
use galatea_flow::{CpuOperator, CpuWork, OperatorError, Step};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Time that an idle stream waits for a batch before it checks whether to end.
const IDLE: Duration = Duration::from_millis(1);
/// The same while the device has frames of a completed window.
const BUSY: Duration = Duration::from_micros(20);

/// Messages from the task that reads the input to the source.
#[derive(Debug)]
pub(super) enum Input {
    /// A batch, with its permit.
    Batch(RecordBatch, Permit),
    /// The input failed.
    Failed(DataFusionError),
    /// The input has ended. If the channel closes without this message, the reader is gone.
    End,
}

/// A batch in progress.
struct Current {
    batch: RecordBatch,
    columns: Vec<EncodedColumn>,
    /// Number of rows sent so far.
    sent: usize,
    permit: Permit,
}

/// A window that is being published, up to slot `next`.
struct Publishing {
    window: Option<i64>,
    next: u64,
}

/// The source of one run.
pub(super) struct Source {
    bound: Arc<BoundStream>,
    texts: Arc<StreamStrings>,
    ledger: Arc<Ledger>,
    input: Receiver<Input>,
    current: Option<Current>,
    watermark: Option<Watermark>,
    publishing: Option<Publishing>,
    /// Number of the next frame.
    frame: u64,
    ended: bool,
    /// The permit of the last batch: published results also hold it until they are read.
    permit: Option<Permit>,
}

impl Source {
    pub(super) fn new(
        bound: Arc<BoundStream>,
        texts: Arc<StreamStrings>,
        ledger: Arc<Ledger>,
        input: Receiver<Input>,
    ) -> Self {
        let watermark = match &bound.results {
            Results::Windows(windows) => {
                Some(Watermark::new(windows.window, windows.lateness, windows.tables))
            }
            Results::Rows(_) => None,
        };
        Self {
            bound,
            texts,
            ledger,
            input,
            current: None,
            watermark,
            publishing: None,
            frame: 0,
            ended: false,
            permit: None,
        }
    }

    fn step(&mut self, work: &mut CpuWork<'_>) -> Result<Step> {
        if let Results::Windows(windows) = &Arc::clone(&self.bound).results
            && self.publish(windows, work)
        {
            return Ok(Step::Next);
        }
        if self.current.is_some() && self.send(work) {
            return Ok(Step::Next);
        }
        let waits = self
            .watermark
            .as_ref()
            .is_some_and(|watermark| watermark.waits(self.ended));
        if self.ended && !waits {
            return Ok(Step::End);
        }
        if self.ended || self.current.is_some() {
            std::thread::sleep(BUSY);
            return Ok(Step::Skip);
        }
        match self.input.recv_timeout(if waits { BUSY } else { IDLE }) {
            Ok(Input::Batch(batch, permit)) => self.begin(batch, permit)?,
            Ok(Input::Failed(error)) => {
                self.ledger.fail(error);
                return Ok(Step::End);
            }
            Ok(Input::End) => self.ended = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Step::End),
        }
        match self.current.is_some() && self.send(work) {
            true => Ok(Step::Next),
            false => Ok(Step::Skip),
        }
    }

    /// Begins a batch, without its late rows.
    fn begin(&mut self, batch: RecordBatch, permit: Permit) -> Result<()> {
        self.ledger.metrics.rows.add(batch.num_rows());
        let mut columns = self.bound.layout.encode(&batch, &self.texts)?;
        let mut batch = batch;
        if let Some(watermark) = &mut self.watermark {
            let times = Times::of(&self.bound, &columns);
            let kept: Vec<bool> = (0..batch.num_rows())
                .map(|row| !watermark.is_late(times.at(row)))
                .collect();
            let late = kept.iter().filter(|kept| !**kept).count();
            if late > 0 {
                self.ledger.metrics.late.add(late);
                batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
                columns = self.bound.layout.encode(&batch, &self.texts)?;
            }
        }
        if batch.num_rows() > 0 {
            self.permit = Some(Arc::clone(&permit));
            self.current = Some(Current {
                batch,
                columns,
                sent: 0,
                permit,
            });
        }
        Ok(())
    }

    /// Sends rows of the current batch. Returns false if its next row has to wait.
    fn send(&mut self, work: &mut CpuWork<'_>) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let whole = current.batch.num_rows();
        let mut end = whole.min(current.sent + self.bound.layout.rows);
        if let Some(watermark) = &mut self.watermark {
            let times = Times::of(&self.bound, &current.columns);
            let mut rows = current.sent..end;
            end = rows
                .find(|row| !watermark.take(times.at(*row), self.frame))
                .unwrap_or(end);
        }
        let rows: Range<usize> = current.sent..end;
        if rows.is_empty() {
            return false;
        }
        self.bound
            .layout
            .fill(&current.columns, rows.clone(), work.output());
        work.set_output_bytes(self.bound.layout.bytes);
        current.sent = end;
        let due = match self.watermark {
            Some(_) => Due::Nothing(Arc::clone(&current.permit)),
            None => Due::Rows(current.batch.clone(), rows, Arc::clone(&current.permit)),
        };
        if end == whole {
            self.current = None;
        }
        self.number(work, due);
        true
    }

    /// Sends the next command of a completed window. Returns false if there is none.
    fn publish(&mut self, windows: &WindowResults, work: &mut CpuWork<'_>) -> bool {
        let Some(watermark) = &mut self.watermark else {
            return false;
        };
        let back = self.ledger.back();
        watermark.free(back);
        if self.publishing.is_none() {
            let Some(window) = watermark.complete(back, self.ended) else {
                return false;
            };
            self.ledger.metrics.windows.add(1);
            self.publishing = Some(Publishing { window, next: 0 });
        }
        let Some(Publishing { window, next }) = &mut self.publishing else {
            return false;
        };
        let (window, first) = (*window, *next);
        let end = windows.slots.min(first + windows.published as u64);
        *next = end;
        let command = Command::Publish {
            table: windows.table(window),
            first: first as u32,
            slots: (end - first) as u32,
        };
        command.write(work.output());
        work.set_output_bytes(64);
        if end == windows.slots {
            watermark.publish(window, self.frame);
            self.publishing = None;
        }
        self.number(work, Due::Groups(window, first..end, self.permit.clone()));
        true
    }

    /// Assigns the next number to the frame.
    fn number(&mut self, work: &mut CpuWork<'_>, due: Due) {
        self.ledger.expect(self.frame, due);
        work.set_source(self.frame);
        self.frame += 1;
    }
}

impl CpuOperator for Source {
    fn compute(&mut self, work: &mut CpuWork<'_>) -> Result<Step, OperatorError> {
        match self.step(work) {
            Ok(step) => Ok(step),
            Err(error) => {
                self.ledger.fail(error);
                Ok(Step::End)
            }
        }
    }
}

/// The times of the rows of a batch.
struct Times<'a>(Option<(&'a EncodedColumn, &'a [i64])>);

impl<'a> Times<'a> {
    fn of(bound: &BoundStream, columns: &'a [EncodedColumn]) -> Self {
        let Results::Windows(windows) = &bound.results else {
            return Self(None);
        };
        let at = bound
            .layout
            .columns
            .iter()
            .position(|column| column.source == windows.window.time);
        let column = at.and_then(|at| columns.get(at));
        Self(column.map(|column| (column, column.values.typed_data::<i64>())))
    }

    fn at(&self, row: usize) -> Option<i64> {
        let (column, times) = self.0.as_ref()?;
        let valid = column.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        valid.then(|| times[row])
    }
}
