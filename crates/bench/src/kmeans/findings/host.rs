//! Figures that involve the host and the link: 5.12, 5.15, 5.16; and measurements without a figure in the
//! thesis.

use super::{Of, Rows, rate, times, verdict};
use crate::harness::Finding;
use crate::kmeans::Row;

/// Gigabytes per second of the links that the thesis compares (Table 2.1): PCIe 5, NVLink 2, NVLink C2C.
const LINKS: [(&str, f64); 3] = [("PCIe 5", 64.0), ("NVLink 2", 75.0), ("NVLink C2C", 450.0)];

/// Figure 5.12: shares of the phases.
pub(super) fn phases(found: &mut Vec<Finding>, rows: &[Row]) {
    let of = |execution: &str, place: &str| -> Vec<(&str, f64)> {
        let rows = rows
            .iter()
            .filter(|row| row.experiment == "phases" && (row.execution == execution && row.place == place));
        rows.map(|row| (row.part.as_str(), row.ms_median)).collect()
    };
    for (execution, place, greatest, paper) in [
        (
            "cross-processing",
            "resident",
            &["sums", "label transfer"][..],
            "feature sum and label transfer dominate",
        ),
        (
            "multi-pass",
            "resident",
            &["assignment", "sums"],
            "(ours) assignment and feature sum dominate",
        ),
        (
            "multi-pass",
            "cpu",
            &["assignment", "sums"],
            "assignment and feature sum dominate",
        ),
    ] {
        let parts = of(execution, place);
        let total: f64 = parts.iter().map(|(_, ms)| ms).sum();
        if parts.is_empty() {
            continue;
        }
        let dominating: f64 = parts
            .iter()
            .filter(|(name, _)| greatest.contains(name))
            .map(|(_, ms)| ms)
            .sum();
        let shares: Vec<String> = parts
            .iter()
            .map(|(name, ms)| format!("{name} {:.0} %", 100.0 * ms / total))
            .collect();
        let facts = format!("the others take {:.2} of {total:.2} ms", total - dominating);
        let verdict = verdict(dominating > 0.5 * total, facts);
        let ours = format!("{verdict}: {}", shares.join(", "));
        found.push(Finding::new(
            "5.12",
            &format!("d=4 k=4, {execution}, {place}"),
            paper,
            ours,
        ));
    }
}

/// Figure 5.15: sizes of chunks.
pub(super) fn chunks(found: &mut Vec<Finding>, rows: &[Row]) {
    let of = |execution: &str| -> Vec<(u64, f64)> {
        let rows = rows
            .iter()
            .filter(|row| row.experiment == "chunks" && row.execution == execution);
        rows.map(|row| (row.bytes, row.gbytes_s)).collect()
    };
    let best = |rates: &[(u64, f64)]| rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let list = |rates: &[(u64, f64)]| {
        let each: Vec<String> = rates
            .iter()
            .map(|(bytes, rate)| format!("{} KiB {rate:.1}", bytes >> 10))
            .collect();
        each.join(", ")
    };
    let (transfer, staged) = (of("transfer"), of("memcpy, transfer, empty kernel"));
    if transfer.is_empty() {
        return;
    }
    let most = best(&transfer);
    let middle = |(bytes, rate): &&(u64, f64)| (8 << 20..=64 << 20).contains(bytes) && *rate < 0.93 * most;
    let ours = format!(
        "{}: GB/s by size: {}",
        verdict(
            !transfer.iter().any(|row| middle(&row)),
            format!("a size between 8 and 64 MiB stays below 93 % of {most:.1} GB/s")
        ),
        list(&transfer)
    );
    let paper = "11.4 of 12.2 GiB/s at 8 to 64 MiB";
    found.push(Finding::new(
        "5.15",
        "transfer of chunks from pinned memory",
        paper,
        ours,
    ));
    let share = best(&staged) / most;
    let ours = format!(
        "{}: {:.0} % of the transfer alone; GB/s by size: {}",
        verdict(
            share > 0.8,
            format!("staging ends at {:.1} GB/s, the link at {most:.1}", best(&staged))
        ),
        100.0 * share,
        list(&staged)
    );
    let paper = "9.8 GiB/s, 86 % of the transfer alone, within 5 % at 4, 8, 16 and 512 MiB";
    found.push(Finding::new(
        "5.15",
        "memcpy, transfer, empty kernel",
        paper,
        ours,
    ));
}

