//! The time for which blocks have lacked a buffer.

use std::time::{Duration, Instant};

/// Blocks request a buffer, but none is available, and no frame is read that could be released.
#[derive(Debug)]
pub(super) struct Shortage {
    /// Frames that operators on the CPU had read at the beginning.
    moved: u64,
    begun: Instant,
    /// Time of the last request.
    asked: Instant,
}

impl Shortage {
    /// Length of the shortage at a request. It restarts if frames have been read, or if the last request is
    /// older than `pause`: the stream may have paused because it had no rows.
    pub(super) fn length(current: &mut Option<Self>, moved: u64, now: Instant, pause: Duration) -> Duration {
        let new = Self {
            moved,
            begun: now,
            asked: now,
        };
        let goes_on = |old: &Self| old.moved == moved && now - old.asked <= pause;
        let shortage = match current.take().filter(goes_on) {
            Some(old) => current.insert(old),
            None => current.insert(new),
        };
        shortage.asked = now;
        now - shortage.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_lasts_while_buffer_requests_fail() {
        let (start, mut shortage) = (Instant::now(), None);
        let mut length = |at: u64, moved| {
            let now = start + Duration::from_millis(at);
            Shortage::length(&mut shortage, moved, now, Duration::from_millis(10)).as_millis()
        };
        assert_eq!([length(0, 5), length(8, 5), length(16, 5)], [0, 8, 16]);
        // A frame was read.
        assert_eq!([length(20, 6), length(25, 6)], [0, 5]);
        // The last request is too old.
        assert_eq!([length(90, 6), length(95, 6)], [0, 5]);
    }
}
