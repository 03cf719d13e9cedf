//! Working regions: parked memory can be moved to the host and is restored unchanged, from host memory and
//! from files.

use crate::{Column, load, own_device, watched};
use galatea_device::{Access, Device, DeviceBuffer, Stream};
use galatea_memory::regions::{
    HostBudget, MemoryManager, RegionError, RegionInfo, RegionKind, Replacement, SpillFile, SpillFiles,
    WorkingRegion,
};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Bytes of a page in these tests.
const PAGE: u64 = 4096;
const PAGE_WORDS: usize = PAGE as usize / 8;

/// A host budget of that number of bytes.
#[derive(Debug)]
struct Bytes(AtomicI64);

impl HostBudget for Bytes {
    fn take(&self, bytes: u64) -> bool {
        let enough = self.0.fetch_sub(bytes as i64, Ordering::SeqCst) >= bytes as i64;
        if !enough {
            self.give(bytes);
        }
        enough
    }

    fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes as i64, Ordering::SeqCst);
    }
}

/// Files in memory, which fail or wait on request.
#[derive(Debug, Default)]
struct Files {
    none: AtomicBool,
    fail_writes: AtomicBool,
    fail_reads: AtomicBool,
    writes: AtomicU64,
    /// Locked by a test to block writes.
    gate: Mutex<()>,
}

#[derive(Debug)]
struct File(Arc<Files>, Vec<u8>);

#[derive(Debug)]
struct MakesFiles(Arc<Files>);

impl SpillFiles for MakesFiles {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        if self.0.none.load(Ordering::SeqCst) {
            return Err(io::Error::other("spilling to files is off"));
        }
        Ok(Box::new(File(Arc::clone(&self.0), Vec::new())))
    }
}

impl SpillFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        drop(self.0.gate.lock());
        if self.0.fail_writes.load(Ordering::SeqCst) {
            return Err(io::Error::other("no space left"));
        }
        self.1.extend_from_slice(bytes);
        Ok((self.1.len() - bytes.len()) as u64)
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if self.0.fail_reads.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        let start = offset as usize;
        bytes.copy_from_slice(&self.1[start..start + bytes.len()]);
        Ok(())
    }
}

/// A manager on a device of `device_pages` pages, with `host_pages` pages of spill memory.
struct Bed {
    manager: MemoryManager,
    stream: Stream,
    files: Arc<Files>,
    host: Arc<Bytes>,
    device: Device,
}

fn bed(device_pages: u64, host_pages: u64) -> Bed {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let limit = device.budget().used() + device_pages * PAGE;
    device.budget().set_limit(Some(limit));
    let files = Arc::new(Files::default());
    let host = Arc::new(Bytes(AtomicI64::new((host_pages * PAGE) as i64)));
    manager.set_working_page(PAGE);
    manager.set_spill(Arc::clone(&host) as _, Arc::new(MakesFiles(Arc::clone(&files))));
    Bed {
        stream: device.stream().unwrap(),
        manager,
        files,
        host,
        device,
    }
}

impl Bed {
    /// Creates a region with those words.
    fn region(&self, name: &str, words: &[u64]) -> WorkingRegion<u64> {
        let attempt = || self.device.upload(&self.stream, words);
        let buffer: Option<DeviceBuffer<u64>> = self
            .manager
            .making_room(attempt, galatea_device::DeviceError::is_out_of_memory)
            .unwrap();
        self.manager.working(1, name, buffer.unwrap())
    }

    fn words(&self, region: &WorkingRegion<u64>) -> Vec<u64> {
        self.stream.read(region, ..).unwrap()
    }

    fn grant(&self, region: &mut WorkingRegion<u64>, access: Access) -> bool {
        self.manager.grant(&mut [region.used(access)]).unwrap()
    }

    fn info(&self, name: &str) -> RegionInfo {
        let regions = self.manager.regions();
        regions.into_iter().find(|region| region.name == name).unwrap()
    }

    /// Checks that all memory is free on both sides.
    fn ends(self, host_pages: u64) {
        self.device.synchronize().unwrap();
        self.manager.clear().unwrap();
        assert_eq!(self.manager.spilled().held, 0);
        assert_eq!(self.host.0.load(Ordering::SeqCst), (host_pages * PAGE) as i64);
        assert!(
            self.manager
                .regions()
                .iter()
                .all(|region| region.device_bytes == 0)
        );
    }
}

