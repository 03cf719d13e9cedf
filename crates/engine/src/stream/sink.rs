//! The sink operator: converts result frames to batches, in the order of the input.

use super::bind::{BoundStream, Results};
use super::error::StreamError;
use super::strings::StreamStrings;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use galatea_flow::{CpuOperator, CpuWork, OperatorError, Step};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

/// The permit of an input batch, held until all of its results are read.
pub(super) type Permit = Arc<OwnedSemaphorePermit>;

/// The expected results of a frame.
#[derive(Debug)]
pub(super) enum Due {
    /// Nothing: its rows are in groups.
    Nothing(Permit),
    /// These rows of a batch, if they pass.
    Rows(RecordBatch, Range<usize>, Permit),
    /// The groups of a window in a range of slots of its table.
    Groups(Option<i64>, Range<u64>, Option<Permit>),
}

/// Output of a run to its reader.
#[derive(Debug)]
pub(super) enum Delivered {
    /// A batch, with the permit that is released when it is read.
    Batch(RecordBatch, Option<Permit>),
    /// The end of the results.
    End(Result<()>),
}

/// Counters for EXPLAIN ANALYZE.
#[derive(Debug, Clone)]
pub(super) struct StreamMetrics {
    pub(super) rows: Count,
    pub(super) output_rows: Count,
    pub(super) frames: Count,
    pub(super) late: Count,
    pub(super) windows: Count,
}

impl StreamMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name| MetricBuilder::new(metrics).global_counter(name);
        Self {
            rows: counter("stream_rows"),
            output_rows: MetricBuilder::new(metrics).output_rows(0),
            frames: counter("frames"),
            late: counter("late_rows"),
            windows: counter("windows"),
        }
    }

    /// Counters of the runs so far.
    pub(super) fn counts(metrics: &ExecutionPlanMetricsSet) -> Vec<(&'static str, usize)> {
        let counted = metrics.clone_inner();
        let names = ["stream_rows", "frames", "late_rows", "windows"];
        let shown = ["rows read", "frames", "rows too late", "windows returned"];
        let sums = names.iter().zip(shown).filter_map(|(name, shown)| {
            let sum = counted.sum_by_name(name)?;
            Some((shown, sum.as_usize()))
        });
        sums.collect()
    }
}

/// State that source and sink of a run share.
#[derive(Debug)]
pub(super) struct Ledger {
    due: Mutex<HashMap<u64, Due>>,
    back: AtomicU64,
    failure: Mutex<Option<DataFusionError>>,
    pub(super) metrics: StreamMetrics,
}

impl Ledger {
    pub(super) fn new(metrics: StreamMetrics) -> Self {
        Self {
            due: Mutex::default(),
            back: AtomicU64::new(0),
            failure: Mutex::default(),
            metrics,
        }
    }

    /// Records the expected results of a frame, before it is published.
    pub(super) fn expect(&self, frame: u64, due: Due) {
        self.due.lock().insert(frame, due);
    }

    /// Number of frames that have returned before the first one that has not.
    pub(super) fn back(&self) -> u64 {
        self.back.load(Ordering::Acquire)
    }

    /// Records the error that ends the run.
    pub(super) fn fail(&self, error: DataFusionError) {
        self.failure.lock().get_or_insert(error);
    }

    /// The error that has ended the run.
    pub(super) fn failure(&self) -> Option<DataFusionError> {
        self.failure.lock().take()
    }
}

/// The sink of one run.
pub(super) struct Sink {
    bound: Arc<BoundStream>,
    schema: SchemaRef,
    texts: Arc<StreamStrings>,
    ledger: Arc<Ledger>,
    results: UnboundedSender<Delivered>,
    /// Results of frames that returned before earlier ones.
    early: HashMap<u64, Option<Delivered>>,
    next: u64,
}

impl Sink {
    pub(super) fn new(
        bound: Arc<BoundStream>,
        schema: SchemaRef,
        texts: Arc<StreamStrings>,
        ledger: Arc<Ledger>,
        results: UnboundedSender<Delivered>,
    ) -> Self {
        Self {
            bound,
            schema,
            texts,
            ledger,
            results,
            early: HashMap::new(),
            next: 0,
        }
    }

    fn deliver(&self, number: u64, frame: &[u8]) -> Result<Option<Delivered>> {
        let due = self.ledger.due.lock().remove(&number).ok_or(StreamError::Ended)?;
        let (batch, permit) = match (&self.bound.results, due) {
            (Results::Rows(rows), Due::Rows(source, range, permit)) => {
                let batch = rows.batch(&self.schema, &source, &range, (number, frame))?;
                (Some(batch), Some(permit))
            }
            (Results::Windows(windows), Due::Groups(window, slots, permit)) => {
                let batch = windows.batch(&self.schema, window, &slots, &self.texts, (number, frame))?;
                (batch, permit)
            }
            // Its rows are in the tables of windows, so the next batch may be read.
            (_, Due::Nothing(permit)) => (None, Some(permit)),
            _ => (None, None),
        };
        let batch = batch.filter(|batch| batch.num_rows() > 0);
        Ok(batch.map(|batch| Delivered::Batch(batch, permit)))
    }
}

impl CpuOperator for Sink {
    fn compute(&mut self, work: &mut CpuWork<'_>) -> Result<Step, OperatorError> {
        let number = work.source().ok_or(StreamError::Ended)?;
        let delivered = self.deliver(number, work.input())?;
        self.early.insert(number, delivered);
        while let Some(delivered) = self.early.remove(&self.next) {
            self.next += 1;
            if let Some(delivered) = delivered {
                if let Delivered::Batch(batch, _) = &delivered {
                    self.ledger.metrics.output_rows.add(batch.num_rows());
                }
                // The reader is gone, and the source will end soon.
                let _ = self.results.send(delivered);
            }
        }
        self.ledger.metrics.frames.add(1);
        self.ledger.back.store(self.next, Ordering::Release);
        Ok(Step::Next)
    }
}
