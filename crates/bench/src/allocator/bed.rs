//! The test bed of all experiments: pools of a page search, kernels, timed runs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytemuck::Pod;
use galatea_device::{ArgumentBytes, Device, DeviceBuffer, Function, Geometry, In, Out, Program, Stream};
use galatea_kernels::heap::{HeapBuild, PageSearch};
use galatea_kernels::{HeapAllocate, HeapRelease, headers};
use galatea_memory::{DeviceHeap, HeapOptions};

use crate::Result;
use crate::harness::{Clock, WARMUPS, arguments};
use crate::result::Summary;

/// The size of experiments.
#[derive(Debug, Clone)]
pub struct Extent {
    /// Bytes of the pool in experiments on time; the paper uses 8 GB.
    pub pool_bytes: u64,
    /// Numbers of threads, ascending.
    pub threads: Vec<usize>,
    /// Sizes of requests in bytes, ascending. The last is the largest that the paper allows.
    pub sizes: Vec<u64>,
    /// Numbers of pages of the pools in the free-share experiment.
    pub pages: Vec<u64>,
    /// Numbers of rows of the smaller side of the hash join.
    pub join_rows: Vec<u64>,
    /// Number of pages of the hash join's pool.
    pub join_pages: u64,
    /// Number of measured runs, after two warm-up runs.
    pub runs: usize,
}

impl Extent {
    /// The paper's extent: 8 GiB, 2^10 to 2^20 threads, pools of 2^20 and 2^25 pages.
    pub fn paper() -> Self {
        Self {
            pool_bytes: 8 << 30,
            threads: (10..=20).step_by(2).map(|bits| 1 << bits).collect(),
            sizes: (2..=13).map(|bits| 1 << bits).collect(),
            pages: vec![1 << 20, 1 << 25],
            join_rows: vec![1 << 14, 1 << 17, 1 << 20, 10 << 20],
            join_pages: 128 << 20,
            runs: 25,
        }
    }

    /// Small enough for the emulated device: it shows that everything works; its times mean nothing.
    pub fn emulated() -> Self {
        Self {
            pool_bytes: 1 << 19,
            threads: vec![32, 256],
            sizes: vec![4, 256, 1024],
            pages: vec![4096],
            join_rows: vec![300],
            join_pages: 2048,
            runs: 2,
        }
    }
}

/// Whether runs free their allocations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Regime {
    /// Each run frees its allocations.
    Warm,
    /// Nothing is freed.
    Hold,
    /// Each run starts from random free pages, with this share of all pages.
    Share(f64),
    /// Like `Share`, with the same free pages in each run, so that the number of threads can equal their
    /// number.
    Drain(f64),
}

impl Regime {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Hold => "hold",
            Self::Share(_) => "share",
            Self::Drain(_) => "drain",
        }
    }

    pub(super) fn share(self) -> Option<f64> {
        match self {
            Self::Share(share) | Self::Drain(share) => Some(share),
            Self::Warm | Self::Hold => None,
        }
    }
}

/// Sizes of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sizes {
    /// All requests have this number of bytes.
    Fixed(u64),
    /// Evenly distributed from 4 to this number of bytes.
    Mixed(u64),
}

/// One configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) search: PageSearch,
    pub(super) regime: Regime,
    pub(super) sizes: Sizes,
    pub(super) threads: usize,
    pub(super) pages: u64,
    pub(super) page_bytes: u64,
}

/// The measurements of a case.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) allocate: Option<Summary>,
    pub(super) release: Option<Summary>,
    /// Number of requests served in the last run.
    pub(super) served: u64,
    pub(super) tas: Option<f64>,
    pub(super) was: Option<f64>,
    /// Number of free pages before the last run.
    pub(super) free: u64,
}

const SOURCE: &str = include_str!("kernels.cu");
const BLOCK: u32 = 256;

/// A device, and the programs compiled for it so far.
pub(super) struct Bed {
    pub(super) device: Device,
    pub(super) stream: Stream,
    pub(super) clock: Clock,
    pub(super) extent: Extent,
    programs: RefCell<BTreeMap<(usize, bool), Programs>>,
}

