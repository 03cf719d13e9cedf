//! The queue of a result between the run that computes it and the query that reads it.
//!
//! A result that fits `galatea.memory.result_buffer` is returned when its run has ended: if the run fails
//! before, the CPU runs the query as if the run had never begun. A larger result is streamed: its rows are
//! read while the run continues, the run waits if the buffer is full, and a failure after the first rows
//! fails the query. A run does not wait for its reader while other queries wait for the device, nor if it
//! occupies the thread of its reader.

use crate::device::RunError;
use crate::device::check;
use arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use galatea_memory::regions::AdmissionController;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Interval at which a run that waits for its reader checks whether it was cancelled, or blocks others from
/// the device.
const LOOK: Duration = Duration::from_millis(10);

/// The batches of one run, in order.
#[derive(Debug)]
pub(crate) struct ResultQueue {
    state: Mutex<State>,
    /// Notified when a batch was read.
    read: Condvar,
    /// Maximum bytes that wait to be read, unless one batch is larger or others wait for the device.
    limit: usize,
    /// The reservation in the session's memory pool for waiting batches and the one read last.
    claim: Option<MemoryReservation>,
    /// Maximum number of rows of one run.
    most_rows: u64,
    /// Whether the reader cannot read before the run has ended.
    unread: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<(RecordBatch, usize)>,
    /// Number of rows of all pushed batches.
    rows: u64,
    /// Bytes of all waiting batches.
    bytes: usize,
    /// Bytes of the batch read last, which its reader may still hold.
    held: usize,
    /// Number of leading batches that belong to completed runs.
    settled: usize,
    /// Whether batches are read before the run has ended.
    flows: bool,
    reader: Option<Waker>,
}

impl ResultQueue {
    /// A queue for a result with up to `limit` waiting bytes, reserved in `claim`.
    pub(crate) fn new(limit: usize, claim: MemoryReservation) -> Self {
        Self {
            claim: Some(claim),
            limit,
            ..Self::whole()
        }
    }

    /// A queue for a result that is read when the run has ended.
    pub(crate) fn whole() -> Self {
        Self {
            state: Mutex::default(),
            read: Condvar::new(),
            limit: usize::MAX,
            claim: None,
            most_rows: u64::MAX,
            unread: AtomicBool::new(false),
        }
    }

    /// A queue for a result that is read when the run has ended, with at most this number of rows.
    pub(crate) fn of_rows(most: u64) -> Self {
        Self {
            most_rows: most,
            ..Self::whole()
        }
    }

    /// Runs the producer on the thread of the reader, so that pushes do not wait for reads meanwhile.
    pub(crate) fn filled_by<T>(&self, run: impl FnOnce() -> T) -> T {
        self.unread.store(true, Ordering::Relaxed);
        let outcome = run();
        self.unread.store(false, Ordering::Relaxed);
        outcome
    }

    /// Adds a batch, and waits until it fits.
    ///
    /// # Errors
    /// [`RunError::Cancelled`]; [`RunError::ManyRows`] beyond its maximum number of rows; [`RunError::Pool`]
    /// if the session's memory cannot hold the batch, and the batches before it will not be read.
    pub(crate) fn push(
        &self,
        batch: RecordBatch,
        admission: &AdmissionController,
        cancelled: &AtomicBool,
    ) -> Result<(), RunError> {
        let bytes = batch.get_array_memory_size();
        let mut state = self.state.lock();
        state.rows += batch.num_rows() as u64;
        if state.rows > self.most_rows {
            return Err(RunError::ManyRows);
        }
        loop {
            let alone = state.batches.is_empty();
            let hurries = self.unread.load(Ordering::Relaxed) || admission.are_awaited();
            if alone || hurries || state.bytes.saturating_add(bytes) <= self.limit {
                match self.claim.as_ref().map_or(Ok(()), |claim| claim.try_grow(bytes)) {
                    Ok(()) => break,
                    Err(refused) if hurries || (alone && state.held == 0) => {
                        return Err(RunError::Pool(refused));
                    }
                    Err(_) => {}
                }
            }
            state.flows = true;
            state.wake();
            check(cancelled)?;
            self.read.wait_for(&mut state, LOOK);
        }
        state.bytes += bytes;
        state.batches.push_back((batch, bytes));
        state.wake();
        Ok(())
    }

    /// Drops the batches of a failed run, before another attempt; `false` if some may have been read.
    pub(crate) fn restart(&self) -> bool {
        let mut state = self.state.lock();
        if state.flows {
            return false;
        }
        let settled = state.settled;
        let (mut rows, mut bytes) = (0, 0);
        for (batch, size) in state.batches.drain(settled..) {
            rows += batch.num_rows() as u64;
            bytes += size;
        }
        state.rows -= rows;
        state.bytes -= bytes;
        if let Some(claim) = &self.claim {
            claim.shrink(bytes);
        }
        true
    }

    /// The same for all runs.
    pub(crate) fn restart_all(&self) -> bool {
        self.state.lock().settled = 0;
        self.restart()
    }