/// Figure 5.16: points that stay in host memory.
pub(super) fn streaming(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let Of { d, k, .. } = of;
    for execution in ["single-pass", "multi-pass"] {
        let is = |row: &&Row| {
            (row.execution.as_str(), row.place.as_str()) == (execution, "streamed")
                && (row.features, row.clusters) == (d, k)
        };
        let Some((row, floor)) = rows.0.iter().find(is).and_then(|row| Some((row, row.floor_ms?))) else {
            continue;
        };
        let share = floor / row.ms_median;
        let resident = rows.fastest(execution, "resident", of);
        let facts = format!(
            "an iteration takes {:.2} ms, the copies {floor:.2}, kernels alone {}",
            row.ms_median,
            resident.map_or("unknown".to_string(), |row| format!("{:.2}", row.ms_median))
        );
        let mut ours = format!(
            "{}: {:.0} % of the copies' rate",
            verdict(share > 0.9, facts),
            100.0 * share
        );
        if let Some(resident) = resident {
            let rate = resident.gbytes_s;
            let each = LINKS.map(|(name, link)| format!("{:.0} % of {name}", 100.0 * (rate / link).min(1.0)));
            ours += &format!(
                "; kernels alone {rate:.0} GB/s, which could take {}",
                each.join(", ")
            );
        }
        let paper = match (k, execution) {
            (64.., "single-pass") => "PCIe 3 is saturated; 58 % of NVLink",
            (64.., _) => "PCIe 3 is saturated; 43 % of NVLink",
            _ => "the link is saturated",
        };
        let what = format!("d={d} k={k}, {execution}, streamed");
        found.push(Finding::new("5.16", &what, paper, ours));
    }
    let at = |place| rows.best("single-pass", place, of, |row| row.experiment == "streaming");
    if let (Some(device), Some(cpu)) = (at("streamed"), at("cpu")) {
        let ratio = times(device, cpu);
        let claim = match k {
            0..=4 => Some(("the CPU is 2.6x faster", ratio < 1.0)),
            64.. => Some(("the GPU is 1.5x faster", ratio > 1.0)),
            _ => None,
        };
        let facts = format!(
            "the link brings {} and the CPU goes through {}",
            rate(device),
            rate(cpu)
        );
        let (paper, holds) = claim.map_or(("-", String::new()), |(paper, holds)| {
            (paper, format!("{}: ", verdict(holds, facts)))
        });
        let mut ours = format!("{holds}the device is {ratio:.2}x as fast");
        if let Some(both) = at("streamed with the CPU") {
            let share = both.gbytes_s / (device.gbytes_s + cpu.gbytes_s);
            let link_binds = device.ratio.is_some_and(|ratio| ratio < 1.1);
            let facts = format!("{} and {} make {}", rate(device), rate(cpu), rate(both));
            let goal = match link_binds {
                true => format!(", at least 95 %: {}", verdict(share >= 0.95, facts)),
                false => String::new(),
            };
            ours += &format!(
                "; both are {:.0} % of the sum of their rates{goal}",
                100.0 * share
            );
        }
        let what = format!("d={d} k={k}, streamed against the CPU");
        found.push(Finding::new("5.16", &what, paper, ours));
    }
}

/// Restarts and launches, together and separately.
pub(super) fn side_by_side(found: &mut Vec<Finding>, rows: &[Row]) {
    for (experiment, together, apart) in [
        ("restarts", "10 restarts together", "10 fits one by one"),
        ("launches", "iterations in one launch", "iterations one by one"),
    ] {
        for row in rows.iter().filter(|row| row.execution == together) {
            let same = |other: &&Row| {
                (other.points, other.clusters, &other.place) == (row.points, row.clusters, &row.place)
            };
            let mut others = rows.iter().filter(|row| row.execution == apart);
            let Some(other) = others.find(same) else {
                continue;
            };
            let ratio = other.ms_median / row.ms_median;
            let ours = format!(
                "{}: {ratio:.2}x ({:.4} instead of {:.4} ms an iteration of a start)",
                if ratio >= 1.0 { "faster" } else { "slower" },
                row.ms_median,
                other.ms_median
            );
            let what = format!(
                "{experiment}, {} points, k={}, {}: {together}",
                row.points, row.clusters, row.place
            );
            found.push(Finding::new("", &what, "-", ours));
        }
    }
}
