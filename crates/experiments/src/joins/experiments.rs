//! The experiments of chapter 3 of the thesis on the no-partitioning join, and of figure 4.1, by name.

use galatea_device::{Device, PageOrder};
use galatea_kernels::JoinHashing;
use galatea_memory::transfer::Result;

use super::het::Cooperation;
use super::lab::{Lab, PEER, PlacedTable, Scale};
use super::peer::{self, Second, shares};
use super::places::{relation_places, table_places};
use super::radix::RadixJoin;
use super::relations::Place;
use super::row::Row;
use super::table::{Placement, TableMemory};
use super::workload::{Shape, Workload};

/// Names of the experiments, in execution order.
pub const EXPERIMENTS: [&str; 11] = [
    "relation_places",
    "table_places",
    "probe_side",
    "build_side",
    "hybrid",
    "shares",
    "ratio",
    "skew",
    "match_rate",
    "cooperation",
    "tuples",
];

/// Runs an experiment of [`EXPERIMENTS`], or of [`PEER`]. `out` is called with each row once it is measured.
/// Returns notes on points that were not measured.
///
/// # Errors
/// An error of the device.
///
/// # Panics
/// If a join returns a wrong answer.
pub fn run(device: &Device, name: &str, scale: &Scale, out: &mut dyn FnMut(Row)) -> Result<Vec<String>> {
    let known = EXPERIMENTS
        .into_iter()
        .chain(PEER)
        .find(|experiment| *experiment == name);
    let Some(experiment) = known else {
        return Ok(Vec::new());
    };
    let mut lab = Lab::new(device, scale, experiment, out)?;
    match experiment {
        "relation_places" => relation_places(&mut lab)?,
        "table_places" => table_places(&mut lab)?,
        "probe_side" => probe_side(&mut lab, &[1, 4, 16, 32], true)?,
        "build_side" => build_side(&mut lab)?,
        "hybrid" => hybrid(&mut lab)?,
        "shares" => shares(&mut lab, Second::Host)?,
        "peer_shares" => shares(&mut lab, Second::Peer)?,
        "peer_build_side" => peer::build_side(&mut lab)?,
        "peer_skew" => peer::skew(&mut lab)?,
        "peer_tuples" => peer::tuples(&mut lab)?,
        "ratio" => probe_side(&mut lab, &[1, 2, 4, 8, 16], false)?,
        "skew" => skew(&mut lab)?,
        "match_rate" => match_rate(&mut lab)?,
        "cooperation" => cooperation(&mut lab)?,
        _ => tuples(&mut lab)?,
    }
    let notes = lab.into_notes();
    device.trim()?;
    Ok(notes)
}

const PERFECT: JoinHashing = JoinHashing::Perfect;

/// Figures 3.15 and 3.17: more rows of S, with the table in the device's memory.
fn probe_side(lab: &mut Lab<'_>, ratios: &[u64], on_cpu: bool) -> Result<()> {
    let most = ratios.last().copied().unwrap_or(1);
    let shape = Shape::c_wide(lab.scale.shrink, most);
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let Some(table) = lab.memory(shape.perfect_bytes(), Placement::Device)? else {
        return Ok(());
    };
    let rivals = match on_cpu {
        true => lab
            .memory(shape.perfect_bytes(), Placement::Host)?
            .map(|host| RadixJoin::new(&shape).map(|radix| (host, radix)))
            .transpose()?,
        false => None,
    };
    let mut rivals = rivals;
    for ratio in ratios {
        if lab.late(&format!("ratio {ratio}")) {
            break;
        }
        workload.use_probe_rows(shape.domain * ratio);
        let at = ("S per R", *ratio as f64);
        lab.gpu(&mut workload, &table, (PERFECT, Placement::Device), at, None)?;
        if let Some((host, radix)) = &mut rivals {
            lab.cpu(&mut workload, host, at)?;
            lab.radix(&mut workload, radix, at)?;
        }
    }
    Ok(())
}

/// Figure 3.16: more rows of both relations, with tables of up to twice the budget in either memory.
fn build_side(lab: &mut Lab<'_>) -> Result<()> {
    let budget = lab.scale.budget / lab.scale.shrink / 4;
    let shape = |share: f64| {
        let rows = (budget as f64 * share / 16.0) as u64;
        Shape::uniform("C, 16 bytes", 8, rows, rows)
    };
    let shares = [0.5, 1.0, 1.5, 2.0];
    let largest = shape(2.0);
    let bytes = largest.perfect_bytes();
    let mut workload = Workload::new(lab.device, largest, lab.scale.seed)?;
    let device = lab.memory(bytes, Placement::Device)?;
    let host = lab.memory(bytes, Placement::Host)?;
    let mut radix = RadixJoin::new(&largest)?;
    for share in shares {
        if lab.late(&format!("tables of {share} budgets")) {
            break;
        }
        workload.reshape(shape(share))?;
        let at = ("table per budget", share);
        // The table in host memory takes long, so it is only measured at both ends.
        let at_end = share == shares[0] || share == shares[3];
        if let Some(memory) = &device {
            lab.gpu(&mut workload, memory, (PERFECT, Placement::Device), at, None)?;
        }
        if let Some(memory) = &host {
            if at_end {
                lab.gpu(&mut workload, memory, (PERFECT, Placement::Host), at, None)?;
            }
            lab.cpu(&mut workload, memory, at)?;
        }
        if at_end {
            lab.radix(&mut workload, &mut radix, at)?;
        }
    }
    Ok(())
}

