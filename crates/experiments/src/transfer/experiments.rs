//! The experiments of chapter 3 and section 4.2.4 of the thesis, by name.

use galatea_device::{Device, MachineMemory};
use galatea_memory::transfer::{Access, Capabilities, Method, Result, TransferError, TransferOptions};

use super::both::{both_directions, two_way_methods};
use super::cpu::cpu_reads;
use super::join::{Join, TUPLE_BYTES};
use super::latency::{Reach, by_extent, latency};
use super::measure::{PeerWay, Rate, Source, rate, rates};
use super::peer::{PeerTuples, probe_rate};
use super::pieces::InPlace;
use super::selection::{by_selectivity, by_selectivity_on_cpu};
use crate::runs;
use crate::threads::cpu_threads;

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; 10] = [
    "rates",
    "chunks",
    "threads",
    "pieces",
    "both",
    "probe",
    "selectivity",
    "cpu",
    "latency",
    "tlb",
];

/// The experiment with tuples in the memory of another device, which [`Scale::peer`] has to name.
pub const PEER: &str = "peer_probe";

/// The scale of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Bytes of host memory, a multiple of 64 KiB.
    pub bytes: usize,
    /// Number of runs.
    pub runs: usize,
    /// Chains through a large memory.
    pub extents: Extents,
    /// Another device, for tuples in its memory.
    pub peer: Option<Device>,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            runs: 3,
            extents: Extents::default(),
            peer: None,
        }
    }
}

/// Extents and strides of chains through a large memory, in bytes. The defaults are those of figure 4.6: 1 to
/// 64 GiB of the device and 1 to 32 GiB of the host.
#[derive(Debug, Clone)]
pub struct Extents {
    /// The minimum extent; the others are 1.5, 2, 3, 4, 6 ... times as large.
    pub least: usize,
    /// The maximum extent in the device's memory. At most three quarters of the free memory are used.
    pub device: usize,
    /// The maximum extent in the host's memory. At most half of the available memory is used.
    pub host: usize,
    /// Distances between neighbouring places of a chain.
    pub strides: [usize; 3],
}

impl Default for Extents {
    fn default() -> Self {
        Self {
            least: 1 << 30,
            device: 64 << 30,
            host: 32 << 30,
            strides: [16 << 20, 32 << 20, 64 << 20],
        }
    }
}

impl Extents {
    /// The chains of at most `most` bytes.
    fn chains(&self, most: usize) -> Vec<Reach> {
        let doubled = std::iter::successors(Some(self.least), |extent| extent.checked_mul(2));
        let extents = doubled
            .take_while(|extent| *extent <= most)
            .flat_map(|extent| [extent, extent / 2 * 3])
            .filter(|extent| *extent <= most);
        let extents: Vec<usize> = extents.collect();
        let strides = self.strides.into_iter();
        strides
            .flat_map(|stride| {
                extents.iter().map(move |extent| Reach {
                    extent: *extent,
                    stride,
                })
            })
            .collect()
    }
}

impl Scale {
    /// A small scale, to test that everything works.
    #[must_use]
    pub fn small() -> Self {
        Self {
            bytes: 1 << 20,
            runs: 3,
            extents: Extents {
                least: 128 << 10,
                device: 1 << 20,
                host: 512 << 10,
                strides: [4 << 10, 8 << 10, 16 << 10],
            },
            peer: None,
        }
    }

    fn options(&self) -> TransferOptions {
        TransferOptions {
            chunk_bytes: (self.bytes / 16).min(16 << 20),
            ..TransferOptions::default()
        }
    }
}

/// A row of an experiment.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The experiment.
    pub experiment: &'static str,
    /// The measured rate.
    pub rate: Rate,
    /// Threads of the CPU that staged, or read, if any did.
    pub threads: usize,
    /// Whether the same number of bytes was written at the same time; both count.
    pub both: bool,
    /// Bytes by which pieces were misaligned.
    pub shift: u64,
    /// The fraction of selected rows and the method of selection, if rows were selected.
    pub selected: Option<(f64, &'static str)>,
    /// Extent and stride of a chain through a large memory.
    pub reach: Option<Reach>,
    /// Unit of the values: GB/s, G tuples/s, or ns per load.
    pub unit: &'static str,
}

