//! Driver calls that fail on request while the manager runs: pages that are read have the right content, only
//! injected errors occur, memory that launches still read is not freed, and all memory is freed in the end.

use crate::{Column, own_device_with, peek, peek_kernel, watched};
use galatea_device::{
    Device, DeviceBuffer, DeviceError, DevicePointer, DriverCall, EmulatorOptions, FaultCode, Faults,
    Function, Geometry, Stream,
};
use galatea_memory::regions::{MemoryManager, Scan};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

/// Bytes of a page. The emulated device unmaps memory of this size as soon as it is freed.
const LARGE: usize = 128 << 10;

fn faulty_device() -> (Device, Faults) {
    let faults = Faults::default();
    let device = own_device_with(EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    });
    (device, faults)
}

/// Reads a page of the scan by a kernel, as queries do.
fn read_page(
    device: &Device,
    kernel: &Function,
    (transfer, compute): &(Stream, Stream),
    scan: &Scan<'_>,
    column: &Column,
    index: usize,
) -> Result<(), DeviceError> {
    let Some(page) = scan.page(0, index, true)? else {
        return Ok(());
    };
    let copy = |stream: &Stream, target: &mut DeviceBuffer<u8>| column.copy(index, stream, target);
    if let (Some(copied), _) = page.fetch(transfer, copy)? {
        compute.wait(&copied)?;
    }
    let output: DeviceBuffer<u64> = device.zeroed(compute, PAGE / 8)?;
    let arguments = crate::PeekArguments {
        from: DevicePointer::new(page.address()),
        to: DevicePointer::new(output.address()),
        gate: DevicePointer::new(0),
        words: PAGE as u64 / 8,
    };
    kernel.launch(compute, Geometry::new(1u32, 32u32), &arguments)?;
    match compute.record() {
        Ok(launch) => scan.used(&Arc::new(launch)),
        // No event marks the end of the launch, so wait before the pin is dropped.
        Err(error) => {
            compute.synchronize()?;
            return Err(error);
        }
    }
    drop(page);
    let words = compute.read(&output, ..)?;
    assert_eq!(
        words,
        column.pages[index].words(),
        "page {index} of {}",
        column.name
    );
    Ok(())
}

/// A query: scans, reads every page, and allocates working memory in between.
fn query(
    device: &Device,
    manager: &MemoryManager,
    kernel: &Function,
    column: &Column,
) -> Result<(), DeviceError> {
    let streams = (device.stream()?, device.stream()?);
    let mut scan = manager.scan([column].into_iter());
    scan.make_reserve()?;
    scan.pin();
    for index in 0..column.pages.len() {
        if index % 2 == 1 {
            scan.release();
            let working = manager.allocate(&streams.1, 2 * PAGE as u64)?;
            drop(working);
        }
        read_page(device, kernel, &streams, &scan, column, index)?;
    }
    Ok(())
}

/// Two concurrent queries under each failing call, with room for half of the pages that they read.
#[test]
fn queries_survive_every_failing_call() {
    watched(|| {
        let (device, faults) = faulty_device();
        let kernel = peek_kernel(&device);
        let mut injected = 0;
        for code in [FaultCode::OutOfMemory, FaultCode::Refused] {
            for call in DriverCall::ALL {
                for before in 0.. {
                    let context = format!("call {before} of {call:?} returns {code:?}");
                    let base = device.budget().used();
                    device.budget().set_limit(Some(base + 6 * PAGE as u64));
                    let manager = MemoryManager::new(&device).unwrap();
                    let columns = [Column::of("one", 4, PAGE), Column::of("other", 4, PAGE)];
                    faults.clear();
                    faults.fail(call, before, 1, code);
                    let errors: u32 = std::thread::scope(|scope| {
                        let queries = columns.each_ref().map(|column| {
                            let run = || query(&device, &manager, &kernel, column);
                            scope.spawn(run)
                        });
                        let failed = |error: &DeviceError| match error {
                            // The limit may be reached at any time.
                            DeviceError::OutOfMemory { .. } => 0,
                            DeviceError::Driver { .. } => 1,
                            error => panic!("{context}: {error}"),
                        };
                        let outcomes = queries.map(|query| query.join().expect(&context));
                        outcomes
                            .iter()
                            .map(|outcome| outcome.as_ref().err().map_or(0, failed))
                            .sum()
                    });
                    assert!(u64::from(errors) <= faults.injected(), "{context}");
                    let hit = faults.injected();
                    injected += hit;
                    faults.clear();
                    device.budget().set_limit(None);
                    for column in &columns {
                        query(&device, &manager, &kernel, column).expect(&context);
                        assert_eq!(manager.bytes_of(column), 4 * PAGE as u64, "{context}");
                    }
                    drop((columns, manager));
                    device.synchronize().unwrap();
                    assert_eq!(device.budget().used(), base, "{context}");
                    assert_eq!(device.memory_use().unwrap().pool_used, base, "{context}");
                    if hit == 0 {
                        break;
                    }
                }
            }
        }
        assert!(injected > 100, "{injected} calls failed");
    });
}

