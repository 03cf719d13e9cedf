//! The constants of the model of costs, each by a small kernel, and the model for this device made of them.
//!
//! | constant | from |
//! | --- | --- |
//! | rounds per second | native atomics with differing increments, 8 lanes meeting in each bank in different words |
//! | update latency | one warp per multiprocessor, each atomic waiting for the result of the one before |
//! | match rounds | matching of lanes, mean of 1, 8 and 32 different values, in rounds by that rate |
//! | bytes per second | a kernel that reads both columns |
//! | bytes in flight | the same with few threads per multiprocessor, by the model's law: they reach 1 - exp(-asked / bytes in flight) of that rate |
//! | global atomics | 64-bit additions to random words of 4 MiB; to one word, in requests of warps |

use galatea_device::Geometry;
use galatea_engine::runtime::scaled_machine;
use galatea_layout::model;

use super::alternatives::{Way, whole_waves};
use super::bed::{Bed, Operands, STEPS, Shape, agrees};
use super::data::{self, Column};
use super::report::{ConflictsReport, Row};
use super::{Experiment, alternatives};
use crate::Result;
use crate::harness::arguments;

/// Bytes of a row of both columns.
pub(super) const ROW_BYTES: u64 = 12;
/// How rows of measured updates begin.
pub(super) const UPDATES: &str = "accesses per second: ";
const LANES: u64 = 32;
/// Words of 4 MiB.
const RANDOM_WORDS: u64 = 1 << 19;

/// One run of a kernel that repeats an operation.
#[derive(Clone, Copy)]
struct Probe {
    kernel: &'static str,
    degree: u64,
    same: bool,
    threads: u64,
    blocks: u64,
    updates: u64,
}

pub(super) fn run(bed: &Bed, report: &mut ConflictsReport) -> Result<()> {
    if report.of(Experiment::Alternatives).next().is_none() {
        alternatives::run(bed, report)?;
    }
    let info = bed.device.info();
    let multiprocessors = bed.multiprocessors();
    let per_multiprocessor = u64::from(info.max_threads_per_multiprocessor) / bed.extent.threads;
    let full = Probe {
        kernel: "probe_sums",
        degree: 8,
        same: false,
        threads: bed.extent.threads,
        blocks: per_multiprocessor.clamp(1, 32) * multiprocessors,
        updates: bed.extent.updates,
    };

    // What updates cost by the lanes that meet: the reference for the model's counting in rounds.
    for kernel in ["probe_counts", "probe_sums", "probe_returning"] {
        for same in [false, true] {
            for degree in [1, 2, 4, 8, 16, 32] {
                let rate = probe(
                    bed,
                    Probe {
                        kernel,
                        degree,
                        same,
                        ..full
                    },
                )?;
                let what = match kernel {
                    "probe_counts" => "counts",
                    "probe_sums" => "sums",
                    _ => "sums that return",
                };
                let words = if same { "one word" } else { "different words" };
                let mut row = Row::new(&format!("{UPDATES}{what}, {words}"));
                (row.degree, row.constant) = (Some(degree), Some(rate));
                report.push(Experiment::Machine, row);
            }
        }
    }
    let rounds_per_second = 8.0 * probe(bed, full)?;

    let alone = Probe {
        kernel: "probe_returning",
        degree: 1,
        threads: LANES,
        blocks: multiprocessors,
        ..full
    };
    let seconds_per_update = multiprocessors as f64 / probe(bed, alone)?;
    let update_latency = seconds_per_update * rounds_per_second / multiprocessors as f64;

    let mut match_rounds = 0.0;
    for degree in [1, 8, 32] {
        let matching = Probe {
            kernel: "probe_matching",
            degree,
            ..full
        };
        let rounds = rounds_per_second / probe(bed, matching)?;
        let mut row = Row::new("rounds of matching");
        (row.degree, row.constant) = (Some(degree), Some(rounds));
        report.push(Experiment::Machine, row);
        match_rounds += rounds / 3.0;
    }

    let (memory_bytes_per_second, memory_bytes_in_flight) = memory(bed, report)?;
    let global = |degree, updates| Probe {
        kernel: "probe_global",
        degree,
        updates,
        ..full
    };
    let random = probe(bed, global(RANDOM_WORDS, bed.extent.updates.div_ceil(16)))? * LANES as f64;
    let one = probe(bed, global(1, bed.extent.updates.div_ceil(64)))?;

    let model = model::Machine {
        rounds_per_second,
        update_latency,
        match_rounds,
        memory_bytes_per_second,
        memory_bytes_in_flight,
        global_atomics_per_second: random,
        global_atomics_on_one_address: one,
        ..scaled_machine(info)
    };
    for (name, constant) in named(&model) {
        let mut row = Row::new(name);
        row.constant = Some(constant);
        report.push(Experiment::Machine, row);
    }
    report.model = Some(model);
    Ok(())
}