impl Measured {
    /// Names of the fields of [`Measured::csv`].
    pub const HEADER: &'static str = "experiment,method,access,piece_bytes,random,shift,threads,selected,by,extent_bytes,stride_bytes,unit,median,least,greatest,runs";

    /// The divisor of values for the row's unit.
    fn unit_scale(&self) -> f64 {
        match self.unit {
            GB_S => 1e9,
            G_TUPLES_S => 1e9 * TUPLE_BYTES as f64,
            _ => 1.0,
        }
    }

    /// The median of the runs, in the row's unit.
    #[must_use]
    pub fn median(&self) -> f64 {
        runs::median(&self.rate.values) / self.unit_scale()
    }

    /// The row as comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let scale = self.unit_scale();
        let (least, greatest) = runs::range(&self.rate.values);
        let access = match (self.both, self.rate.access) {
            (true, _) => "ReadAndWrite",
            (false, Access::Read) => "Read",
            (false, Access::Write) => "Write",
        };
        let (selected, by) = self.selected.unwrap_or((1.0, "all"));
        let Reach { extent, stride } = self.reach.unwrap_or(Reach { extent: 0, stride: 0 });
        format!(
            "{},{},{access},{},{},{},{},{selected},{by},{extent},{stride},{},{:.4},{:.4},{:.4},{}",
            self.experiment,
            self.rate.source,
            self.rate.piece,
            self.rate.random,
            self.shift,
            self.threads,
            self.unit,
            self.median(),
            least / scale,
            greatest / scale,
            self.rate.values.len()
        )
    }
}

/// Runs an experiment of [`EXPERIMENTS`], or [`PEER`]. `out` is called with each row once it is measured.
///
/// # Errors
/// An error of the device.
pub fn run(device: &Device, name: &str, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    match name {
        "rates" => all_rates(device, scale, out),
        "chunks" => chunks(device, scale, out),
        "threads" => threads(device, scale, out),
        "pieces" => pieces(device, scale, out),
        "both" => both(device, scale, out),
        "probe" => probe(device, scale, out),
        "selectivity" => selectivity(device, scale, out),
        "cpu" => cpu(device, scale, out),
        "latency" => latencies(device, scale, out),
        "tlb" => tlb(device, scale, out),
        PEER => peer_probe(device, scale, out),
        _ => Ok(()),
    }
}

fn row(experiment: &'static str, rate: Rate, threads: usize) -> Measured {
    Measured {
        experiment,
        rate,
        threads,
        both: false,
        shift: 0,
        selected: None,
        reach: None,
        unit: GB_S,
    }
}

const GB_S: &str = "GB/s";
const G_TUPLES_S: &str = "G tuples/s";

/// Both directions at once, and each alone, by every transfer method that two streams can use.
fn both(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    // Each direction transfers half of the bytes.
    let bytes = (scale.bytes / 2).next_multiple_of(4096);
    let options = scale.options();
    for method in two_way_methods(device) {
        let rates = both_directions(device, method, bytes, &options, scale.runs)?;
        out(row("both", rates.reads, options.threads));
        out(row("both", rates.writes, options.threads));
        out(Measured {
            both: true,
            ..row("both", rates.both, options.threads)
        });
    }
    Ok(())
}

/// Probes a hash table in the device's memory with tuples from every transfer method.
fn probe(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let capabilities = Capabilities::probe(device);
    let options = scale.options();
    let mut join = Join::new(device, scale.bytes)?;
    for method in Method::ALL {
        if capabilities.has(method).is_err() {
            continue;
        }
        let rate = join.rate(device, method, scale.bytes, &options, scale.runs)?;
        out(row("probe", rate.clone(), options.threads));
        out(Measured {
            unit: G_TUPLES_S,
            ..row("probe", rate, options.threads)
        });
    }
    Ok(())
}

