//! The experiments of the thesis' chapter 3 by name: rates, chunks, threads, pieces, selectivity and latency.

use galatea_device::Device;

use super::{
    Access, Capabilities, InPlace, Method, Rate, Result, Source, TransferOptions, by_selectivity, latency,
    rate, rates,
};

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; 6] = ["rates", "chunks", "threads", "pieces", "selectivity", "latency"];

/// The extent of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Bytes of host memory, whole numbers of 64 KiB.
    pub bytes: usize,
    /// Runs.
    pub runs: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            runs: 5,
        }
    }
}

impl Scale {
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
    /// The quantity.
    pub rate: Rate,
    /// Threads that staged, where some did.
    pub threads: usize,
    /// Bytes by which pieces were off their alignment.
    pub shift: u64,
    /// Part of the rows that were selected, and how, where some were.
    pub selected: Option<(f64, &'static str)>,
    /// Unit of the values: GB/s, or ns of a load.
    pub unit: &'static str,
}

impl Measured {
    /// Names of the fields of [`Measured::csv`].
    pub const HEADER: &'static str = "experiment,method,access,piece_bytes,random,shift,threads,selected,by,unit,median,least,greatest,runs";

    /// The row as comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut values = self.rate.values.clone();
        values.sort_by(f64::total_cmp);
        let scale = if self.unit == GB_S { 1e9 } else { 1.0 };
        let at = |place: usize| values.get(place).map_or(f64::NAN, |value| value / scale);
        let (selected, by) = self.selected.unwrap_or((1.0, "all"));
        format!(
            "{},{},{:?},{},{},{},{},{selected},{by},{},{:.4},{:.4},{:.4},{}",
            self.experiment,
            self.rate.source,
            self.rate.access,
            self.rate.piece,
            self.rate.random,
            self.shift,
            self.threads,
            self.unit,
            at(values.len() / 2),
            at(0),
            at(values.len().saturating_sub(1)),
            values.len()
        )
    }
}

/// Runs an experiment of [`EXPERIMENTS`]; rows go to `out` as they come.
///
/// # Errors
/// The device's.
pub fn run(device: &Device, name: &str, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    match name {
        "rates" => all_rates(device, scale, out),
        "chunks" => chunks(device, scale, out),
        "threads" => threads(device, scale, out),
        "pieces" => pieces(device, scale, out),
        "selectivity" => selectivity(device, scale, out),
        "latency" => latencies(device, scale, out),
        _ => Ok(()),
    }
}

fn row(experiment: &'static str, rate: Rate, threads: usize) -> Measured {
    Measured {
        experiment,
        rate,
        threads,
        shift: 0,
        selected: None,
        unit: GB_S,
    }
}

const GB_S: &str = "GB/s";

/// Query 6 by the part of the rows that it selects, by branches and predicated.
fn selectivity(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let capabilities = Capabilities::probe(device);
    // A chunk has three columns of whole vectors.
    let options = TransferOptions {
        chunk_bytes: scale.options().chunk_bytes / 192 * 192,
        ..scale.options()
    };
    for method in [
        Method::Pinned,
        Method::ZeroCopy,
        Method::UnifiedPrefetch,
        Method::UnifiedMigration,
    ] {
        if capabilities.has(method).is_err() {
            continue;
        }
        for selected in [0.0, 0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0] {
            for (by, predicated) in [("branch", false), ("predicate", true)] {
                let what = (selected, predicated);
                let rate = by_selectivity(device, method, scale.bytes, &options, what, scale.runs)?;
                out(Measured {
                    selected: Some((selected, by)),
                    ..row("selectivity", rate, 0)
                });
            }
        }
    }
    Ok(())
}

/// Nanoseconds of a load over each way that is pulled, beside the device's own memory, and the CPU's load of
/// its memory.
fn latencies(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let capabilities = Capabilities::probe(device);
    // Most of it is in no cache of the CPU, which has just written it.
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

/// Every way that the device has, for reads and writes.
fn all_rates(device: &Device, scale: &Scale, out: &mut dyn FnMut(Measured)) -> Result<()> {
    let options = scale.options();
    for rate in rates(device, scale.bytes, &options, scale.runs)? {
        out(row("rates", rate, options.threads));
    }
    Ok(())
}

/// By the bytes that are brought at once.
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
            // Small chunks take long: fewer bytes of them.
            let bytes = scale.bytes.min(chunk * 1024);
            let rate = rate(device, method, Access::Read, bytes, &options, scale.runs)?;
            out(row("chunks", rate, options.threads));
            chunk *= 4;
        }
    }
    Ok(())
}

/// By the threads that stage.
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
        Ok::<_, super::TransferError>(())
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
