//! The devices of the process, each with its primary context: the streams of a device, and the pool that
//! executes their launches.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::device::Device;
use crate::options::EmulatorOptions;
use crate::pool::Pool;
use crate::stream::Stream;

/// A device and its primary context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: Arc<Device>,
    pool: Arc<Pool>,
    streams: Mutex<Vec<Weak<Stream>>>,
    default_stream: Mutex<Option<Arc<Stream>>>,
    /// Number of retains of the primary context.
    retained: AtomicU32,
}

static CONTEXTS: RwLock<Vec<Arc<Context>>> = RwLock::new(Vec::new());

impl Deref for Context {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl Context {
    /// Adds a device. Its ordinal is its position in the list.
    pub(crate) fn add(options: EmulatorOptions) -> i32 {
        let mut contexts = CONTEXTS.write();
        let ordinal = contexts.len() as i32;
        contexts.push(Arc::new(Context {
            pool: Pool::new(options.workers(), options.stack_bytes),
            device: Arc::new(Device::new(ordinal, options)),
            streams: Mutex::default(),
            default_stream: Mutex::default(),
            retained: AtomicU32::new(0),
        }));
        ordinal
    }

    /// The context of the device with that ordinal.
    pub(crate) fn get(ordinal: i32) -> Option<Arc<Context>> {
        CONTEXTS.read().get(usize::try_from(ordinal).ok()?).cloned()
    }

    /// Number of devices.
    pub(crate) fn count() -> i32 {
        CONTEXTS.read().len() as i32
    }

    pub(crate) fn retain(&self) {
        self.retained.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases one retain. The last release ends the context and clears the sticky error. Returns false if
    /// the context was not retained.
    pub(crate) fn release(&self) -> bool {
        let released = self
            .retained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        if released == Ok(1) {
            self.synchronize();
            self.device.recover();
        }
        released.is_ok()
    }

    /// Creates a stream.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        let stream = Stream::new(&self.device, &self.pool);
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        stream
    }

    /// The stream of handle 0.
    pub(crate) fn default_stream(&self) -> Arc<Stream> {
        Arc::clone(self.default_stream.lock().get_or_insert_with(|| self.stream()))
    }

    /// Waits for everything on all streams.
    pub(crate) fn synchronize(&self) {
        let streams: Vec<_> = self.streams.lock().iter().filter_map(Weak::upgrade).collect();
        for stream in streams {
            stream.synchronize();
        }
    }
}