/// Probes a hash table in the device's memory with tuples from another device. No rows without one.
fn peer_probe(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let Some(peer) = &scale.peer else {
        return Ok(());
    };
    let mut join = Join::new(device, scale.bytes)?;
    let mut chunks = [16 << 20, 64 << 20]
        .map(|most| (scale.bytes / 16).min(most))
        .to_vec();
    chunks.dedup();
    // Across the link to the host, for comparison.
    for method in [Method::ZeroCopy, Method::Pinned] {
        if Capabilities::probe(device).has(method).is_ok() {
            let rate = join.rate(device, method, scale.bytes, &scale.options(), scale.runs)?;
            out(row(PEER, rate, 0));
        }
    }
    for way in PeerWay::ALL {
        for chunk_bytes in &chunks {
            let options = TransferOptions {
                chunk_bytes: *chunk_bytes,
                ..TransferOptions::default()
            };
            let Some(mut tuples) = PeerTuples::new((device, peer), way, scale.bytes, &options)? else {
                continue;
            };
            let rate = probe_rate(&mut join, &mut tuples, scale.runs)?;
            out(row(PEER, rate.clone(), 0));
            out(Measured {
                unit: G_TUPLES_S,
                ..row(PEER, rate, 0)
            });
        }
    }
    Ok(())
}

/// Query 6 by the fraction of selected rows, with branches and with predication.
fn selectivity(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let capabilities = Capabilities::probe(device);
    // A chunk has three columns of whole vectors.
    let options = TransferOptions {
        chunk_bytes: scale.options().chunk_bytes / 192 * 192,
        ..scale.options()
    };
    let ways = [
        Method::Pinned,
        Method::ZeroCopy,
        Method::UnifiedPrefetch,
        Method::UnifiedMigration,
    ];
    for source in [Source::Cpu].into_iter().chain(ways.map(Source::Way)) {
        if matches!(source, Source::Way(method) if capabilities.has(method).is_err()) {
            continue;
        }
        for selected in [0.0, 0.0001, 0.001, 0.013, 0.03, 0.1, 0.3, 1.0] {
            for (by, predicated) in [("branch", false), ("predicate", true)] {
                let what = (selected, predicated);
                let (rate, threads) = match source {
                    Source::Way(method) => {
                        // Before each run, pages must migrate back to the host, which takes long. Fewer bytes
                        // are therefore used.
                        let managed = [Method::UnifiedPrefetch, Method::UnifiedMigration].contains(&method);
                        let bytes = if managed { scale.bytes / 4 } else { scale.bytes };
                        let rate = by_selectivity(device, method, bytes, &options, what, scale.runs)?;
                        (rate, 0)
                    }
                    _ => {
                        let rate = by_selectivity_on_cpu(scale.bytes, &options, what, scale.runs)?;
                        (rate, cpu_threads())
                    }
                };
                out(Measured {
                    selected: Some((selected, by)),
                    ..row("selectivity", rate, threads)
                });
            }
        }
    }
    Ok(())
}

/// The CPU's 4-byte reads of its own memory, compared with those of kernels, in order and at random places.
fn cpu(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    for random in [false, true] {
        let rate = cpu_reads(scale.bytes, random, scale.runs)?;
        out(row("cpu", rate, cpu_threads()));
    }
    if Capabilities::probe(device).has(Method::ZeroCopy).is_ok() {
        let mut memory = InPlace::new(device, Method::ZeroCopy, scale.bytes)?;
        for random in [false, true] {
            let rate = memory.rate(Access::Read, (4, 0, random), scale.runs)?;
            out(row("cpu", rate, 0));
        }
    }
    Ok(())
}

