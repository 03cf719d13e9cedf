//! The device heap on the emulated device (and on a GPU if one is present): every page search, with many
//! seeds and schedules.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod chains;
mod concurrent;
mod faults;
mod pools;
mod runs;
mod steps;

use std::collections::BTreeMap;
use std::sync::Mutex;

use galatea_device::{
    Device, DeviceBuffer, DeviceOptions, EmulatorOptions, Function, In, Out, Program, Stream, testing,
};
use galatea_kernels::heap::{HeapBuild, PageSearch};
use galatea_kernels::{HeapAllocate, HeapRelease, headers};
use galatea_memory::{DeviceHeap, HeapOptions};

/// The emulated device of a seed. Odd seeds switch threads at every basic block. It is shared by all tests,
/// because each device keeps the stacks of its threads.
fn emulated(seed: u64) -> Device {
    static DEVICES: Mutex<BTreeMap<u64, Device>> = Mutex::new(BTreeMap::new());
    let mut devices = DEVICES.lock().unwrap();
    devices.entry(seed).or_insert_with(|| own_device(seed)).clone()
}

/// Like [`emulated`], for one test alone.
fn own_device(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        stress: seed % 2 == 1,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).unwrap()
}

/// Emulated devices with these seeds, and the GPU if one is present.
fn devices(seeds: impl IntoIterator<Item = u64>) -> Vec<(String, Device)> {
    let mut devices: Vec<_> = seeds
        .into_iter()
        .map(|seed| (format!("seed {seed}"), emulated(seed)))
        .collect();
    devices.extend(testing::gpu().map(|device| ("GPU".to_owned(), device)));
    devices
}

/// Searches that track free pages.
const REUSING: [PageSearch; 8] = [
    PageSearch::Window,
    PageSearch::RandomWalk,
    PageSearch::RandomWalkBitmap32,
    PageSearch::RandomWalkBitmap64,
    PageSearch::Collaborative32,
    PageSearch::Collaborative64,
    PageSearch::Runs,
    PageSearch::Queue,
];

const PAGE_BYTES: u64 = 64;

/// A heap with checks, and its kernels. It has few probes, so that sweeping detects exhaustion.
struct Pool {
    device: Device,
    stream: Stream,
    heap: DeviceHeap,
    allocate: HeapAllocate,
    release: HeapRelease,
}

impl Pool {
    fn new(device: &Device, pages: u64, options: HeapOptions) -> Self {
        let stream = device.stream().unwrap();
        let bytes = pages * options.page_bytes;
        let heap = DeviceHeap::new(device, &stream, bytes, options).unwrap();
        assert_eq!(heap.page_count(), pages);
        Self {
            allocate: HeapAllocate::new(device, heap.build()).unwrap(),
            release: HeapRelease::new(device, heap.build()).unwrap(),
            device: device.clone(),
            stream,
            heap,
        }
    }

    fn checked(device: &Device, pages: u64, search: PageSearch) -> Self {
        let options = HeapOptions {
            probes: 8,
            ..HeapOptions::pages_of(PAGE_BYTES)
                .search(search)
                .checked()
                .counted()
        };
        Self::new(device, pages, options)
    }

    /// Allocates `count` blocks of `bytes` bytes. Returns their addresses, 0 for none.
    fn allocate(&self, count: usize, bytes: u64) -> DeviceBuffer<u64> {
        let mut addresses = self.device.zeroed(&self.stream, count).unwrap();
        let view = self.heap.view();
        self.allocate
            .launch(&self.stream, view, bytes, Out(&mut addresses))
            .unwrap();
        addresses
    }

    fn release(&self, addresses: &DeviceBuffer<u64>) {
        let view = self.heap.view();
        self.release.launch(&self.stream, view, In(addresses)).unwrap();
    }

    fn read(&self, buffer: &DeviceBuffer<u64>) -> Vec<u64> {
        self.stream.read(buffer, ..).unwrap()
    }

    /// Page numbers of addresses, sorted. Each address is the first byte of a page, and none occurs twice.
    fn pages(&self, addresses: &[u64], case: &str) -> Vec<u64> {
        let mut pages: Vec<_> = addresses
            .iter()
            .filter(|address| **address != 0)
            .map(|address| {
                let offset = address - self.heap.first_page();
                assert_eq!(offset % self.heap.page_bytes(), 0, "inside a page: {case}");
                offset / self.heap.page_bytes()
            })
            .collect();
        pages.sort_unstable();
        assert!(
            pages.windows(2).all(|pair| pair[0] < pair[1]),
            "a page was handed out twice: {case}"
        );
        assert!(
            pages.last().is_none_or(|last| *last < self.heap.page_count()),
            "no such page: {case}"
        );
        pages
    }

    /// Asserts the number of free pages, and that all figures are equal.
    fn assert_free(&self, free: u64, case: &str) {
        let counts = self.heap.verify(&self.device, &self.stream).unwrap();
        assert_eq!(counts.free, free, "free pages: {counts:?}, {case}");
        assert_eq!(
            (counts.stray, counts.wrong_balances, counts.unannounced),
            (0, 0, 0),
            "{counts:?}, {case}"
        );
        if self.heap.search() == PageSearch::Window {
            assert_eq!(counts.balance, free, "{counts:?}, {case}");
        }
        let faults = self.heap.statistics(&self.stream).unwrap().faults;
        assert!(!faults.any(), "{faults:?}, {case}");
    }
}

/// A kernel of a test, compiled for a heap.
fn kernel(device: &Device, name: &str, source: &str, build: HeapBuild) -> Function {
    let mut program = Program::new(name, source).headers(headers()).entry(name);
    program.options.extend(build.options());
    device.compile(&program).unwrap().module.function(name).unwrap()
}
