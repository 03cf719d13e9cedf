//! The same work only by threads of the CPU.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use galatea_device::timed_together;

use super::batches::Run;
use super::load::{Load, Touch};
use super::stream::Shape;

/// The rate of threads that compute frames in place, and the times of frames.
pub(super) fn throughput(load: &Load, threads: usize, shape: &Shape) -> Run {
    // Each thread has its own frames, which together exceed its caches.
    const FRAMES: usize = 32;
    let next = AtomicU64::new(0);
    let total = shape.frames.1;
    let work = || {
        let mut frames = vec![vec![0_u8; load.frame_bytes]; FRAMES];
        for (number, frame) in frames.iter_mut().enumerate() {
            load.fill(number as u64, Touch::All, frame);
        }
        let mut output = Vec::with_capacity(load.frame_bytes);
        load.on_cpu(0, &frames[0], &mut output);
        let begun = Instant::now();
        let mut times = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return (begun, Instant::now(), times);
            }
            let frame = &mut frames[number as usize % FRAMES];
            frame[..8].copy_from_slice(&number.to_le_bytes());
            let start = Instant::now();
            load.on_cpu(number, frame, &mut output);
            std::hint::black_box(&output);
            times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    };
    let (seconds, times) = timed_together((0..threads).map(|_| work));
    let mut times: Vec<u64> = times.into_iter().flatten().collect();
    times.sort_unstable();
    Run {
        rate: total as f64 * load.frame_bytes as f64 / seconds,
        latencies: times,
        calls: 0.0,
    }
}