/// The measured constants of a model, by name.
pub(super) fn named(model: &model::Machine) -> [(&'static str, f64); 7] {
    [
        ("rounds_per_second", model.rounds_per_second),
        ("update_latency", model.update_latency),
        ("match_rounds", model.match_rounds),
        ("memory_bytes_per_second", model.memory_bytes_per_second),
        ("memory_bytes_in_flight", model.memory_bytes_in_flight),
        ("global_atomics_per_second", model.global_atomics_per_second),
        (
            "global_atomics_on_one_address",
            model.global_atomics_on_one_address,
        ),
    ]
}

/// Accesses of warps per second, all multiprocessors together; 0 where no time passed.
fn probe(bed: &Bed, probe: Probe) -> Result<f64> {
    let Probe {
        kernel: name,
        degree,
        same,
        threads,
        blocks,
        updates,
    } = probe;
    let accesses = threads * blocks / LANES * updates;
    // Increments are 1, or 1 and 2 in turn; matching counts the lanes with the same value.
    let (words, expected) = match name {
        "probe_counts" => (1, accesses * LANES),
        "probe_matching" => (1, accesses * LANES * (LANES / degree)),
        "probe_global" => (degree, accesses * LANES * 3 / 2),
        _ => (1, accesses * LANES * 3 / 2),
    };
    let kernel = bed.kernel(name)?;
    let words = usize::try_from(words).unwrap_or(usize::MAX);
    let mut out = bed.device.zeroed::<u64>(&bed.stream, words)?;
    let geometry = Geometry::new(blocks, threads);
    let launch = |out: &mut galatea_device::DeviceBuffer<u64>| {
        let words = [out.address(), updates, degree, same.into()];
        Ok(kernel.launch(&bed.stream, geometry, &arguments(&words))?)
    };
    launch(&mut out)?;
    let found = bed.stream.read(&out, ..)?.iter().sum::<u64>();
    agrees(name, 0, expected, found)?;
    let summary = bed.clock.summary(|| launch(&mut out))?;
    let seconds = summary.map_or(f64::INFINITY, |summary| summary.median);
    let rate = accesses as f64 / seconds;
    Ok(if rate.is_finite() { rate } else { 0.0 })
}

/// Bytes read per second, and bytes that a multiprocessor must have asked for to reach 63 % of that.
fn memory(bed: &Bed, report: &mut ConflictsReport) -> Result<(f64, f64)> {
    let rows = whole_waves(bed);
    let codes = data::zipf(&bed.extent, 32, 0.0, rows)?;
    let column = Column::new(&bed.extent, 32, &codes);
    let by_code = (0_u64..).zip(&column.counts).map(|(code, count)| code * count);
    let expected = [by_code.sum::<u64>() + column.sums.iter().sum::<u64>()];
    let codes = bed.device.upload(&bed.stream, &codes)?;
    let kernel = bed.kernel("read_both")?;
    let mut result = bed.device.zeroed::<u64>(&bed.stream, 1)?;
    let mut rate = |shape: Shape| -> Result<f64> {
        let name = Way::ReadsOnly.to_string();
        let summary = bed.checked(&name, &mut result, &expected, |result| {
            bed.stream.fill(&mut *result, 0)?;
            bed.launch(&kernel, shape, &codes, result, Operands::default())
        })?;
        Ok(summary.map_or(0.0, |summary| (rows as u64 * ROW_BYTES) as f64 / summary.median))
    };
    let most = rate(bed.shape(0))?;
    let unit_rows = (rows as u64).div_ceil(bed.multiprocessors());
    let mut in_flight = Vec::new();
    for threads in [64, 128, 256] {
        let asked = threads * STEPS * ROW_BYTES;
        let reached = rate(Shape {
            threads,
            unit_rows,
            shared_bytes: 0,
        })?;
        let mut row = Row::new(&format!(
            "bytes read per second, {asked} asked for by a multiprocessor"
        ));
        row.set_data(rows, 32, 0.0);
        row.constant = Some(reached);
        report.push(Experiment::Machine, row);
        // Where it is near the rate of all, more would not help.
        if reached < most / 2.0 || in_flight.is_empty() {
            let share = (reached / most).min(0.99);
            in_flight.push(-(asked as f64) / (-share).ln_1p());
        }
    }
    let in_flight = crate::result::Summary::of(in_flight).map_or(0.0, |summary| summary.median);
    Ok((most, in_flight))
}
