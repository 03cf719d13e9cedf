//! Pages, their originals and the launches that read them: orders of dropping them, and waits between them.

use crate::{Column, Original, fetch, here, load, own_device, peek, peek_kernel};
use galatea_device::{Device, DeviceBuffer, Function, Stream};
use galatea_memory::regions::{MemoryManager, Scan};
use std::sync::Arc;

/// So large that the emulated device unmaps the memory when it is freed: a late read faults.
const LARGE: usize = 128 << 10;

/// A stream with work that waits until the gate is opened, at the latest when this is dropped.
struct Gated {
    device: Device,
    peek: Function,
    stream: Stream,
    opener: Stream,
    flag: DeviceBuffer<u64>,
    output: DeviceBuffer<u64>,
}

impl Gated {
    fn new(device: &Device) -> Self {
        let (stream, opener) = (device.stream().unwrap(), device.stream().unwrap());
        let flag = device.zeroed(&opener, 1).unwrap();
        flag.used_by(&stream).unwrap();
        Self {
            device: device.clone(),
            peek: peek_kernel(device),
            output: device.zeroed(&stream, LARGE / 8).unwrap(),
            stream,
            opener,
            flag,
        }
    }

    /// Queues a read after the gate and records it with the scan.
    fn read(&self, address: u64, scan: &Scan<'_>) {
        peek(
            &self.peek,
            &self.stream,
            address,
            self.output.address(),
            self.flag.address(),
            LARGE / 8,
        );
        scan.used(&Arc::new(self.stream.record().unwrap()));
    }

    fn open(&mut self) {
        self.opener.copy_from_slice(&mut self.flag, &[1]).unwrap();
    }

    /// The words that were read.
    fn words(&mut self) -> Vec<u64> {
        // Other allocations are queued before the read runs.
        let other: DeviceBuffer<u64> = self.device.zeroed(&self.opener, LARGE / 8).unwrap();
        self.opener.synchronize().unwrap();
        self.open();
        let words = self.stream.read(&self.output, ..).unwrap();
        drop(other);
        words
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        // A failed test must not wait for the gate for ever.
        let _ = self.opener.copy_from_slice(&mut self.flag, &[1]);
    }
}

#[test]
fn evicted_memory_is_freed_after_its_launches() {
    let device = own_device();
    let mut gated = Gated::new(&device);
    let base = device.budget().used();
    let manager = MemoryManager::new(&device).unwrap();
    let column = Column::of("column", 1, LARGE);
    let transfer = device.stream().unwrap();
    let mut scan = manager.scan([&column].into_iter());
    scan.pin();
    let page = scan.page(0, 0, true).unwrap().unwrap();
    fetch(&page, &transfer, &column, 0);
    gated.read(page.address(), &scan);
    // A later launch that ends earlier.
    scan.used(&Arc::new(transfer.record().unwrap()));
    drop((page, scan));
    manager.clear().unwrap();
    assert_eq!((manager.bytes(), manager.evicted()), (0, 1));
    assert_eq!(device.budget().used(), base, "the budget has it back at once");
    assert_eq!(gated.words(), column.pages[0].words());
}

/// The page is evicted from one region while a launch recorded with another region still reads it.
#[test]
fn shared_page_is_freed_after_launches_of_all_regions() {
    let device = own_device();
    let mut gated = Gated::new(&device);
    let manager = MemoryManager::new(&device).unwrap();
    let before = Column::of("before", 1, LARGE);
    let after = Column::new("after", before.pages.clone());
    let transfer = device.stream().unwrap();
    load(&manager, &transfer, &before);
    {
        let mut scan = manager.scan([&before].into_iter());
        scan.pin();
        let page = scan.page(0, 0, false).unwrap().unwrap();
        gated.read(page.address(), &scan);
    }
    load(&manager, &transfer, &after);
    assert_eq!(manager.bytes(), LARGE as u64, "shared");
    manager.clear().unwrap();
    assert_eq!(manager.bytes(), 0);
    assert_eq!(gated.words(), before.pages[0].words());
}

