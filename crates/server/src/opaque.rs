//! Values that the compiler does not look into.
//!
//! Plans and session states of DataFusion are large recursive types. To let a future with such a value move
//! between threads, the compiler checks all of them, for each future anew, which takes minutes. A trait
//! object states the result instead.

use std::ops::Deref;
use std::sync::Arc;

/// A value of any type that threads may share.
trait Held<T>: Send + Sync {
    fn held(&self) -> &T;
}

impl<T: Send + Sync> Held<T> for T {
    fn held(&self) -> &T {
        self
    }
}

/// A shared value behind a trait object.
pub(crate) struct Opaque<T>(Arc<dyn Held<T>>);

impl<T: Send + Sync + 'static> Opaque<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Opaque<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Opaque<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().held()
    }
}

impl<T> std::fmt::Debug for Opaque<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}
