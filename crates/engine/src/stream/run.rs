//! One run of a stream: the task that reads the input, the thread of its topology, and the stream of its
//! results.

use super::bind::{BoundStream, Results};
use super::error::StreamError;
use super::settings::{BLOCK_THREADS, StreamSettings};
use super::sink::{Delivered, Ledger, Sink, StreamMetrics};
use super::source::{Input, Source};
use super::strings::StreamStrings;
use super::windows::TABLE_FULL;
use crate::device::persistent::Counted;
use crate::device::{DeviceRuntime, RunError};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::{StreamExt, stream};
use galatea_device::{DeviceBuffer, Stream};
use galatea_expression::Number;
use galatea_flow::{Cpu, FlowError, FlowOptions, Topic, Topology};
use parking_lot::Mutex;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Maximum number of input batches in flight, until their results are read.
const BATCHES: usize = 16;
/// Maximum number of frames of a topic in flight.
const DEPTH: u32 = 64;

/// Inputs of a run.
pub(super) struct Run {
    pub(super) bound: Arc<BoundStream>,
    pub(super) settings: StreamSettings,
    pub(super) schema: SchemaRef,
    pub(super) runtime: Arc<DeviceRuntime>,
    pub(super) metrics: StreamMetrics,
}

impl Run {
    /// Starts the run over an input, and returns its results. The run ends when they are dropped.
    ///
    /// # Errors
    /// [`StreamError::Thread`].
    pub(super) fn start(
        self,
        input: SendableRecordBatchStream,
    ) -> Result<impl futures::Stream<Item = Result<RecordBatch>> + Send> {
        let (batches, received) = mpsc::channel();
        let reader = SpawnedTask::spawn(read(input, batches));
        let (results, delivered) = unbounded_channel();
        let counted = Counted::new();
        let started = std::thread::Builder::new()
            .name("galatea-stream".to_owned())
            .spawn(move || {
                let _counted = counted;
                let ledger = Arc::new(Ledger::new(self.metrics.clone()));
                let texts = Arc::new(StreamStrings::default());
                let source = Source::new(
                    Arc::clone(&self.bound),
                    Arc::clone(&texts),
                    Arc::clone(&ledger),
                    received,
                );
                let sink = Sink::new(
                    Arc::clone(&self.bound),
                    Arc::clone(&self.schema),
                    texts,
                    Arc::clone(&ledger),
                    results.clone(),
                );
                let ran = self.run(source, sink);
                let outcome = match ledger.failure() {
                    Some(error) => Err(error),
                    None => ran,
                };
                // The reader may have been dropped.
                let _ = results.send(Delivered::End(outcome));
            });
        started.map_err(StreamError::Thread)?;
        let reading = Reading {
            delivered,
            _reader: reader,
        };
        Ok(stream::try_unfold(reading, Reading::next))
    }

    /// Runs the topology to its end.
    fn run(&self, source: Source, sink: Sink) -> Result<()> {
        let device = self.runtime.device();
        let stream = device.stream().map_err(StreamError::from)?;
        let memory =
            Memory::new(self, &stream).map_err(|error| DataFusionError::External(Box::new(error)))?;
        stream.synchronize().map_err(StreamError::from)?;
        let blocks = self.settings.blocks;
        let depth = DEPTH.max((2 * blocks).next_power_of_two());
        let bytes = self.bound.frame_bytes;
        let mut topology = Topology::new();
        let rows = topology.topic(Topic::new("rows").frame_bytes(bytes).depth(depth));
        let results = topology.topic(Topic::new("results").frame_bytes(bytes).depth(depth));
        topology
            .link(None, once("source of a stream", source), Some(rows))
            .link(Some(rows), memory.operator(&self.bound), Some(results))
            .link(Some(results), once("sink of a stream", sink), None);
        let mut options = FlowOptions {
            blocks: Some(blocks),
            block_threads: BLOCK_THREADS,
            ..FlowOptions::default()
        };
        if device.info().emulated {
            // Threads are fibers on the machine's cores. A block has the same number of threads as on a GPU:
            // frames are written in steps of that number, and the bytes beyond their last row depend on it.
            options.blocks = Some(blocks.min(2));
            options.timeout = Duration::from_secs(120);
        }
        let outcome = topology
            .run(device, &options)
            .map_err(|error| self.error(error))?;
        tracing::debug!(
            target: "galatea::stream",
            frames = outcome.published.first(),
            blocks = outcome.blocks,
            elapsed = ?outcome.elapsed,
            "a stream ended"
        );
        Ok(())
    }