/// The source is dropped while a scan is about to read it: the page stays until the launch is queued, its
/// memory until the launch is done.
#[test]
fn pinned_pages_outlive_a_dropped_source() {
    for early in [false, true] {
        let device = own_device();
        let mut gated = Gated::new(&device);
        let base = device.budget().used();
        let manager = MemoryManager::new(&device).unwrap();
        let column = Column::of("column", 2, LARGE);
        let words = column.pages[0].words();
        let transfer = device.stream().unwrap();
        load(&manager, &transfer, &column);
        let mut scan = manager.scan([&column].into_iter());
        scan.pin();
        let page = scan.page(0, 0, false).unwrap().unwrap();
        if early {
            scan.release();
        }
        drop(column);
        // Memory that reuses the address of the source must not be mistaken for it.
        let others: Vec<_> = (0..64).map(|_| Column::of("other", 1, 512)).collect();
        let mut other_scan = manager.scan(others.iter());
        other_scan.pin();
        assert_eq!(manager.bytes(), if early { 1 } else { 2 } * LARGE as u64);
        assert_eq!(scan.page(0, 0, false).unwrap().unwrap().address(), page.address());
        gated.read(page.address(), &scan);
        drop(page);
        drop(scan);
        assert_eq!(manager.bytes(), 0, "early {early}");
        assert_eq!(device.budget().used(), base, "early {early}");
        drop(other_scan);
        assert_eq!(gated.words(), words, "early {early}");
    }
}

/// A thread that arrives while a copy is in progress gets the event to wait for.
#[test]
fn fetch_returns_event_of_a_copy_in_progress() {
    let device = own_device();
    let mut gated = Gated::new(&device);
    let manager = MemoryManager::new(&device).unwrap();
    let column = Column::of("column", 1, LARGE);
    let scan = manager.scan([&column].into_iter());
    let page = scan.page(0, 0, true).unwrap().unwrap();
    // Copies from unpinned memory are done when the call returns.
    device.pin(column.pages[0].view.memory()).unwrap();
    let flag = gated.flag.address();
    peek(&gated.peek, &gated.stream, flag, gated.output.address(), flag, 1);
    let copy = |stream: &Stream, target: &mut DeviceBuffer<u8>| column.copy(0, stream, target);
    let (event, bytes) = page.fetch(&gated.stream, copy).unwrap();
    assert!(event.is_some() && bytes == LARGE as u64);
    let (event, bytes) = page.fetch(&gated.opener, copy).unwrap();
    assert!(event.is_some() && bytes == 0 && !page.is_here());
    gated.open();
    event.unwrap().synchronize().unwrap();
    assert!(page.is_here());
}

#[test]
fn dropped_source_frees_its_pages() {
    let device = own_device();
    let base = device.budget().used();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let before = Column::of("before", 3, 4096);
    let mut pages = before.pages[..2].to_vec();
    pages.push(Original::new(4096));
    let after = Column::new("after", pages);
    load(&manager, &stream, &before);
    load(&manager, &stream, &after);
    assert_eq!(manager.bytes(), 4 * 4096);
    let eviction_epoch = manager.eviction_epoch();
    drop(before);
    assert!(manager.eviction_epoch() > eviction_epoch, "a page has left");
    // Only pages that no other region shares are freed.
    assert_eq!(manager.bytes(), 3 * 4096);
    assert_eq!(here(&manager, &after), [0, 1, 2]);
    drop(after);
    assert_eq!(manager.bytes(), 0);
    assert_eq!(manager.regions(), []);
    assert_eq!(device.budget().used(), base);
    device.synchronize().unwrap();
    assert_eq!(device.memory_use().unwrap().pool_used, base);
}

/// Pages of the same identity are copied once, whichever region is created first and whichever is filled
/// first.
#[test]
fn versions_share_pages() {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let before = Column::of("before", 2, 4096);
    let mut pages = before.pages.clone();
    pages.push(Original::new(4096));
    let after = Column::new("after", pages);
    // Both regions exist, neither has a page.
    drop(manager.scan([&before, &after].into_iter()));
    load(&manager, &stream, &after);
    let mut scan = manager.scan([&after, &before].into_iter());
    scan.pin();
    for index in 0..2 {
        let page = scan.page(0, index, false).unwrap().unwrap();
        let same = scan.page(1, index, true).unwrap().unwrap();
        assert_eq!(page.address(), same.address());
        assert_eq!(fetch(&same, &stream, &before, index), 0, "copied once");
    }
    drop(scan);
    assert_eq!(manager.bytes(), 3 * 4096);
    assert_eq!(manager.evictable(), 3 * 4096, "shared pages count once");
    // A page that another region has pinned is not evictable, nor is a pinned page of the region itself.
    let mut scan = manager.scan([&before].into_iter());
    scan.pin();
    assert_eq!(manager.evictable(), 4096);
    let mut other = manager.scan([&after].into_iter());
    other.pin();
    let pin = other.page(0, 2, false).unwrap();
    drop(other);
    assert_eq!(manager.evictable(), 0);
    manager.clear().unwrap();
    assert_eq!(manager.bytes(), 3 * 4096);
    drop((scan, pin));
    manager.clear().unwrap();
    assert_eq!(manager.bytes(), 0);
}
