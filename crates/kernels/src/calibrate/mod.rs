//! Measuring a device: the rates of its memory and its link with our own kernels and copies, as ceilings for
//! plans and reports.
//!
//! Ceilings are the best of several runs after a warm-up run, timed by events on the device; latencies are
//! medians of host time, and the rates for the model of grouped aggregation ([`GroupingProbes`]) medians of
//! device time. Sizes are large enough to hide start-up and small enough to measure everything in a few
//! seconds: at most a quarter of the free memory, and 1 GiB on a large card. On an emulated device all sizes
//! are small and the figures are meaningless, so none are stored.

mod chunks;
mod grouping;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use galatea_device::{
    Calibration, Device, DeviceBuffer, DeviceError, HostMemory, HostView, In, LinkRates, Out, Result, Stream,
};

pub use self::grouping::{GroupingProbes, ReadRate};
use crate::kernels::{CopyBandwidth, FillPattern, Nothing, ReadBandwidth};

const RUNS: usize = 5;
const LAUNCHES: u32 = 1000;
const MIB: u64 = 1 << 20;

/// Measures a device, which should be idle, and replaces the stored figures.
///
/// # Errors
/// [`DeviceError::NotTimed`] for the emulated device, [`DeviceError::Io`] when the cache folder cannot be
/// written; those of [`measure`].
pub fn calibrate(device: &Device) -> Result<Calibration> {
    let info = device.info();
    if info.emulated {
        return Err(DeviceError::NotTimed {
            device: info.name.clone(),
        });
    }
    let calibration = measure(device)?;
    calibration.store(device)?;
    Ok(calibration)
}

/// The calibration stored for a device and its driver, or a new one.
///
/// # Errors
/// Those of [`calibrate`].
pub fn calibration(device: &Device) -> Result<Calibration> {
    match Calibration::load(device) {
        Ok(Some(stored)) => Ok(stored),
        Ok(None) | Err(_) => calibrate(device),
    }
}

/// Measures a device, which should be idle. Takes a few seconds on a GPU.
///
/// # Errors
/// [`DeviceError::OutOfMemory`] when the budget leaves too little; [`DeviceError::WrongResult`] when a
/// measured kernel returns a wrong result; the device's.
pub fn measure(device: &Device) -> Result<Calibration> {
    let stream = device.stream()?;
    let bytes = measured_bytes(device);
    let (hbm_read, hbm_copy) = device_memory(device, &stream, bytes)?;
    let link = link(device, &stream, (bytes / 4).max(MIB / 4))?;
    let (launch_nanoseconds, round_trip_nanoseconds) = launches(device, &stream)?;
    // Different data each time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = u64::from(now.subsec_nanos());
    let probes = GroupingProbes::new(device, RUNS, seed)?;
    Ok(Calibration {
        measured_at: now.as_secs(),
        hbm_read,
        hbm_copy,
        h2d: link.h2d,
        d2h: link.d2h,
        both_ways: link.both_ways,
        h2d_pageable: link.h2d_pageable,
        pinning: link.pinning,
        launch_nanoseconds,
        round_trip_nanoseconds,
        grouping: probes.rates()?,
        // Measured above this crate, which has no transfer methods.
        link: LinkRates::default(),
        chunks: Some(chunks::times(device, seed)?),
    })
}

/// Bytes of device memory that are read.
fn measured_bytes(device: &Device) -> u64 {
    let largest = if device.info().emulated { MIB } else { 1024 * MIB };
    (device.budget().available() / 4).clamp(MIB / 4, largest) / 16 * 16
}

/// Bytes per second of reading, and of reading and writing in a copy.
fn device_memory(device: &Device, stream: &Stream, bytes: u64) -> Result<(f64, f64)> {
    let values = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
    let mut source = device.alloc::<u64>(stream, values)?.assume_written();
    FillPattern::new(device)?.launch(stream, Out(&mut source), 1)?;
    let read = ReadBandwidth::new(device)?;
    let mut sums = device.zeroed::<u64>(stream, read.blocks())?;
    let reading = best(stream, || read.launch(stream, In(&source), Out(&mut sums)))?;
    let copy = CopyBandwidth::new(device)?;
    let mut target = device.alloc::<u64>(stream, values)?.assume_written();
    let copying = best(stream, || copy.launch(stream, In(&source), Out(&mut target)))?;
    Ok((rate(source.bytes(), reading), rate(2 * source.bytes(), copying)))
}

