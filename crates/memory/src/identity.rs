//! Names of encoded data that last as long as the data, and tell holders of copies when it is dropped.
//!
//! A copy in device memory must not keep the original alive, or dropped tables would fill host memory; nor
//! may it outlive the original for long. So the holder of a copy has a [`Weak`] to the [`Identity`] of the
//! original: its address is a key that is not used again as long as the reference exists, and
//! [`Identity::tell`] has it told when the copy is of no use any more.

use std::fmt;
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A holder of copies, or of objects made of originals.
pub trait Holder: Send + Sync {
    /// An original was dropped: releases objects made of dropped originals, which their weak references show.
    fn let_go(&self);
}

/// Names a column or a chunk of one. Compared by address.
#[derive(Default)]
pub struct Identity {
    holders: Mutex<Vec<Weak<dyn Holder>>>,
}

impl Identity {
    /// Has `holder` told when the last owner drops the data that this names, on the thread that does; once,
    /// however often it asks.
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
