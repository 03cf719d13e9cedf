//! How long blocks have been without a buffer that they need.

use std::time::{Duration, Instant};

/// Blocks ask for a buffer that there is not, and no frame is read that could come back.
#[derive(Debug)]
pub(super) struct Shortage {
    /// Frames that operators on the CPU had read.
    moved: u64,
    begun: Instant,
    /// When a block asked last.
    asked: Instant,
}

impl Shortage {
    /// Its length, when a block asks. It begins anew when frames have been read, and when none has asked for
    /// longer than `pause`: the stream may have stood still in between for want of rows.
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
    fn a_shortage_is_as_long_as_blocks_ask_in_vain() {
        let (start, mut shortage) = (Instant::now(), None);
        let mut length = |at: u64, moved| {
            let now = start + Duration::from_millis(at);
            Shortage::length(&mut shortage, moved, now, Duration::from_millis(10)).as_millis()
        };
        assert_eq!([length(0, 5), length(8, 5), length(16, 5)], [0, 8, 16]);
        // A frame was read.
        assert_eq!([length(20, 6), length(25, 6)], [0, 5]);
        // None has asked for long.
        assert_eq!([length(90, 6), length(95, 6)], [0, 5]);
    }
}