struct Link {
    h2d: f64,
    d2h: f64,
    both_ways: f64,
    h2d_pageable: f64,
    pinning: f64,
}

fn link(device: &Device, stream: &Stream, bytes: u64) -> Result<Link> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut buffer = device.alloc::<u8>(stream, size)?.assume_written();
    let mut other = device.zeroed::<u8>(stream, size)?;

    let memory = HostMemory::new(size)?.into_view();
    let h2d_pageable = rate(
        bytes,
        best(stream, || stream.copy_to_device(&mut buffer, &memory))?,
    );
    let start = Instant::now();
    device.pin(memory.memory())?;
    let pinning = rate(bytes, start.elapsed());
    let h2d = rate(
        bytes,
        best(stream, || stream.copy_to_device(&mut buffer, &memory))?,
    );

    let mut target = Arc::new(HostMemory::new(size)?);
    device.pin(&target)?;
    let mut down = Duration::MAX;
    for _ in 0..=RUNS {
        let start = stream.record()?;
        let download = stream.copy_to_host(&other, target, 0)?;
        let end = stream.record()?;
        target = download.wait()?;
        down = down.min(end.elapsed_since(&start)?);
    }

    let both_ways = both_ways(device, stream, (&mut buffer, &memory), (&mut other, target))?;
    Ok(Link {
        h2d,
        d2h: rate(bytes, down),
        both_ways: rate(2 * bytes, both_ways),
        h2d_pageable,
        pinning,
    })
}

/// Best time of an upload and a download on two streams, from the start of the first to the end of the last.
fn both_ways(
    device: &Device,
    up: &Stream,
    (buffer, source): (&mut DeviceBuffer<u8>, &HostView),
    (other, mut target): (&mut DeviceBuffer<u8>, Arc<HostMemory>),
) -> Result<Duration> {
    let down = device.stream()?;
    let mut both = Duration::MAX;
    for _ in 0..=RUNS {
        let start = up.record()?;
        down.wait(&start)?;
        let download = down.copy_to_host(&*other, target, 0)?;
        up.copy_to_device(&mut *buffer, source)?;
        up.wait(&down.record()?)?;
        let end = up.record()?;
        target = download.wait()?;
        both = both.min(end.elapsed_since(&start)?);
    }
    Ok(both)
}

/// Nanoseconds of a launch in a sequence of many, and of one that the host waits for.
fn launches(device: &Device, stream: &Stream) -> Result<(f64, f64)> {
    let nothing = Nothing::new(device)?;
    let count = if device.info().emulated {
        LAUNCHES / 20
    } else {
        LAUNCHES
    };
    nothing.launch(stream)?;
    stream.synchronize()?;
    let start = Instant::now();
    for _ in 0..count {
        nothing.launch(stream)?;
    }
    stream.synchronize()?;
    let each = nanoseconds(start.elapsed() / count);
    let mut round_trips = Vec::new();
    for _ in 0..count / 10 {
        let start = Instant::now();
        nothing.launch(stream)?;
        stream.synchronize()?;
        round_trips.push(start.elapsed());
    }
    round_trips.sort();
    let median = round_trips
        .get(round_trips.len() / 2)
        .copied()
        .unwrap_or_default();
    Ok((each, nanoseconds(median)))
}

/// Best device time of some work, after a warm-up run.
fn best(stream: &Stream, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    work()?;
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        best = best.min(time(stream, &mut work)?);
    }
    Ok(best)
}

/// Device time of some work.
fn time(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = stream.record()?;
    work()?;
    let end = stream.record()?;
    end.elapsed_since(&start)
}

fn rate(bytes: u64, time: Duration) -> f64 {
    // A timer too coarse to measure the work yields one microsecond.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let bytes = bytes as f64;
    (bytes / time.as_secs_f64().max(1e-6)).round()
}

fn nanoseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round()
}
