//! Handles that replace the driver's opaque pointers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

/// Objects by handle. Handles are never reused, never null and never valid addresses, so that a stale or
/// foreign handle is detected as invalid instead of being dereferenced.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    objects: RwLock<Option<HashMap<usize, Arc<T>>>>,
}

static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles {
            objects: RwLock::new(None),
        }
    }

    /// Stores an object under a new handle, which is valid until [`remove`](Self::remove).
    pub(crate) fn insert(&self, object: Arc<T>) -> usize {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        self.objects
            .write()
            .get_or_insert_default()
            .insert(handle, object);
        handle
    }

    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.objects.read().as_ref()?.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.objects.write().as_mut()?.remove(&handle)
    }
}