/// Nanoseconds of a load by the extent and the stride of a chain, in the device's memory and over the link.
fn tlb(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let usable = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let free = device.memory_use()?.free.min(device.budget().available());
    let device_bytes = scale.extents.device.min(usable(free / 4 * 3));
    let memory = MachineMemory::look();
    let available = memory.available.unwrap_or(memory.total);
    let host_bytes = scale.extents.host.min(usable(available / 2));
    let mut sources = vec![(Source::DeviceMemory, device_bytes)];
    if Capabilities::probe(device).has(Method::ZeroCopy).is_ok() {
        sources.push((Source::Way(Method::ZeroCopy), host_bytes));
    }
    for (source, most) in sources {
        let chains = scale.extents.chains(most);
        by_extent(device, source, &chains, scale.runs, &mut |reach, rate| {
            out(Measured {
                reach: Some(reach),
                unit: "ns",
                ..row("tlb", rate, 0)
            });
        })?;
    }
    // The pool's memory is large here, so it is released.
    device.trim()?;
    Ok(())
}

/// Nanoseconds of a load over each pull method, of the device's own memory, and of the CPU's load of its
/// memory.
fn latencies(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let capabilities = Capabilities::probe(device);
    // The CPU has just written it, but most of it is in none of its caches.
    let bytes = scale.bytes;
    let steps = (bytes as u64 / 128).min(20_000);
    let pulled = [Method::ZeroCopy, Method::UnifiedMigration].map(Source::Way);
    for source in [Source::Cpu, Source::DeviceMemory].into_iter().chain(pulled) {
        if matches!(source, Source::Way(method) if capabilities.has(method).is_err()) {
            continue;
        }
        let rate = latency(device, source, bytes, steps, scale.runs)?;
        out(Measured {
            unit: "ns",
            ..row("latency", rate, 0)
        });
    }
    Ok(())
}

/// Rates of every transfer method of the device, for reads and writes.
fn all_rates(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let options = scale.options();
    for rate in rates(device, scale.bytes, &options, scale.runs)? {
        out(row("rates", rate, options.threads));
    }
    Ok(())
}

/// Rates by the bytes of a chunk.
fn chunks(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let pushes = [
        Method::Pageable,
        Method::Staged,
        Method::DynamicPinning,
        Method::Pinned,
        Method::UnifiedPrefetch,
    ];
    for method in pushes {
        if Capabilities::probe(device).has(method).is_err() {
            continue;
        }
        let mut chunk = 64 << 10;
        while chunk <= scale.bytes / 4 {
            let options = TransferOptions {
                chunk_bytes: chunk,
                ..scale.options()
            };
            // Small chunks take long, so fewer bytes are used.
            let bytes = (scale.bytes / 2).min(chunk * 1024);
            let rate = rate(device, method, Access::Read, bytes, &options, scale.runs)?;
            out(row("chunks", rate, options.threads));
            chunk *= 4;
        }
    }
    Ok(())
}

/// Rates by the number of staging threads.
fn threads(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    for threads in [1, 2, 4, 8, 16] {
        let options = TransferOptions {
            threads,
            ..scale.options()
        };
        let rate = rate(
            device,
            Method::Staged,
            Access::Read,
            scale.bytes,
            &options,
            scale.runs,
        )?;
        out(row("threads", rate, threads));
    }
    Ok(())
}

/// Granularity and alignment of kernels' own accesses over the link.
fn pieces(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    if Capabilities::probe(device).has(Method::ZeroCopy).is_err() {
        return Ok(());
    }
    let mut memory = InPlace::new(device, Method::ZeroCopy, scale.bytes)?;
    let mut measure = |access, piece, shift, random| {
        let rate = memory.rate(access, (piece, shift, random), scale.runs)?;
        out(Measured {
            shift,
            ..row("pieces", rate, 0)
        });
        Ok::<_, TransferError>(())
    };
    for access in [Access::Read, Access::Write] {
        for random in [false, true] {
            for piece in [4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096] {
                measure(access, piece, 0, random)?;
            }
        }
        for shift in [4, 32, 64, 96] {
            measure(access, 128, shift, true)?;
        }
        measure(access, 512, 16, true)?;
    }
    Ok(())
}