    /// The error of a topology, in terms of the query.
    fn error(&self, error: FlowError) -> DataFusionError {
        let code = match &error {
            FlowError::DeviceOperator { code, .. } => *code,
            _ => 0,
        };
        if let (TABLE_FULL, Results::Windows(windows)) = (code, &self.bound.results) {
            return StreamError::Groups { limit: windows.limit }.into();
        }
        let raised = Number::meaning(code).and_then(|number| number.error(&self.bound.parameters.errors));
        match (raised, error) {
            (Some(raised), _) => raised.raised(&[]).into_row_error(&|_| None).into(),
            (None, FlowError::Device(error)) => StreamError::Device(error).into(),
            (None, error) => StreamError::Flow(error).into(),
        }
    }
}

/// An operator of one thread that has already been created.
fn once<O: galatea_flow::CpuOperator + 'static>(name: &str, operator: O) -> Cpu {
    let operator = Mutex::new(Some(operator));
    Cpu::new(name, 1, move |_| {
        operator.lock().take().expect("an operator of one thread")
    })
}

/// Device memory of a run.
struct Memory {
    error: DeviceBuffer<u32>,
    /// Tables of windows, and the number of groups of each.
    windows: Option<(DeviceBuffer<u8>, DeviceBuffer<u64>)>,
    tables: Vec<DeviceBuffer<u8>>,
}

impl Memory {
    fn new(run: &Run, stream: &Stream) -> Result<Self, RunError> {
        let device = run.runtime.device();
        let windows = match &run.bound.results {
            Results::Rows(_) => None,
            Results::Windows(windows) => {
                let bytes = windows.table_words() * 8;
                let slots = run.runtime.memory().allocate(stream, bytes)?;
                let full = || RunError::full(device.budget(), "tables of a stream's windows", bytes);
                let mut slots = slots.ok_or_else(full)?;
                stream.fill(&mut slots, 0)?;
                Some((slots, device.zeroed(stream, windows.tables as usize + 1)?))
            }
        };
        Ok(Self {
            error: device.zeroed(stream, 1)?,
            windows,
            tables: run
                .bound
                .tables()
                .map(|table| device.upload(stream, table))
                .collect::<Result<_, _>>()?,
        })
    }

    fn operator(&self, bound: &BoundStream) -> super::bind::StreamOperator {
        let windows = match &self.windows {
            Some((slots, groups)) => [slots.address(), groups.address()],
            None => [0; 2],
        };
        let tables: Vec<u64> = self.tables.iter().map(DeviceBuffer::address).collect();
        bound.operator(self.error.address(), windows, &tables)
    }
}

/// Passes the batches of an input to the source.
async fn read(mut input: SendableRecordBatchStream, batches: mpsc::Sender<Input>) {
    let permits = Arc::new(Semaphore::new(BATCHES));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let next = match input.next().await {
            Some(Ok(batch)) => Input::Batch(batch, Arc::new(permit)),
            Some(Err(error)) => Input::Failed(error),
            None => Input::End,
        };
        let goes_on = matches!(next, Input::Batch(..));
        // The run may have failed.
        if batches.send(next).is_err() || !goes_on {
            return;
        }
    }
}

/// The reader's side of a run: if it is dropped, the task that reads the input ends, and then the source.
struct Reading {
    delivered: UnboundedReceiver<Delivered>,
    _reader: SpawnedTask<()>,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        match self.delivered.recv().await {
            Some(Delivered::Batch(batch, permit)) => {
                drop(permit);
                Ok(Some((batch, self)))
            }
            Some(Delivered::End(outcome)) => outcome.map(|()| None),
            None => Err(StreamError::Ended.into()),
        }
    }
}
