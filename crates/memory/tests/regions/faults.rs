//! Failures of copies, of allocations under any limit, and of the device. An operation succeeds or returns an
//! error, and all memory is freed.

use crate::{Column, Original, fetch, own_device, peek, peek_kernel};
use galatea_device::{DeviceBuffer, DeviceError, EmulatorOptions, Stream};
use galatea_memory::regions::{MemoryManager, Source};
use std::cell::Cell;
use std::sync::Arc;

/// Queues one half of a page's copy, and fails before the other as long as failures are left.
fn faulty<'a>(
    column: &'a Column,
    index: usize,
    failures: &'a Cell<u32>,
    copies: &'a Cell<u32>,
) -> impl Fn(&Stream, &mut DeviceBuffer<u8>) -> Result<u64, DeviceError> + 'a {
    move |stream, target| {
        copies.set(copies.get() + 1);
        let view = &column.pages[index].view;
        let half = view.len() / 2;
        stream.copy_to_device(target.slice_mut(half..)?, &view.slice(half..view.len())?)?;
        if failures.get() > 0 {
            failures.set(failures.get() - 1);
            return Err(DeviceError::WrongDevice { what: "test" });
        }
        stream.copy_to_device(target.slice_mut(..half)?, &view.slice(0..half)?)?;
        Ok(view.len() as u64)
    }
}

#[test]
fn failed_copy_is_repeated() {
    let device = own_device();
    let base = device.budget().used();
    let manager = MemoryManager::new(&device).unwrap();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let column = Column::of("column", 2, 4096);
    for failures in 0..4 {
        let (left, copies) = (Cell::new(failures), Cell::new(0));
        let mut scan = manager.scan([&column].into_iter());
        scan.pin();
        let page = scan.page(0, 1, true).unwrap().unwrap();
        for _ in 0..failures {
            assert!(page.fetch(&first, faulty(&column, 1, &left, &copies)).is_err());
            assert!(!page.is_here());
        }
        let info = &manager.regions()[0];
        assert_eq!((info.pages_device, info.pages_loading), (0, 1));
        let (event, bytes) = page.fetch(&second, faulty(&column, 1, &left, &copies)).unwrap();
        assert_eq!((bytes, copies.get()), (4096, failures + 1));
        event.unwrap().synchronize().unwrap();
        let info = &manager.regions()[0];
        assert_eq!(
            (info.pages_device, info.pages_loading),
            (1, 0),
            "nobody has asked yet"
        );
        // The copy is now recorded as complete: no wait, no copy.
        let (event, bytes) = page.fetch(&first, faulty(&column, 1, &left, &copies)).unwrap();
        assert!(event.is_none() && bytes == 0 && page.is_here());
        assert_eq!(copies.get(), failures + 1);
        let info = &manager.regions()[0];
        assert_eq!((info.pages_device, info.pages_loading), (1, 0));
        let output: DeviceBuffer<u64> = device.zeroed(&second, 512).unwrap();
        peek(
            &peek_kernel(&device),
            &second,
            page.address(),
            output.address(),
            0,
            512,
        );
        assert_eq!(second.read(&output, ..).unwrap(), column.pages[1].words());
        drop((output, page, scan));
        manager.clear().unwrap();
        assert_eq!(device.budget().used(), base);
    }
}

/// A page with a failed copy has memory, but its content does not count as valid. It can be evicted.
#[test]
fn page_with_failed_copy_can_be_evicted() {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let column = Column::of("column", 1, 4096);
    let mut scan = manager.scan([&column].into_iter());
    scan.pin();
    let page = scan.page(0, 0, true).unwrap().unwrap();
    assert!(
        page.fetch(&stream, faulty(&column, 0, &Cell::new(1), &Cell::new(0)))
            .is_err()
    );
    drop((page, scan));
    assert!(manager.holds(&column, &[0]));
    assert_eq!(manager.bytes(), 4096);
    manager.clear().unwrap();
    let mut scan = manager.scan([&column].into_iter());
    scan.pin();
    let page = scan.page(0, 0, true).unwrap().unwrap();
    assert_eq!(fetch(&page, &stream, &column, 0), 4096, "new memory, new copy");
}