    /// Keeps the batches of a completed run, regardless of the outcome of the next run over the same rows.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        state.settled = state.batches.len();
    }

    /// The next batch, once batches are streamed.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<RecordBatch> {
        let mut state = self.state.lock();
        let next = if state.flows { self.pop(&mut state) } else { None };
        match next {
            Some(batch) => Poll::Ready(batch),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next batch of a completed run.
    pub(crate) fn next(&self) -> Option<RecordBatch> {
        self.pop(&mut self.state.lock())
    }

    fn pop(&self, state: &mut MutexGuard<'_, State>) -> Option<RecordBatch> {
        let next = state.batches.pop_front();
        let bytes = next.as_ref().map_or(0, |(_, bytes)| *bytes);
        state.bytes -= bytes;
        let done = std::mem::replace(&mut state.held, bytes);
        if let Some(claim) = &self.claim {
            claim.shrink(done);
        }
        self.read.notify_one();
        next.map(|(batch, _)| batch)
    }
}

impl State {
    /// Wakes the reader, if it may read.
    fn wake(&mut self) {
        if self.flows
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    const ROWS: i64 = 128;

    fn batch(number: i64) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![number; ROWS as usize]));
        RecordBatch::try_from_iter([("number", values)]).unwrap()
    }

    fn number(batch: &RecordBatch) -> i64 {
        batch.column(0).as_primitive::<Int64Type>().value(0)
    }

    fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
        Arc::new(GreedyMemoryPool::new(bytes))
    }

    fn queue(limit: usize, pool: &Arc<dyn MemoryPool>) -> ResultQueue {
        ResultQueue::new(limit, MemoryConsumer::new("result").register(pool))
    }

    fn poll(queue: &ResultQueue) -> Poll<RecordBatch> {
        queue.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn small_result_is_buffered_until_its_run_ends() {
        let pool = pool(1 << 20);
        let queue = queue(1 << 20, &pool);
        let (admission, cancelled) = (AdmissionController::default(), AtomicBool::new(false));
        for number in 0..3 {
            queue.push(batch(number), &admission, &cancelled).unwrap();
        }
        assert!(poll(&queue).is_pending());
        assert!(queue.restart());
        assert_eq!(pool.reserved(), 0);
        queue.push(batch(7), &admission, &cancelled).unwrap();
        assert_eq!(queue.next().as_ref().map(number), Some(7));
        assert!(queue.next().is_none());
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn settled_batches_survive_restart_of_next_run() {
        let pool = pool(1 << 20);
        let queue = queue(1 << 20, &pool);
        let (admission, cancelled) = (AdmissionController::default(), AtomicBool::new(false));
        let push = |number| queue.push(batch(number), &admission, &cancelled).unwrap();
        push(1);
        queue.settle();
        let settled = pool.reserved();
        push(2);
        assert!(queue.restart());
        assert_eq!(pool.reserved(), settled);
        push(3);
        queue.settle();
        let numbers: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(numbers.iter().map(number).collect::<Vec<_>>(), [1, 3]);
        push(4);
        queue.settle();
        assert!(queue.restart_all());
        assert!(queue.next().is_none());
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn large_result_streams_in_order_within_buffer_limit() {
        let size = batch(0).get_array_memory_size();
        // The reservation holds the waiting batches and the one being read.
        let (pool, batches) = (pool(4 * size), 500);
        let queue = queue(3 * size, &pool);
        let (admission, cancelled, pushed) = (
            AdmissionController::default(),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..batches {
                    queue.push(batch(number), &admission, &cancelled).unwrap();
                    pushed.fetch_add(1, Ordering::Relaxed);
                }
            });
            for expected in 0..batches {
                let next = loop {
                    match poll(&queue) {
                        Poll::Ready(batch) => break batch,
                        Poll::Pending if pushed.load(Ordering::Relaxed) == batches as usize => {
                            break queue.next().expect("all were pushed");
                        }
                        Poll::Pending => std::thread::yield_now(),
                    }
                };
                assert_eq!(number(&next), expected);
                assert!(pushed.load(Ordering::Relaxed) <= expected as usize + 4);
                assert!(pool.reserved() <= 4 * size);
            }
        });
        assert!(!queue.restart(), "rows were read");
    }

    #[test]
    fn run_without_reader_ends_on_cancellation() {
        let pool = pool(1 << 20);
        let queue = queue(0, &pool);
        let (admission, cancelled) = (AdmissionController::default(), AtomicBool::new(false));
        queue.push(batch(0), &admission, &cancelled).unwrap();
        std::thread::scope(|scope| {
            let run = scope.spawn(|| queue.push(batch(1), &admission, &cancelled));
            cancelled.store(true, Ordering::Relaxed);
            assert!(matches!(run.join().unwrap(), Err(RunError::Cancelled)));
        });
    }

    #[test]
    fn batch_beyond_memory_pool_is_rejected() {
        let pool = pool(1);
        let queue = queue(1 << 20, &pool);
        let (admission, cancelled) = (AdmissionController::default(), AtomicBool::new(false));
        let refused = queue.push(batch(0), &admission, &cancelled);
        assert!(matches!(refused, Err(RunError::Pool(_))), "{refused:?}");
        assert_eq!(pool.reserved(), 0);
    }
}