/// A period after which memory that is freed too early would be gone.
const AFTER_A_WHILE: Duration = Duration::from_millis(30);

/// Waits until a call was refused.
fn until_injected(faults: &Faults) {
    while faults.injected() == 0 {
        std::thread::yield_now();
    }
}

/// A launch that waits at its gate while it reads a page, and its output.
struct Gated {
    gate: DeviceBuffer<u64>,
    output: DeviceBuffer<u64>,
    compute: Stream,
    opener: Stream,
}

impl Gated {
    fn new(device: &Device, kernel: &Function, page: u64) -> Self {
        let (compute, opener) = (device.stream().unwrap(), device.stream().unwrap());
        let gate = device.zeroed(&opener, 1).unwrap();
        gate.used_by(&compute).unwrap();
        let output: DeviceBuffer<u64> = device.zeroed(&compute, LARGE / 8).unwrap();
        peek(
            kernel,
            &compute,
            page,
            output.address(),
            gate.address(),
            LARGE / 8,
        );
        Self {
            gate,
            output,
            compute,
            opener,
        }
    }

    /// Opens the gate after a while. Returns the words that the launch has read.
    fn finish(mut self) -> Vec<u64> {
        std::thread::sleep(AFTER_A_WHILE);
        self.opener.fill(&mut self.gate, 1).unwrap();
        self.compute.read(&self.output, ..).unwrap()
    }
}

/// After an eviction that failed half-way, the next one still waits for all launches.
#[test]
fn failed_eviction_still_waits_for_all_launches() {
    watched(|| {
        for before in 0..2 {
            let (device, faults) = faulty_device();
            let kernel = peek_kernel(&device);
            let manager = MemoryManager::new(&device).unwrap();
            let column = Column::of("column", 1, LARGE);
            crate::load(&manager, &device.stream().unwrap(), &column);
            let mut scan = manager.scan([&column].into_iter());
            scan.pin();
            let page = scan.page(0, 0, true).unwrap().unwrap();
            let launches = [(); 2].map(|()| Gated::new(&device, &kernel, page.address()));
            for launch in &launches {
                scan.used(&Arc::new(launch.compute.record().unwrap()));
            }
            drop((page, scan));
            faults.fail(DriverCall::WaitEvent, before, 1, FaultCode::Refused);
            assert!(manager.clear().is_err());
            assert_eq!((faults.injected(), manager.bytes()), (1, LARGE as u64));
            manager.clear().unwrap();
            assert_eq!(manager.bytes(), 0);
            for launch in launches {
                assert_eq!(launch.finish(), column.pages[0].words());
            }
        }
    });
}

/// A page of a dropped original is freed after the launches that read it; the host waits if the driver
/// refuses to wait.
#[test]
fn page_of_dropped_original_is_freed_after_launches() {
    watched(|| {
        let (device, faults) = faulty_device();
        let kernel = peek_kernel(&device);
        let manager = MemoryManager::new(&device).unwrap();
        let column = Column::of("column", 1, LARGE);
        crate::load(&manager, &device.stream().unwrap(), &column);
        let mut scan = manager.scan([&column].into_iter());
        scan.pin();
        let page = scan.page(0, 0, true).unwrap().unwrap();
        let launch = Gated::new(&device, &kernel, page.address());
        scan.used(&Arc::new(launch.compute.record().unwrap()));
        drop((page, scan));
        let words = column.pages[0].words();
        let read = std::thread::scope(|scope| {
            faults.fail(DriverCall::WaitEvent, 0, u64::MAX, FaultCode::Refused);
            let goes = scope.spawn(|| drop(column));
            until_injected(&faults);
            let read = launch.finish();
            goes.join().unwrap();
            read
        });
        assert_eq!(read, words);
        assert_eq!(manager.bytes(), 0);
    });
}

/// Memory that another stream uses is freed after that use; the host waits if the driver refuses an event.
#[test]
fn dropped_buffer_is_freed_after_uses_by_other_streams() {
    watched(|| {
        for call in [
            DriverCall::CreateEvent,
            DriverCall::RecordEvent,
            DriverCall::WaitEvent,
        ] {
            let (device, faults) = faulty_device();
            let kernel = peek_kernel(&device);
            let home = device.stream().unwrap();
            let content: Vec<u64> = (0..LARGE as u64 / 8).collect();
            let buffer = device.upload(&home, &content).unwrap();
            let launch = Gated::new(&device, &kernel, buffer.address());
            buffer.used_by(&launch.compute).unwrap();
            let read = std::thread::scope(|scope| {
                faults.fail(call, 0, u64::MAX, FaultCode::Refused);
                let start = Instant::now();
                let goes = scope.spawn(move || {
                    drop(buffer);
                    start.elapsed()
                });
                until_injected(&faults);
                faults.clear();
                let read = launch.finish();
                // The launch continues for that long after the buffer was dropped.
                assert!(goes.join().unwrap() >= AFTER_A_WHILE, "{call:?}: freed at once");
                read
            });
            assert_eq!(read, content, "{call:?}");
        }
    });
}