/// The same work under every limit: pages that do not fit are not loaded, nothing fails, and all memory is
/// freed.
#[test]
fn pages_beyond_the_memory_limit_are_not_loaded() {
    let device = own_device();
    let stream = device.stream().unwrap();
    for limit in (0..=40).map(|halves| halves * 512) {
        device.budget().set_limit(Some(limit));
        let manager = MemoryManager::new(&device).unwrap();
        let shared = Column::of("shared", 4, 1024);
        let mut pages = shared.pages.clone();
        pages.push(Original::new(2048));
        let column = Column::new("column", pages);
        let mut scan = manager.scan([&shared, &column].into_iter());
        scan.pin();
        let mut pins = Vec::new();
        for (region, index) in [(0, 0), (1, 4), (1, 0), (0, 3), (1, 2)] {
            pins.extend(scan.page(region, index, true).unwrap());
            assert!(device.budget().used() <= limit);
        }
        let held = manager.allocate(&stream, 3000).unwrap();
        scan.release();
        pins.truncate(1);
        let more = manager.allocate(&stream, 5000).unwrap();
        assert_eq!(
            more.is_some(),
            limit >= (held.is_some() as u64 * 3072) + 5120 + pins_bytes(&pins)
        );
        assert!(device.budget().used() <= limit);
        // Larger than any device.
        assert!(manager.allocate(&stream, 1 << 50).unwrap().is_none());
        drop((held, more, pins, scan));
        manager.clear().unwrap();
        assert_eq!(device.budget().used(), 0);
        device.synchronize().unwrap();
        assert_eq!(device.memory_use().unwrap().pool_used, 0);
    }
}

fn pins_bytes(pins: &[galatea_memory::regions::PagePin]) -> u64 {
    pins.iter().map(|pin| pin.bytes()).sum()
}

/// Errors of an attempt other than out of memory are returned to the caller, without evictions.
#[test]
fn other_errors_evict_nothing() {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let column = Column::of("column", 3, 512);
    crate::load(&manager, &stream, &column);
    let attempt = || Err::<(), _>(DeviceError::WrongDevice { what: "test" });
    assert!(
        manager
            .making_room(attempt, DeviceError::is_out_of_memory)
            .is_err()
    );
    assert_eq!((manager.evicted(), manager.bytes()), (0, 3 * 512));
    // An attempt that always fails evicts every page, and its error is returned.
    let attempt = || Err::<(), _>(DeviceError::WrongDevice { what: "test" });
    assert!(manager.making_room(attempt, |_| true).unwrap().is_none());
    assert_eq!((manager.evicted(), manager.bytes()), (3, 0));
}

/// A kernel faults while pages and working memory are held: from then on calls return errors, but do not
/// panic, and no memory is kept.
#[test]
fn lost_device_frees_all_memory() {
    let device = galatea_device::Device::emulated(EmulatorOptions::default(), Default::default()).unwrap();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let (column, other) = (Column::of("column", 3, 512), Column::of("other", 2, 512));
    crate::load(&manager, &stream, &column);
    let working = manager.allocate(&stream, 4096).unwrap().unwrap();
    manager.keep_spare(manager.allocate(&stream, 4096).unwrap().unwrap());
    let mut scan = manager.scan([&column].into_iter());
    scan.pin();
    let page = scan.page(0, 0, true).unwrap().unwrap();
    assert!(page.is_here());
    let launch = Arc::new(stream.record().unwrap());
    peek(&peek_kernel(&device), &stream, 8, page.address(), 0, 1);
    assert!(stream.synchronize().is_err());
    scan.used(&launch);
    assert!(page.is_here(), "known before");
    let mut new = manager.scan([&other].into_iter());
    new.pin();
    assert!(new.page(0, 0, true).is_err());
    assert!(manager.allocate(&stream, 512).is_err());
    drop((page, scan, new));
    // Both results are correct; the memory is freed with its owner.
    let _ = manager.clear();
    drop((column, other, working));
    drop(manager);
    assert_eq!(device.budget().used(), 0);
}

/// Sources are not queried for resident pages.
#[test]
fn resident_pages_are_not_loaded_again() {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let column = Column::of("column", 4, 512);
    assert_eq!(manager.bytes_of(&column), 0);
    assert!(!manager.holds(&column, &[0]));
    let mut scan = manager.scan([&column].into_iter());
    scan.pin();
    for round in 0..2 {
        for index in 0..column.pages() {
            let page = scan.page(0, index, true).unwrap().unwrap();
            let expected = if round == 0 { 512 } else { 0 };
            assert_eq!(fetch(&page, &stream, &column, index), expected);
        }
    }
    assert_eq!(manager.bytes_of(&column), 4 * 512);
}