fn pattern(seed: u64, words: usize) -> Vec<u64> {
    (0..words as u64).map(|word| seed << 32 | word).collect()
}

#[test]
fn only_parked_regions_are_spilled_and_restored() {
    for host in [100, 2, 0] {
        let bed = bed(16, host);
        let content = pattern(7, 3 * PAGE_WORDS + 5);
        let mut region = bed.region("table", &content);
        assert!(!bed.manager.evict_one().unwrap(), "it is held");
        region.park();
        assert!(bed.manager.evict_one().unwrap());
        let info = bed.info("table");
        assert_eq!((info.kind, info.owner), (RegionKind::Working, Some(1)));
        let (device, host_side, both) = (info.pages_device, info.pages_host, info.pages_both);
        assert_eq!(
            (info.device_bytes, info.pages, device, host_side, both),
            (0, 4, 0, 4, 0)
        );
        assert!(!bed.manager.evict_one().unwrap(), "there is nothing left");
        assert!(bed.grant(&mut region, Access::ReadWrite));
        assert_eq!(bed.words(&region), content);
        let spilled = bed.manager.spilled();
        let bytes = 8 * content.len() as u64;
        assert_eq!(spilled.to_memory + spilled.to_files, bytes);
        assert_eq!(spilled.to_memory, (host * PAGE).min(bytes), "memory before files");
        assert_eq!(spilled.back, bytes);
        drop(region);
        bed.ends(host);
    }
}

/// A region that the last launch only read still has its copy on the host.
#[test]
fn region_that_was_only_read_is_copied_out_once() {
    for host in [100, 0] {
        let bed = bed(16, host);
        let content = pattern(1, 2 * PAGE_WORDS);
        let mut region = bed.region("read", &content);
        let out = |bed: &Bed| bed.manager.spilled().to_memory + bed.manager.spilled().to_files;
        region.park();
        assert!(bed.manager.evict_one().unwrap());
        for access in [Access::Read, Access::Read, Access::ReadWrite] {
            assert_eq!(out(&bed), 2 * PAGE);
            assert!(bed.grant(&mut region, access));
            assert_eq!(bed.words(&region), content);
            region.park();
            let info = bed.info("read");
            assert_eq!(info.pages_device, 2);
            assert_eq!(info.pages_both, if access == Access::Read { 2 } else { 0 });
            assert!(bed.manager.evict_one().unwrap());
        }
        assert_eq!(out(&bed), 4 * PAGE, "it could have been written");
        drop(region);
        bed.ends(host);
    }
}

/// Neither a region that a launch is going to write nor discarded content is moved.
#[test]
fn overwritten_regions_are_not_restored() {
    let bed = bed(16, 100);
    let mut region = bed.region("output", &pattern(1, 2 * PAGE_WORDS));
    region.park();
    assert!(bed.manager.evict_one().unwrap());
    assert!(bed.grant(&mut region, Access::Write));
    assert_eq!(bed.manager.spilled().back, 0);
    bed.stream.fill(&mut *region, 9).unwrap();
    region.discard();
    region.park();
    assert!(bed.manager.evict_one().unwrap());
    assert_eq!(
        bed.manager.spilled().to_memory,
        2 * PAGE,
        "discarded content stays where it was"
    );
    assert!(bed.grant(&mut region, Access::ReadWrite));
    assert_eq!(bed.manager.spilled().back, 0);
    drop(region);
    bed.ends(100);
}

/// Two queries with regions that do not fit together: each launch gets all of its regions or none.
#[test]
fn a_launch_gets_all_its_regions_or_none() {
    let bed = bed(6, 100);
    let (one, two) = (pattern(1, 2 * PAGE_WORDS), pattern(2, 2 * PAGE_WORDS));
    let (mut a, mut b) = (bed.region("a", &one), bed.region("b", &two));
    a.park();
    b.park();
    let mut other = bed.region("other", &pattern(3, 4 * PAGE_WORDS));
    let mut uses = [a.used(Access::ReadWrite), b.used(Access::Read)];
    assert!(
        !bed.manager.grant(&mut uses).unwrap(),
        "four pages are held by another query"
    );
    // Neither is held: both can be moved again, so the other query could get more memory.
    assert!(bed.grant(&mut a, Access::Read));
    a.park();
    other.park();
    assert!(
        bed.manager
            .grant(&mut [a.used(Access::ReadWrite), b.used(Access::Read)])
            .unwrap()
    );
    assert_eq!((bed.words(&a), bed.words(&b)), (one, two));
    assert!(!bed.grant(&mut other, Access::ReadWrite));
    drop((a, b));
    assert!(bed.grant(&mut other, Access::ReadWrite));
    assert_eq!(bed.words(&other), pattern(3, 4 * PAGE_WORDS));
    drop(other);
    bed.ends(100);
}

