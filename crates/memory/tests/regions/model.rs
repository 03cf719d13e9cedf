//! The manager compared with a simple model, with random operations: after each of them the figures of the
//! manager, the budget and the model are equal, pinned pages are still at their addresses, and kernels read
//! the contents of the originals.
//!
//! The model does not choose victims: it reads from the manager how many bytes a region has left, and checks
//! that the evicted pages were the last evictable ones. The policies have separate tests.

mod operations;
mod steps;

use crate::{Column, Original, own_device, peek_kernel, word_of};
use galatea_device::{Device, DeviceBuffer, Function, MemoryBudget, Stream};
use galatea_memory::regions::{MemoryManager, PagePin, RegionInfo, Replacement, Scan};
use operations::{Operation, operations};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

const UNIT: u64 = 512;
/// The most reads in progress.
const SLOTS: usize = 8;
/// Words of the largest page.
const WORDS: usize = 512;

fn charge(bytes: u64) -> u64 {
    MemoryBudget::charge_of(bytes)
}

struct Part {
    serial: u64,
    bytes: u64,
    present: bool,
}

struct Region {
    live: bool,
    /// Number of scans that have not been released, and of scans that have not been dropped.
    pins: usize,
    scans: usize,
    parts: Vec<Part>,
}

impl Region {
    fn bytes_here(&self) -> u64 {
        let present = self.parts.iter().filter(|part| part.present);
        present.map(|part| part.bytes).sum()
    }
}

/// A page in device memory.
struct Resident {
    address: u64,
    bytes: u64,
    copied: bool,
}

struct Pin {
    page: PagePin,
    serial: u64,
    original: Weak<Original>,
}

struct Running<'m> {
    scan: Scan<'m>,
    regions: Vec<String>,
    pins: Vec<Pin>,
    released: bool,
    left: u64,
}

/// Working memory that the next query may use, and a flag whether it still exists.
struct Spare(
    DeviceBuffer<u8>,
    #[expect(dead_code, reason = "it lives as long")] Arc<()>,
);

struct World<'m> {
    manager: &'m MemoryManager,
    device: &'m Device,
    peek: &'m Function,
    compute: Stream,
    transfers: [Stream; 2],
    output: DeviceBuffer<u64>,
    base: u64,
    pool_base: u64,
    made: u32,
    policy: Replacement,
    sources: Vec<Column>,
    regions: BTreeMap<String, Region>,
    pages: BTreeMap<u64, Resident>,
    /// Pages that belonged to some region: the manager is notified when they are dropped.
    known: BTreeSet<u64>,
    scans: Vec<Running<'m>>,
    stray: Vec<Pin>,
    working: Vec<DeviceBuffer<u8>>,
    spare: Option<(Weak<()>, u64)>,
    /// Reads in progress: page and words, in the order of the output's slots.
    pending: Vec<(u64, usize)>,
    evicted: u64,
    used: u64,
}

