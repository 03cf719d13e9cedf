//! `clock64` and `globaltimer`.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// `__galatea_runtime::clock`: 0 returns ticks of a fictitious 1 GHz clock, 1 nanoseconds since the epoch.
pub(crate) unsafe extern "C" fn clock(kind: u32) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    if kind == 0 {
        return START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    }
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}
