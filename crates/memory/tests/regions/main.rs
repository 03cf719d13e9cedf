//! The manager of device memory on the emulated device: sources in host memory with pages that are identified
//! by their bytes, and kernels that read them back.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ablation;
mod admission;
mod faults;
mod flight;
mod injected;
mod lifetimes;
mod model;
mod replacement;
mod room;
mod working;

use galatea_device::{
    Device, DeviceBuffer, DeviceError, DeviceOptions, DevicePointer, EmulatorOptions, Function, Geometry,
    HostMemory, HostView, Program, Stream, kernel_arguments,
};
use galatea_kernels::headers;
use galatea_memory::Identity;
use galatea_memory::regions::{MemoryManager, PagePin, Source};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A device for one test alone, which checks its budget.
fn own_device() -> Device {
    own_device_with(EmulatorOptions::default())
}

fn own_device_with(options: EmulatorOptions) -> Device {
    let options = EmulatorOptions {
        seed: 2,
        memory: 64 << 20,
        spin_limit: Duration::from_secs(120),
        ..options
    };
    Device::emulated(options, DeviceOptions::default()).unwrap()
}

/// Host data of one page, identified by its words.
struct Original {
    identity: Arc<Identity>,
    serial: u64,
    view: HostView,
}

impl Original {
    fn new(bytes: usize) -> Arc<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut memory = HostMemory::new(bytes).unwrap();
        for (index, word) in memory.as_mut_slice().chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&word_of(serial, index).to_le_bytes());
        }
        Arc::new(Self {
            identity: Arc::default(),
            serial,
            view: memory.into_view(),
        })
    }

    /// Its content.
    fn words(&self) -> Vec<u64> {
        (0..self.view.len() / 8)
            .map(|index| word_of(self.serial, index))
            .collect()
    }
}

/// No two pages have a word in common.
fn word_of(serial: u64, index: usize) -> u64 {
    serial << 32 | index as u64
}

/// A version of a column. Versions share the pages that they have in common.
struct Column {
    identity: Arc<Identity>,
    name: String,
    pages: Vec<Arc<Original>>,
}

impl Column {
    fn new(name: &str, pages: Vec<Arc<Original>>) -> Self {
        Self {
            identity: Arc::default(),
            name: name.to_owned(),
            pages,
        }
    }

    /// A column with that number of pages of the same size.
    fn of(name: &str, pages: usize, bytes: usize) -> Self {
        Self::new(name, (0..pages).map(|_| Original::new(bytes)).collect())
    }
}

impl Source for Column {
    fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn pages(&self) -> usize {
        self.pages.len()
    }

    fn page(&self, index: usize) -> &Arc<Identity> {
        &self.pages[index].identity
    }

    fn page_bytes(&self, index: usize) -> u64 {
        self.pages[index].view.len() as u64
    }
}

impl Column {
    /// Queues the copy of a page.
    fn copy(&self, index: usize, stream: &Stream, target: &mut DeviceBuffer<u8>) -> Result<u64, DeviceError> {
        stream.copy_to_device(target, &self.pages[index].view)?;
        Ok(self.page_bytes(index))
    }
}

kernel_arguments! {
    /// Arguments of the kernel below.
    struct PeekArguments in "a test" {
        from: DevicePointer<u64>,
        to: DevicePointer<u64>,
        gate: DevicePointer<u64>,
        words: u64,
    }
}

/// Copies words from a bare address, as the kernels of queries read pages. If it has a gate, it waits until
/// the gate is open.
fn peek_kernel(device: &Device) -> Function {
    let source = r#"
#include "galatea/prelude.cuh"
using namespace galatea;
struct Arguments { const u64* from; u64* to; const u64* gate; u64 words; };
extern "C" __global__ void peek(const Arguments args) {
    if (args.gate) while (*(const volatile u64*)args.gate == 0) {}
    for (u64 i = threadIdx.x; i < args.words; i += blockDim.x) args.to[i] = args.from[i];
}
"#;
    let program = Program::new("peek", source).headers(headers()).entry("peek");
    device.compile(&program).unwrap().module.function("peek").unwrap()
}

fn peek(function: &Function, stream: &Stream, from: u64, to: u64, gate: u64, words: usize) {
    let arguments = PeekArguments {
        from: DevicePointer::new(from),
        to: DevicePointer::new(to),
        gate: DevicePointer::new(gate),
        words: words as u64,
    };
    function
        .launch(stream, Geometry::new(1u32, 32u32), &arguments)
        .unwrap();
}

/// Allocates and fills every page of a column.
fn load(manager: &MemoryManager, stream: &Stream, column: &Column) {
    let mut scan = manager.scan([column].into_iter());
    scan.pin();
    for index in 0..column.pages.len() {
        let page = scan.page(0, index, true).unwrap().unwrap();
        fetch(&page, stream, column, index);
    }
}

/// Fetches a page and waits for it. Returns the bytes that this call has queued.
fn fetch(page: &PagePin, stream: &Stream, column: &Column, index: usize) -> u64 {
    let copy = |stream: &Stream, target: &mut DeviceBuffer<u8>| column.copy(index, stream, target);
    let (event, bytes) = page.fetch(stream, copy).unwrap();
    if let Some(event) = event {
        event.synchronize().unwrap();
    }
    bytes
}

/// The numbers of the pages that are in device memory.
fn here(manager: &MemoryManager, column: &Column) -> Vec<usize> {
    (0..column.pages.len())
        .filter(|page| manager.holds(column, &[*page]))
        .collect()
}

/// Fails instead of hanging. The limit is generous, since the machine may be busy.
fn watched<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    let worker = std::thread::spawn(move || send.send(work()));
    match receive.recv_timeout(Duration::from_secs(300)) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => panic!("ended without a result"),
        },
    }
}
