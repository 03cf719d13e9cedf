//! Identities of encoded data. They live as long as the data, and notify holders of copies when the data is
//! dropped.
//!
//! A copy in device memory must not keep the original alive, or dropped tables would fill host memory. It
//! must not outlive the original for long either. So the holder of a copy has a [`Weak`] to the [`Identity`]
//! of the original: its address is a key that is not reused while the reference exists, and
//! [`Identity::tell`] registers the holder for a notification when the copy becomes useless.

use std::fmt;
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A holder of copies, or of objects derived from originals.
pub trait Holder: Send + Sync {
    /// Called when an original was dropped: releases objects of dropped originals. Their weak references are
    /// dead.
    fn let_go(&self);
}

/// Identifies a column or a chunk of one. Compared by address.
#[derive(Default)]
pub struct Identity {
    holders: Mutex<Vec<Weak<dyn Holder>>>,
}

impl Identity {
    /// Registers `holder` for a notification when the last owner drops the data of this identity, on the
    /// thread that drops it. A holder is notified once, however often it registers.
    pub fn tell(&self, holder: &Weak<dyn Holder>) {
        let mut holders = self.holders.lock();
        holders.retain(|known| known.strong_count() > 0);
        if !holders
            .iter()
            .any(|known| ptr::addr_eq(known.as_ptr(), holder.as_ptr()))
        {
            holders.push(Weak::clone(holder));
        }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let holders = self.holders.get_mut().drain(..);
        holders
            .filter_map(|holder| holder.upgrade())
            .for_each(|holder: Arc<dyn Holder>| holder.let_go());
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}