impl World<'_> {
    fn pinned(&self, serial: u64) -> bool {
        let pins = self.scans.iter().flat_map(|scan| &scan.pins);
        pins.chain(&self.stray).any(|pin| pin.serial == serial)
    }

    fn live(&self, serial: u64) -> bool {
        let pages = self.sources.iter().flat_map(|source| &source.pages);
        pages.into_iter().any(|page| page.serial == serial)
    }

    fn in_a_region(&self, serial: u64) -> bool {
        let parts = self.regions.values().flat_map(|region| &region.parts);
        parts
            .into_iter()
            .any(|part| part.present && part.serial == serial)
    }

    fn can_give(&self) -> bool {
        let regions = self.regions.values().filter(|region| region.pins == 0);
        let mut parts = regions.flat_map(|region| &region.parts);
        parts.any(|part| part.present && !self.pinned(part.serial))
    }

    fn spare_bytes(&self) -> u64 {
        let spare = self.spare.as_ref().filter(|(token, _)| token.strong_count() > 0);
        spare.map_or(0, |(_, bytes)| charge(*bytes))
    }

    fn reserve(&self, left: u64) -> u64 {
        (self.device.budget().limit() / 32).max(left)
    }

    /// Applies the effects of a dropped original on the manager.
    fn sweep(&mut self) {
        let gone: Vec<_> = (self.known.iter().copied())
            .filter(|serial| !self.live(*serial) && !self.pinned(*serial))
            .collect();
        self.regions.retain(|_, region| {
            for part in &mut region.parts {
                part.present &= region.pins > 0 || !gone.contains(&part.serial);
            }
            region.live || region.scans > 0 || region.parts.iter().any(|part| part.present)
        });
    }

    /// Updates the model by the pages that the manager has evicted. They are the last pages of a region that
    /// are not pinned.
    fn learn(&mut self) {
        let infos: BTreeMap<String, RegionInfo> = (self
            .manager
            .regions()
            .into_iter()
            .map(|info| (info.name.clone(), info)))
        .collect();
        assert!(infos.keys().eq(self.regions.keys()), "other regions: {infos:?}");
        let mut went = 0;
        let pinned: BTreeSet<_> = self
            .pages
            .keys()
            .copied()
            .filter(|serial| self.pinned(*serial))
            .collect();
        for (name, region) in &mut self.regions {
            let info = &infos[name];
            assert_eq!(info.pages, region.parts.len());
            assert_eq!(
                info.bytes,
                region.parts.iter().map(|part| part.bytes).sum::<u64>()
            );
            while region.bytes_here() > info.device_bytes {
                assert_eq!(region.pins, 0, "{name} is pinned");
                let mut free = region.parts.iter_mut().rev();
                let last = free.find(|part| part.present && !pinned.contains(&part.serial));
                last.expect("a pinned page went").present = false;
                went += 1;
            }
            assert_eq!(region.bytes_here(), info.device_bytes, "{name}");
            let here = region.parts.iter().filter(|part| part.present).count();
            assert_eq!(info.pages_device + info.pages_loading, here);
        }
        let evicted = self.manager.evicted();
        assert_eq!(evicted - self.evicted, went, "evicted, not seen");
        self.evicted = evicted;
        let mut pages = std::mem::take(&mut self.pages);
        pages.retain(|serial, _| self.in_a_region(*serial) || self.pinned(*serial));
        self.pages = pages;
    }

    fn check(&mut self) {
        self.learn();
        for source in &self.sources {
            let region = self.regions.get(&source.name);
            assert_eq!(
                self.manager.bytes_of(source),
                region.map_or(0, Region::bytes_here)
            );
            for page in 0..source.pages.len() {
                let present = region.is_some_and(|region| region.parts[page].present);
                assert_eq!(
                    self.manager.holds(source, &[page]),
                    present,
                    "page {page} of {}",
                    source.name
                );
            }
        }
        for pin in self.scans.iter().flat_map(|scan| &scan.pins).chain(&self.stray) {
            assert_eq!(pin.page.address(), self.pages[&pin.serial].address, "moved");
        }
        let pages = || self.pages.iter();
        let in_regions = pages().filter(|(serial, _)| self.in_a_region(**serial));
        let bytes: u64 = in_regions.map(|(_, page)| page.bytes).sum();
        assert_eq!(self.manager.bytes(), bytes);
        let held = |serial: u64| {
            let mut regions = self.regions.values().filter(|region| region.pins > 0);
            regions.any(|region| {
                region
                    .parts
                    .iter()
                    .any(|part| part.present && part.serial == serial)
            })
        };
        let free = pages().filter(|(serial, _)| !self.pinned(**serial) && !held(**serial));
        let evictable: u64 = free.map(|(_, page)| page.bytes).sum();
        assert_eq!(self.manager.evictable(), evictable);
        let paged: u64 = pages().map(|(_, page)| charge(page.bytes)).sum();
        let working: u64 = self.working.iter().map(|buffer| charge(buffer.bytes())).sum();
        let used = self.device.budget().used();
        assert_eq!(used, self.base + paged + working + self.spare_bytes());
        assert!(
            used <= self.used.max(self.device.budget().limit()),
            "the budget is exceeded"
        );
        self.used = used;
    }

    /// Waits for the device: it has freed memory as recorded in the budget, and has read the contents of the
    /// originals.
    fn settle(&mut self) {
        let words = self.compute.read(&self.output, ..).unwrap();
        for (slot, (serial, count)) in self.pending.drain(..).enumerate() {
            let read = &words[slot * WORDS..slot * WORDS + count];
            for (index, word) in read.iter().enumerate() {
                assert_eq!(*word, word_of(serial, index), "word {index} of page {serial}");
            }
        }
        self.device.synchronize().unwrap();
        for info in self.manager.regions() {
            let parts = self.regions[&info.name].parts.iter();
            let copied = parts.filter(|part| part.present && self.pages[&part.serial].copied);
            assert_eq!(info.pages_device, copied.count(), "copied");
        }
        let pool = self.device.memory_use().unwrap().pool_used;
        assert_eq!(pool - self.pool_base, self.device.budget().used() - self.base);
    }
}

fn run(operations: &[Operation]) {
    static DEVICE: OnceLock<(Device, Function)> = OnceLock::new();
    let (device, peek) = DEVICE.get_or_init(|| {
        let device = own_device();
        let peek = peek_kernel(&device);
        (device, peek)
    });
    let stream = || device.stream().unwrap();
    let manager = MemoryManager::new(device).unwrap();
    let compute = stream();
    device.budget().set_limit(None);
    let output = device.zeroed(&compute, SLOTS * WORDS).unwrap();
    device.synchronize().unwrap();
    let base = device.budget().used();
    device.budget().set_limit(Some(base + 40 * UNIT));
    let mut world = World {
        manager: &manager,
        device,
        peek,
        compute,
        transfers: [stream(), stream()],
        output,
        base,
        pool_base: device.memory_use().unwrap().pool_used,
        made: 0,
        policy: Replacement::default(),
        sources: Vec::new(),
        regions: BTreeMap::new(),
        pages: BTreeMap::new(),
        known: BTreeSet::new(),
        scans: Vec::new(),
        stray: Vec::new(),
        working: Vec::new(),
        spare: None,
        pending: Vec::new(),
        evicted: 0,
        used: base,
    };
    for operation in operations {
        world.step(operation);
        world.check();
    }
    world.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_manager_agrees_with_the_model(operations in operations()) {
        run(&operations);
    }
}
