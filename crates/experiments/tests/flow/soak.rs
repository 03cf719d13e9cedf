//! Random streams, some with injected failures.

use std::time::Duration;

use galatea_experiments::flow::{Soak, soak};

use crate::emulated;

/// The test that `measure soak` runs for minutes.
#[test]
fn short_soak_test_loses_no_frames() {
    let device = emulated(71);
    let streams = Soak {
        time: Duration::from_secs(5),
        seed: 1,
        frames: 60,
        frame_bytes: 8 << 10,
        blocks: (3, 128),
    };
    let seen = soak(&device, &streams, &mut |_| {}).unwrap();
    assert!(seen.streams > 0 && seen.frames > 0, "{seen:?}");
}