/// Copies of columns are evicted before memory that would have to be copied out, unless the policy weighs
/// costs differently.
#[test]
fn cached_pages_are_evicted_before_working_regions() {
    for (policy, pages) in [
        (Replacement::Frequency, 0),
        (Replacement::CostDriven { latency: 0.01 }, 0),
        // The column's rank times its size exceeds the bytes of a small region.
        (Replacement::CostDriven { latency: 10.0 }, 4),
    ] {
        let bed = bed(64, 100);
        bed.manager.set_replacement(policy);
        let column = Column::of("column", 4, PAGE as usize);
        load(&bed.manager, &bed.stream, &column);
        let mut region = bed.region("table", &pattern(1, 100));
        region.park();
        while bed.manager.evict_one().unwrap() {
            if bed.info("table").device_bytes == 0 || bed.manager.bytes() == 0 {
                break;
            }
        }
        assert_eq!(bed.manager.bytes(), pages * PAGE, "{policy:?}");
        drop(region);
        bed.ends(100);
    }
}

/// The host has no room: the region stays on the device.
#[test]
fn region_that_cannot_be_spilled_stays_on_the_device() {
    let bed = bed(16, 1);
    let content = pattern(5, 3 * PAGE_WORDS);
    let mut region = bed.region("table", &content);
    region.park();
    bed.files.none.store(true, Ordering::SeqCst);
    assert!(!bed.manager.evict_one().unwrap());
    bed.files.none.store(false, Ordering::SeqCst);
    bed.files.fail_writes.store(true, Ordering::SeqCst);
    assert!(!bed.manager.evict_one().unwrap());
    assert_eq!(bed.info("table").device_bytes, 3 * PAGE);
    assert!(bed.grant(&mut region, Access::ReadWrite));
    assert_eq!(bed.words(&region), content);
    region.park();
    bed.files.fail_writes.store(false, Ordering::SeqCst);
    assert!(bed.manager.evict_one().unwrap());
    bed.files.fail_reads.store(true, Ordering::SeqCst);
    let error = bed.manager.grant(&mut [region.used(Access::Read)]).unwrap_err();
    assert!(
        matches!(&error, RegionError::Spill { name, bytes, .. } if name == "table" && *bytes == 3 * PAGE)
    );
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    drop(region);
    bed.ends(1);
}

/// An eviction to a file that is half done stops if the owner takes the region back or drops it. Copied pages
/// remain copied.
#[test]
fn owner_stops_an_eviction_in_progress() {
    for comes_back in [true, false] {
        watched(move || {
            let bed = bed(16, 0);
            let content = pattern(5, 8 * PAGE_WORDS);
            let mut region = bed.region("table", &content);
            region.park();
            let comes = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let gate = bed.files.gate.lock();
                let evicts = scope.spawn(|| bed.manager.evict_one().unwrap());
                while bed.files.writes.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                let owner = scope.spawn(|| {
                    comes.store(true, Ordering::SeqCst);
                    if !comes_back {
                        drop(region);
                        return;
                    }
                    assert!(bed.grant(&mut region, Access::ReadWrite));
                    assert_eq!(bed.words(&region), content);
                });
                while !comes.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                // Waits until the owner has requested the region, its next step. Then the eviction continues
                // with its page.
                std::thread::sleep(std::time::Duration::from_millis(100));
                drop(gate);
                assert!(!evicts.join().unwrap(), "it was stopped");
                owner.join().unwrap();
            });
            assert!(bed.files.writes.load(Ordering::SeqCst) < 8);
            bed.ends(0);
        });
    }
}

