//! The first thread that needs a page queues its copy; all others wait for that copy.

use crate::{Column, own_device, peek, peek_kernel};
use galatea_device::DeviceBuffer;
use galatea_memory::regions::MemoryManager;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn concurrent_fetches_copy_once() {
    const THREADS: usize = 3;
    const BYTES: usize = 64 << 10;
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let kernel = peek_kernel(&device);
    for round in 0..20 {
        let column = Column::of("column", 2, BYTES);
        let (copies, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        let queued: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        let (transfer, compute) = (device.stream().unwrap(), device.stream().unwrap());
                        let output: DeviceBuffer<u64> = device.zeroed(&compute, BYTES / 8).unwrap();
                        let mut queued = 0;
                        start.wait();
                        let mut scan = manager.scan([&column].into_iter());
                        scan.pin();
                        for index in 0..2 {
                            let page = scan.page(0, index, true).unwrap().unwrap();
                            let copy = |stream: &_, target: &mut DeviceBuffer<u8>| {
                                copies.fetch_add(1, Ordering::Relaxed);
                                column.copy(index, stream, target)
                            };
                            let (event, bytes) = page.fetch(&transfer, copy).unwrap();
                            queued += bytes;
                            if let Some(event) = event {
                                compute.wait(&event).unwrap();
                            }
                            let (from, to) = (page.address(), output.address());
                            peek(&kernel, &compute, from, to, 0, BYTES / 8);
                            let words = compute.read(&output, ..).unwrap();
                            assert_eq!(words, column.pages[index].words(), "round {round}");
                        }
                        queued
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(copies.into_inner(), 2, "round {round}");
        assert_eq!(queued, 2 * BYTES as u64, "round {round}");
        assert_eq!(manager.bytes(), 2 * BYTES as u64, "round {round}");
    }
}
