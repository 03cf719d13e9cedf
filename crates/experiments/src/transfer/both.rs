//! Both directions of the link at once.

use std::sync::Barrier;
use std::time::Instant;

use galatea_device::{Device, timed_together};
use galatea_memory::transfer::{
    Access, Capabilities, Meter, Method, Result, Transfer, TransferOptions, open,
};

use super::measure::{Rate, Source, seed_of};

/// Rates of one transfer method from the same runs.
#[derive(Debug, Clone)]
pub struct Directions {
    /// Reads only.
    pub reads: Rate,
    /// Writes only.
    pub writes: Rate,
    /// Reads and writes of the same number of bytes at the same time; counts the bytes of both.
    pub both: Rate,
}

/// The transfer methods that two streams can use at once. Those of managed memory cannot be, since the host
/// waits for all work of the device before it accesses a page.
#[must_use]
pub fn two_way_methods(device: &Device) -> Vec<Method> {
    let capabilities = Capabilities::probe(device);
    let managed = [Method::UnifiedPrefetch, Method::UnifiedMigration];
    let ways = Method::ALL.into_iter();
    ways.filter(|way| !managed.contains(way) && capabilities.has(*way).is_ok())
        .collect()
}

/// One direction, with its own memory and stream.
struct Direction {
    access: Access,
    meter: Meter,
    transfer: Box<dyn Transfer>,
    chunk: usize,
}

impl Direction {
    fn new(
        device: &Device,
        method: Method,
        access: Access,
        bytes: usize,
        options: &TransferOptions,
    ) -> Result<Self> {
        Ok(Self {
            access,
            // Kernels of both directions fit the device at once.
            meter: Meter::new(device)?.beside(2),
            transfer: open(device, method, bytes, options)?,
            chunk: options.chunk_bytes,
        })
    }

    /// Waits for all parties at a barrier, and then moves all bytes. Returns the times of beginning and end.
    fn run(&mut self, seed: u64, begin: &Barrier) -> (Instant, Instant, Result<()>) {
        let bytes = self.transfer.host().map(|host| host.len());
        begin.wait();
        let begun = Instant::now();
        let (transfer, access) = (&mut *self.transfer, self.access);
        let moved = bytes.and_then(|bytes| self.meter.go(transfer, self.chunk, access, (seed, bytes)));
        (begun, Instant::now(), moved)
    }

    fn rate(&self, values: Vec<f64>) -> Rate {
        Rate {
            source: Source::Way(self.transfer.method()),
            access: self.access,
            piece: self.chunk as u64,
            random: false,
            values,
        }
    }
}

/// The rates of a transfer method for reads, for writes, and for both at once, by two threads and two
/// streams. Each moves its own `bytes` bytes. Chunks and bytes must be multiples of 4 KiB.
///
/// # Errors
/// The errors of [`super::rates`].
///
/// # Panics
/// If a kernel read or wrote wrong values.
pub fn both_directions(
    device: &Device,
    method: Method,
    bytes: usize,
    options: &TransferOptions,
    runs: usize,
) -> Result<Directions> {
    let mut reader = Direction::new(device, method, Access::Read, bytes, options)?;
    let mut writer = Direction::new(device, method, Access::Write, bytes, options)?;
    let mut values: [Vec<f64>; 3] = Default::default();
    for run in 0..=runs {
        for (which, values) in values.iter_mut().enumerate() {
            let seed = seed_of(3 * run + which);
            // Reads, writes, both.
            let (reads, writes) = (which != 1, which != 0);
            let sides = [(&mut reader, reads), (&mut writer, writes)];
            let mut sides: Vec<&mut Direction> = sides
                .into_iter()
                .filter_map(|(side, moves)| moves.then_some(side))
                .collect();
            let mut sums = Vec::new();
            for side in &mut sides {
                sums.push(side.meter.prepare(&mut *side.transfer, seed)?.0);
            }
            let begin = &Barrier::new(sides.len());
            let works = sides.iter_mut().map(|side| move || side.run(seed, begin));
            let (seconds, moved) = timed_together(works);
            moved.into_iter().collect::<Result<()>>()?;
            for (side, sum) in sides.iter_mut().zip(sums) {
                let (transfer, access) = (&mut *side.transfer, side.access);
                side.meter.check(transfer, side.chunk, access, (seed, sum))?;
            }
            if run > 0 {
                values.push((sides.len() * bytes) as f64 / seconds);
            }
        }
    }
    let [reads, writes, both] = values;
    Ok(Directions {
        reads: reader.rate(reads),
        writes: writer.rate(writes),
        both: reader.rate(both),
    })
}