#[test]
fn discarded_pages_are_neither_copied_nor_kept() {
    for on_host in [false, true] {
        let bed = bed(16, 100);
        let content = pattern(7, 4 * PAGE_WORDS);
        let mut region = bed.region("rows", &content);
        // The owner needs its content.
        region.discard_before(3 * PAGE_WORDS);
        region.park();
        if on_host {
            assert!(bed.manager.evict_one().unwrap());
        }
        // The third page is needed: only one value of it is discarded.
        region.discard_before(2 * PAGE_WORDS + 1);
        if !on_host {
            assert!(bed.manager.evict_one().unwrap());
            assert_eq!(bed.manager.spilled().to_memory, 2 * PAGE);
        }
        assert_eq!(bed.info("rows").pages_host, 2);
        let mut rest = bed
            .device
            .alloc::<u64>(&bed.stream, 2 * PAGE_WORDS)
            .unwrap()
            .assume_written();
        let values = 2 * PAGE_WORDS..4 * PAGE_WORDS;
        region
            .read_into(&bed.stream, values.clone(), &mut rest, 0)
            .unwrap();
        assert_eq!(bed.stream.read(&rest, ..).unwrap(), content[values]);
        drop((region, rest));
        bed.ends(100);
    }
}

#[test]
fn unreadable_file_fails_a_read_of_a_range() {
    let bed = bed(16, 0);
    let mut region = bed.region("rows", &pattern(7, 2 * PAGE_WORDS));
    region.park();
    assert!(bed.manager.evict_one().unwrap());
    bed.files.fail_reads.store(true, Ordering::SeqCst);
    let mut into = bed.device.alloc::<u64>(&bed.stream, 8).unwrap().assume_written();
    let outcome = region.read_into(&bed.stream, PAGE_WORDS - 4..PAGE_WORDS + 4, &mut into, 0);
    assert!(
        matches!(&outcome, Err(RegionError::Spill { name, .. }) if name == "rows"),
        "{outcome:?}"
    );
    drop((region, into));
    bed.ends(0);
}

/// Random owners and evictions, compared with plain vectors.
#[test]
fn random_evictions_preserve_region_contents() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let host = random.random_range(0..12);
        let bed = bed(18, host);
        let mut scratch = bed
            .device
            .alloc::<u64>(&bed.stream, 4 * PAGE_WORDS)
            .unwrap()
            .assume_written();
        let mut regions: Vec<(WorkingRegion<u64>, Vec<u64>, bool)> = Vec::new();
        for step in 0..150 {
            let what = format!("seed {seed}, step {step}");
            let some = (0..regions.len())
                .collect::<Vec<_>>()
                .choose(&mut random)
                .copied();
            match (random.random_range(0..12), some) {
                (10 | 11, Some(at)) => {
                    let (region, content, _) = &regions[at];
                    let start = random.random_range(0..content.len());
                    let end = random.random_range(start..=content.len());
                    let into = random.random_range(0..=scratch.len() - (end - start));
                    let stream = bed.device.stream().unwrap();
                    region.read_into(&stream, start..end, &mut scratch, into).unwrap();
                    let read = stream.read(&scratch, into..into + (end - start)).unwrap();
                    assert_eq!(read, content[start..end], "{what}, {start}..{end}");
                }
                (0 | 1, _) if regions.len() < 6 => {
                    let held: usize = regions
                        .iter()
                        .filter(|(_, _, held)| *held)
                        .map(|(_, words, _)| words.len())
                        .sum();
                    let words = random.random_range(1..4 * PAGE_WORDS);
                    if 8 * (held + words) as u64 <= 10 * PAGE {
                        let content = pattern(step, words);
                        regions.push((bed.region(&what, &content), content, true));
                    }
                }
                (2, Some(at)) => drop(regions.swap_remove(at)),
                (3 | 4, Some(at)) => {
                    regions[at].0.park();
                    regions[at].2 = false;
                }
                (5 | 6, _) => {
                    let _ = bed.manager.evict_one().unwrap();
                }
                (_, Some(at)) => {
                    let access = *[Access::Read, Access::Write, Access::ReadWrite]
                        .choose(&mut random)
                        .unwrap();
                    let (region, content, held) = &mut regions[at];
                    if *held || !bed.grant(region, access) {
                        continue;
                    }
                    *held = true;
                    if access != Access::Write {
                        assert_eq!(
                            bed.stream.read(region, ..).unwrap(),
                            *content,
                            "{what}, {access:?}"
                        );
                    }
                    if access != Access::Read {
                        *content = pattern(1000 + step, content.len());
                        bed.stream.copy_from_slice(&mut **region, content).unwrap();
                    }
                }
                _ => {}
            }
            let budget = bed.device.budget();
            assert!(budget.used() <= budget.limit(), "{what}");
        }
        regions.clear();
        bed.ends(host);
    }
}