#[derive(Clone)]
pub(super) struct Programs {
    allocate: HeapAllocate,
    release: HeapRelease,
    module: std::sync::Arc<galatea_device::Module>,
}

impl Bed {
    pub(super) fn new(device: &Device, extent: &Extent) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Self {
            device: device.clone(),
            clock: Clock::new(&stream, extent.runs),
            stream,
            extent: extent.clone(),
            programs: RefCell::default(),
        })
    }

    fn programs(&self, build: HeapBuild) -> Result<Programs> {
        let key = (build.search.number(), build.count);
        if let Some(programs) = self.programs.borrow().get(&key) {
            return Ok(programs.clone());
        }
        let mut program = Program::new("allocator_experiments", SOURCE).headers(headers());
        program.entries = [
            "null_kernel",
            "contend",
            "sprinkle",
            "sizes",
            "join_build",
            "join_probe",
        ]
        .map(String::from)
        .to_vec();
        program.options.extend(build.options());
        let programs = Programs {
            allocate: HeapAllocate::new(&self.device, build)?,
            release: HeapRelease::new(&self.device, build)?,
            module: self.device.compile(&program)?.module,
        };
        self.programs.borrow_mut().insert(key, programs.clone());
        Ok(programs)
    }

    /// A kernel of `kernels.cu`, compiled with a page search.
    pub(super) fn kernel(&self, search: PageSearch, name: &str) -> Result<Function> {
        let build = HeapBuild {
            search,
            ..HeapBuild::default()
        };
        Ok(self.programs(build)?.module.function(name)?)
    }

    /// Launches a kernel of `kernels.cu` over `count` threads.
    pub(super) fn launch(&self, kernel: &Function, count: u64, arguments: &ArgumentBytes) -> Result<()> {
        let geometry = Geometry::covering(count, BLOCK.into(), BLOCK);
        Ok(kernel.launch(&self.stream, geometry, arguments)?)
    }

    /// The floor: a launch and a store per thread.
    pub(super) fn null(&self, threads: usize) -> Result<Option<Summary>> {
        let out = self.device.zeroed::<u64>(&self.stream, threads)?;
        let kernel = self.kernel(PageSearch::Window, "null_kernel")?;
        let arguments = arguments(&[out.address(), threads as u64]);
        self.clock
            .summary(|| self.launch(&kernel, threads as u64, &arguments))
    }

    /// Fills words with random bits; `share` of them are 1.
    pub(super) fn sprinkle(&self, words: u64, share: f64, seed: u64) -> Result<DeviceBuffer<u64>> {
        let bits = self
            .device
            .zeroed::<u64>(&self.stream, usize::try_from(words).unwrap_or(usize::MAX))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^32"
        )]
        let threshold = (share * 4_294_967_296.0) as u64;
        let kernel = self.kernel(PageSearch::Window, "sprinkle")?;
        self.launch(
            &kernel,
            words,
            &arguments(&[bits.address(), words, seed, threshold]),
        )?;
        Ok(bits)
    }

    /// Number of free pages of a pool in the regime [`Regime::Drain`]. The pool consists of whole words.
    pub(super) fn free_pages(&self, pages: u64, share: f64) -> Result<usize> {
        let bits = self
            .stream
            .read(&self.sprinkle(pages.div_ceil(64), share, 0)?, ..)?;
        Ok(bits.iter().map(|word| word.count_ones() as usize).sum())
    }

    /// A heap of a case.
    pub(super) fn heap(
        &self,
        search: PageSearch,
        pages: u64,
        page_bytes: u64,
        count: bool,
    ) -> Result<DeviceHeap> {
        let mut options = HeapOptions::pages_of(page_bytes).search(search);
        options.build.count = count;
        Ok(DeviceHeap::new(
            &self.device,
            &self.stream,
            pages * page_bytes,
            options,
        )?)
    }

    /// Measures a case. If `count`, steps are counted, which costs time, so times must not be used.
    pub(super) fn measure(&self, case: Case, count: bool) -> Result<Outcome> {
        let programs = self.programs(HeapBuild {
            search: case.search,
            check: false,
            count,
        })?;
        let mut heap = self.heap(case.search, case.pages, case.page_bytes, count)?;
        let mut addresses = self.device.zeroed::<u64>(&self.stream, case.threads)?;
        let sizes = match case.sizes {
            Sizes::Fixed(_) => None,
            Sizes::Mixed(most) => {
                let sizes = self.device.zeroed::<u64>(&self.stream, case.threads)?;
                let kernel = self.kernel(PageSearch::Window, "sizes")?;
                let count = case.threads as u64;
                self.launch(&kernel, count, &arguments(&[sizes.address(), count, 17, most]))?;
                Some(sizes)
            }
        };
        let (mut taking, mut giving) = (Vec::new(), Vec::new());
        let mut outcome = Outcome::default();
        let mut runs = WARMUPS + self.extent.runs;
        if case.regime == Regime::Hold {
            // The number of runs is limited by the pages. The first run is measured, so only the code is
            // warmed up.
            let fitting =
                case.pages * case.page_bytes / (case.threads as u64 * bytes_per_request(case)).max(1);
            runs = runs.min(usize::try_from(fitting).unwrap_or(usize::MAX).max(1));
        }
        for run in 0..runs {
            if let Some(share) = case.regime.share() {
                let seed = if matches!(case.regime, Regime::Drain(_)) {
                    0
                } else {
                    run as u64
                };
                let bits = self.sprinkle(case.pages.div_ceil(64), share, seed)?;
                heap.reset_to(&self.stream, &bits)?;
            } else if case.search == PageSearch::Bump && case.regime == Regime::Warm {
                heap.reset(&self.stream)?;
            }
            if run + 1 == runs && case.regime.share().is_some() {
                outcome.free = heap.verify(&self.device, &self.stream)?.free;
            }
            let view = heap.view();
            let took = self.clock.time(|| {
                match (&sizes, case.sizes) {
                    (Some(sizes), _) => {
                        programs
                            .allocate
                            .launch_sizes(&self.stream, view, In(sizes), Out(&mut addresses))
                    }
                    (None, Sizes::Fixed(bytes) | Sizes::Mixed(bytes)) => {
                        programs
                            .allocate
                            .launch(&self.stream, view, bytes, Out(&mut addresses))
                    }
                }?;
                Ok(())
            })?;
            if run + 1 == runs {
                outcome.served = served(&self.stream.read(&addresses, ..)?);
                if count {
                    let statistics = heap.statistics(&self.stream)?;
                    outcome.tas = statistics.thread_average_steps();
                    outcome.was = statistics.warp_average_steps();
                }
            }
            let view = heap.view();
            let gave = if case.regime == Regime::Hold {
                None
            } else {
                Some(
                    self.clock
                        .time(|| Ok(programs.release.launch(&self.stream, view, In(&addresses))?))?,
                )
            };
            if run >= WARMUPS || case.regime == Regime::Hold {
                taking.push(took);
                giving.extend(gave);
            }
        }
        outcome.allocate = Summary::of(taking);
        outcome.release = Summary::of(giving);
        Ok(outcome)
    }
}

fn bytes_per_request(case: Case) -> u64 {
    let bytes = match case.sizes {
        Sizes::Fixed(bytes) | Sizes::Mixed(bytes) => bytes,
    };
    bytes.next_multiple_of(case.page_bytes)
}

fn served(addresses: &[u64]) -> u64 {
    addresses.iter().filter(|address| **address != 0).count() as u64
}

/// Like [`arguments`], with a struct before the words.
pub(super) fn arguments_with<T: Pod>(first: T, words: &[u64]) -> ArgumentBytes {
    let mut arguments = ArgumentBytes::new();
    arguments.push(first);
    for word in words {
        arguments.push(*word);
    }
    arguments
}
