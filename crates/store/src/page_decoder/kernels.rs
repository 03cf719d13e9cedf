//! The kernels of a decoder, compiled on a thread of their own at the first load: a device opens without
//! them, and queries that load no Parquet file never compile them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use galatea_device::{Device, RETRY};
use galatea_parquet::Decoder;
use parking_lot::{Condvar, Mutex};

/// Kernels that may still be compiling.
#[derive(Debug)]
pub(super) struct DecoderKernels {
    device: Device,
    state: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Debug)]
enum Progress {
    Idle,
    Compiling,
    Ready(Arc<Decoder>),
    /// Compiling failed. It is tried again after [`RETRY`].
    Failed(Instant),
}

/// The kernels at a time.
#[derive(Debug)]
pub(super) enum State {
    Compiling,
    Ready(Arc<Decoder>),
    Failed,
}

/// Records a failure if the compiling thread ends without a result.
struct Ending(Arc<DecoderKernels>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, Progress::Compiling) {
            *state = Progress::Failed(Instant::now());
        }
        drop(state);
        self.0.ended.notify_all();
    }
}

impl DecoderKernels {
    pub(super) fn new(device: &Device) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            state: Mutex::new(Progress::Idle),
            ended: Condvar::new(),
        })
    }

    /// Starts compiling, unless it has started, or failed a short while ago.
    fn start(self: &Arc<Self>) {
        let mut state = self.state.lock();
        match *state {
            Progress::Compiling | Progress::Ready(_) => return,
            Progress::Failed(at) if at.elapsed() < RETRY => return,
            Progress::Idle | Progress::Failed(_) => *state = Progress::Compiling,
        }
        drop(state);
        let ending = Ending(Arc::clone(self));
        let compile = move || {
            let kernels = &ending.0;
            match Decoder::new(&kernels.device) {
                Ok(decoder) => *kernels.state.lock() = Progress::Ready(Arc::new(decoder)),
                Err(error) => tracing::warn!("the host decodes Parquet pages: {error}"),
            }
        };
        let thread = std::thread::Builder::new().name("galatea-parquet".into());
        if let Err(error) = thread.spawn(compile) {
            tracing::warn!("the host decodes Parquet pages: {error}");
        }
    }

    /// The kernels, after waiting for at most `patience` while they are compiling.
    pub(super) fn within(self: &Arc<Self>, patience: Duration) -> State {
        self.start();
        let mut state = self.state.lock();
        if matches!(*state, Progress::Compiling) && !patience.is_zero() {
            self.ended.wait_for(&mut state, patience);
        }
        match &*state {
            Progress::Ready(decoder) => State::Ready(Arc::clone(decoder)),
            Progress::Idle | Progress::Compiling => State::Compiling,
            Progress::Failed(_) => State::Failed,
        }
    }
}
