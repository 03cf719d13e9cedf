//! Host memory of copies that are in progress when the device is lost: only the copy reads and writes it
//! until the copy is done.
//!
//! Copies to memory that is not pinned are done when the driver returns, so all memory here is pinned.
#![forbid(unsafe_code)]

use galatea_device::{
    Device, DeviceBuffer, DeviceError, DeviceOptions, DriverCall, EmulatorOptions, FaultCode, Faults,
    HostMemory, HostView, Stream,
};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const BYTES: usize = 4096;

/// Time between the begin of a copy and the moment when it moves its bytes.
const COPY_TIME: Duration = Duration::from_millis(300);

/// A device whose copies are slow, with two streams and memory on it.
struct Bed {
    faults: Faults,
    /// Memory that no copy uses.
    idle: Option<Arc<HostMemory>>,
    device: Device,
    stream: Stream,
    other: Stream,
    source: DeviceBuffer<u8>,
}

impl Bed {
    fn new() -> Self {
        let faults = Faults::default();
        let options = EmulatorOptions {
            faults: faults.clone(),
            ..EmulatorOptions::default()
        };
        let device = Device::emulated(options, DeviceOptions::default()).expect("always there");
        let (stream, other) = (
            device.stream().expect("a stream"),
            device.stream().expect("a stream"),
        );
        let source = device.zeroed::<u8>(&stream, 2 * BYTES).expect("device memory");
        stream.synchronize().expect("done");
        faults.slow_copies(COPY_TIME);
        let mut bed = Self {
            faults,
            idle: None,
            device,
            stream,
            other,
            source,
        };
        bed.idle = Some(bed.pinned());
        bed
    }

    fn pinned(&self) -> Arc<HostMemory> {
        let memory = Arc::new(HostMemory::new(2 * BYTES).expect("host memory"));
        self.device.pin(&memory).expect("pinned");
        memory
    }

    fn wait_for_copy(&self) {
        let began = Instant::now();
        while self.faults.copies_under_way() == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "no copy begins");
            thread::yield_now();
        }
    }

    /// Loses the device by work that is unrelated to the copy.
    fn lose(&self) {
        self.faults.fail(DriverCall::Allocate, 0, 1, FaultCode::Lost);
        let error = self
            .device
            .alloc::<u8>(&self.other, 1)
            .map(drop)
            .expect_err("lost");
        assert!(error.is_device_lost(), "{error}");
    }

    /// Checks that the copy was in progress when the device was lost, and is over now.
    fn is_over(&self, outcome: Result<(), DeviceError>) {
        let under_way = self.faults.copies_under_way();
        assert!(outcome.expect_err("lost").is_device_lost());
        assert_eq!(under_way, 0, "the memory was given back under a copy");
    }
}

#[test]
fn failed_multi_range_read_waits_for_earlier_copies() {
    let bed = Bed::new();
    let mut memory = bed.pinned();
    let target = Arc::get_mut(&mut memory).unwrap().as_mut_slice();
    let (first, second) = target.split_at_mut(BYTES);
    let pieces = [(0..BYTES, first), (BYTES..2 * BYTES, second)];
    let pieces = pieces.into_iter().enumerate().map(|(number, (range, target))| {
        if number == 1 {
            bed.wait_for_copy();
            bed.faults.fail(DriverCall::CopyToHost, 0, 1, FaultCode::Lost);
        }
        (bed.source.slice(range).unwrap(), target)
    });
    bed.is_over(bed.stream.read_each(pieces));
}

#[test]
fn dropped_download_waits_for_its_copy() {
    let bed = Bed::new();
    let source = bed.source.slice(..BYTES).unwrap();
    let download = bed.stream.copy_to_host(source, bed.pinned(), 0).unwrap();
    bed.wait_for_copy();
    bed.lose();
    bed.is_over(download.wait().map(drop));
}

#[test]
fn download_waits_for_its_stream_if_its_event_fails() {
    for call in [DriverCall::CreateEvent, DriverCall::RecordEvent] {
        let bed = Bed::new();
        let source = bed.source.slice(..BYTES).unwrap();
        let first = bed.stream.copy_to_host(source, bed.pinned(), 0).unwrap();
        bed.wait_for_copy();
        let memory = bed.pinned();
        bed.faults.fail(call, 0, 1, FaultCode::Lost);
        bed.is_over(bed.stream.copy_to_host(source, memory, 0).map(drop));
        drop(first);
    }
}

#[test]
fn upload_waits_for_its_stream_if_its_event_fails() {
    for call in [DriverCall::CreateEvent, DriverCall::RecordEvent] {
        let mut bed = Bed::new();
        let view = |memory| HostView::new(memory, 0, 2 * BYTES).unwrap();
        let first = view(bed.pinned());
        bed.stream.copy_to_device(&mut bed.source, &first).unwrap();
        bed.wait_for_copy();
        let second = view(bed.pinned());
        bed.faults.fail(call, 0, 1, FaultCode::Lost);
        let outcome = bed.stream.copy_to_device(&mut bed.source, &second);
        bed.is_over(outcome);
    }
}

#[test]
fn dropped_stream_waits_for_copies_of_its_memory() {
    let mut bed = Bed::new();
    let stream = bed.device.stream().unwrap();
    let view = HostView::new(bed.pinned(), 0, 2 * BYTES).unwrap();
    stream.copy_to_device(&mut bed.source, &view).unwrap();
    bed.wait_for_copy();
    bed.lose();
    drop(stream);
    bed.is_over(bed.device.alive());
    drop(view);
}

/// Independently of the copy's origin, pinned memory is in use until the device has finished with it.
#[test]
fn dropped_pinned_memory_waits_for_the_device() {
    let mut bed = Bed::new();
    let view = HostView::new(bed.pinned(), 0, 2 * BYTES).unwrap();
    bed.stream.copy_to_device(&mut bed.source, &view).unwrap();
    bed.wait_for_copy();
    bed.lose();
    drop(bed.idle.take());
    bed.is_over(bed.device.alive());
}