/// G tuples per second of a table in host memory: estimates how long a point takes.
const HOST_RATE: f64 = 0.06;
/// Seconds that all runs of a point may take, by that estimate.
const POINT_SECONDS: f64 = 2.0;

/// Tables per budget of `hybrid`.
const HYBRID: [f64; 4] = [1.1, 1.25, 1.5, 2.0];

/// The fraction of the keys of `hybrid` that is in R, and the rows of S per key: half as many until the
/// largest table, half of it in host memory, takes less than [`POINT_SECONDS`]. Tables keep their size,
/// because the rate in host memory depends on it.
fn hybrid_fraction(scale: &Scale, budget: u64) -> f64 {
    let tuples = 2.0 * 2.0 * budget as f64 / 16.0;
    let seconds = scale.runs.max(1) as f64 * 0.5 * tuples / (HOST_RATE * 1e9);
    let mut fraction = 1.0;
    while seconds * fraction > POINT_SECONDS {
        fraction /= 2.0;
    }
    fraction
}

/// Figure 3.16, with tables that exceed the budget, in both memories: beside the rates of the same joins with
/// the table in one of the memories.
fn hybrid(lab: &mut Lab<'_>) -> Result<()> {
    let budget = lab.scale.budget / lab.scale.shrink / 4;
    let fraction = hybrid_fraction(lab.scale, budget);
    if fraction < 1.0 {
        lab.note(format!("R has {fraction} of the keys, and S as many rows"));
    }
    let shape = |share: f64| {
        let domain = budget as f64 * share / 16.0;
        Shape {
            selectivity: fraction,
            ..Shape::uniform("C, 16 bytes", 8, domain as u64, (domain * fraction) as u64)
        }
    };
    let largest = shape(HYBRID[3]);
    let mut workload = Workload::new(lab.device, largest, lab.scale.seed)?;
    for share in HYBRID {
        if lab.late(&format!("hybrid tables of {share} budgets")) {
            break;
        }
        workload.reshape(shape(share))?;
        let at = ("table per budget", share);
        let mut ends = [f64::NAN; 2];
        for (end, placement) in ends.iter_mut().zip([Placement::Device, Placement::Host]) {
            if let Some(memory) = lab.memory(workload.shape().perfect_bytes(), placement)? {
                *end = lab.gpu(&mut workload, &memory, (PERFECT, placement), at, None)?;
            }
        }
        for order in [PageOrder::DeviceFirst, PageOrder::Interleaved] {
            let placement = Placement::Hybrid(budget, order);
            if let Some(memory) = lab.memory(workload.shape().perfect_bytes(), placement)? {
                let rates = Some((ends[0], ends[1]));
                lab.gpu(&mut workload, &memory, (PERFECT, placement), at, rates)?;
            }
        }
    }
    Ok(())
}

/// Figure 3.18: skewed keys of S, with the table in all memories.
fn skew(lab: &mut Lab<'_>) -> Result<()> {
    let shape = Shape::smaller_a(lab.scale.shrink);
    let bytes = shape.perfect_bytes();
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let mut memories = Vec::new();
    for placement in [
        Placement::Device,
        Placement::Host,
        Placement::Hybrid(bytes / 4, PageOrder::Interleaved),
        Placement::Hybrid(bytes / 2, PageOrder::Interleaved),
        Placement::Hybrid(bytes / 4 * 3, PageOrder::Interleaved),
    ] {
        if let Some(memory) = lab.memory(bytes, placement)? {
            memories.push((placement, memory));
        }
    }
    for exponent in [0.0, 0.5, 1.0, 1.5, 1.75] {
        if lab.late(&format!("exponent {exponent}")) {
            break;
        }
        workload.reshape(Shape {
            zipf: exponent,
            ..shape
        })?;
        let at = ("Zipf exponent", exponent);
        let mut rates = Vec::new();
        for (placement, memory) in &memories {
            let ends = match (placement, rates.as_slice()) {
                (Placement::Hybrid(..), [device, host, ..]) => Some((*device, *host)),
                _ => None,
            };
            rates.push(lab.gpu(&mut workload, memory, (PERFECT, *placement), at, ends)?);
            if *placement == Placement::Host {
                lab.cpu(&mut workload, memory, at)?;
            }
        }
    }
    Ok(())
}

/// Figure 3.19: R is a random part of its keys, so that only a part of S has a match.
fn match_rate(lab: &mut Lab<'_>) -> Result<()> {
    let shape = Shape::smaller_a(lab.scale.shrink);
    let bytes = shape.perfect_bytes();
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let device = lab.memory(bytes, Placement::Device)?;
    let host = lab.memory(bytes, Placement::Host)?;
    for selectivity in [0.0, 0.1, 0.25, 0.5, 1.0] {
        if lab.late(&format!("selectivity {selectivity}")) {
            break;
        }
        workload.reshape(Shape { selectivity, ..shape })?;
        let at = ("selectivity", selectivity);
        if let Some(memory) = &device {
            lab.gpu(&mut workload, memory, (PERFECT, Placement::Device), at, None)?;
        }
        if let Some(memory) = &host {
            lab.gpu(&mut workload, memory, (PERFECT, Placement::Host), at, None)?;
            lab.cpu(&mut workload, memory, at)?;
        }
    }
    Ok(())
}

/// Figure 3.20: both processors together, and each alone.
fn cooperation(lab: &mut Lab<'_>) -> Result<()> {
    let shrink = lab.scale.shrink;
    let mut both = Cooperation::new(lab.device, lab.scale.morsels)?;
    for shape in [Shape::a(shrink), Shape::b(shrink), Shape::c(shrink)] {
        if lab.late(&format!("workload {}", shape.name)) {
            break;
        }
        let at = ("morsel bytes of the CPU", lab.scale.morsels.cpu as f64);
        let bytes = shape.perfect_bytes();
        let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
        let device = lab.memory(bytes, Placement::Device)?;
        let host = lab.memory(bytes, Placement::Host)?;
        let (Some(device), Some(host)) = (device, host) else {
            continue;
        };
        lab.cpu(&mut workload, &host, at)?;
        lab.gpu(&mut workload, &device, (PERFECT, Placement::Device), at, None)?;
        if let TableMemory::Host(memory) = &host {
            let mut row = lab.row(&workload, "Het", at);
            row.table = Placement::Host.to_string();
            row.table_share = 0.0;
            lab.measure(&mut workload, row, |join, workload| {
                Ok(both.het(join, workload, memory)?)
            })?;
        }
        if let TableMemory::Device(entries) = &device {
            let table = device.table(PERFECT, shape.domain, shape.word_bytes)?;
            let mut copy = both.host_table(table.bytes())?;
            let mut row = lab.row(&workload, "GPU+Het", at);
            let table_of_cpu = match Cooperation::copies(&shape) {
                true => "device and host",
                false => "device",
            };
            table_of_cpu.clone_into(&mut row.table);
            row.table_share = 1.0;
            lab.measure(&mut workload, row, |join, workload| {
                Ok(both.gpu_het(join, workload, (&table, entries), &mut copy)?)
            })?;
        }
    }
    Ok(())
}

/// Divisor of the rows if linear probing uses host memory, where each insertion waits for the link.
const SAMPLE: u64 = 512;
/// Relations of at most this size are also joined in the device's memory.
const ON_DEVICE: u64 = 2 << 30;

/// Figure 4.1: relations of equal size, with tables that exceed the budget.
fn tuples(lab: &mut Lab<'_>) -> Result<()> {
    let shrink = 2 * lab.scale.shrink;
    let budget = lab.scale.budget / shrink;
    let largest = Shape::t(2048, shrink);
    let mut workload = Workload::new(lab.device, largest, lab.scale.seed)?;
    let mut radix = RadixJoin::new(&largest)?;
    let host = lab.memory(largest.perfect_bytes(), Placement::Host)?;
    for millions in [128, 256, 512, 1024, 2048] {
        if lab.late(&format!("{millions} M tuples")) {
            break;
        }
        let shape = Shape::t(millions, shrink);
        let at = ("M tuples of R without shrinking", millions as f64);
        workload.reshape(shape)?;
        lab.radix(&mut workload, &mut radix, at)?;
        if let Some(host) = &host {
            lab.cpu(&mut workload, host, at)?;
        }
        for hashing in [JoinHashing::Perfect, JoinHashing::Linear] {
            let slots = hashing.slots(shape.domain);
            let bytes = slots * shape.tuple_bytes();
            let placement = match bytes <= budget {
                true => Placement::Device,
                false => Placement::Hybrid(budget, PageOrder::DeviceFirst),
            };
            let Some(memory) = lab.memory(bytes, placement)? else {
                continue;
            };
            if hashing == JoinHashing::Linear && placement != Placement::Device {
                let rows = (shape.domain / SAMPLE).max(1);
                workload.reshape(Shape::uniform("T, few rows", 8, rows, rows))?;
            }
            let table = memory.table(hashing, slots, shape.word_bytes)?;
            lab.gpu_with(&mut workload, &memory, (table, placement), at, None)?;
            if placement == Placement::Device && shape.bytes() <= ON_DEVICE {
                let table = PlacedTable {
                    table,
                    memory: &memory,
                    placement,
                };
                if let Some(mut relations) = lab.relations(&shape, Place::Device)? {
                    lab.placed(&mut workload, &mut relations, table, at, None)?;
                }
            }
        }
    }
    Ok(())
}
