//! The thesis' figures 5.9 to 5.16 beside what was measured: which of their trends hold here.
//!
//! Figures 5.12 (values lost) and 5.15 (chunk sizes of copies, `galatea bench residency`) are left out.

use super::Row;
use crate::harness::{Finding, table_of};

/// The fastest of some rows, ms.
fn best(rows: &[Row], wanted: impl Fn(&Row) -> bool) -> Option<f64> {
    let times = rows.iter().filter(|row| wanted(row)).map(|row| row.ms_median);
    times.filter(|ms| ms.is_finite()).min_by(f64::total_cmp)
}

fn of<'a>(execution: &'a str, place: &'a str, d: u32, k: u32) -> impl Fn(&Row) -> bool + 'a {
    move |row| row.execution == execution && row.place == place && (row.features, row.clusters) == (d, k)
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "does not hold" }
}

/// A table, one line a claim that rows speak of.
pub(super) fn findings(rows: &[Row]) -> String {
    let mut found = Vec::new();
    let mut shapes: Vec<(u32, u32)> = rows.iter().map(|row| (row.features, row.clusters)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    for &(d, k) in &shapes {
        let time = |execution| best(rows, of(execution, "resident", d, k));
        let (single, multi, cross) = (time("single-pass"), time("multi-pass"), time("cross-processing"));
        mass_sums(&mut found, rows, k, d);
        feature_sums(&mut found, rows, (d, k));
        if let (Some(single), Some(multi), Some(cross), (4, 4)) = (single, multi, cross, (d, k)) {
            let ours = format!(
                "{}: multi-pass {:.1}x over cross, single-pass {:.1}x over multi, {:.1}x over cross",
                verdict(single < multi && multi < cross),
                cross / multi,
                multi / single,
                cross / single
            );
            found.push(Finding::new(
                "5.11",
                "d=4 k=4, executions",
                "9.1x, 2x, 19.3x",
                ours,
            ));
        }
        if let (Some(single), Some(multi), 4) = (single, multi, d) {
            let ratio = multi / single;
            let (paper, holds) = match k {
                0..=16 => (
                    "single-pass up to 2x over multi-pass",
                    (1.0..=2.5).contains(&ratio),
                ),
                17..=127 => ("multi-pass better", ratio < 1.0),
                _ => ("equal", (0.9..=1.1).contains(&ratio)),
            };
            let ours = format!("{}: {ratio:.2}x", verdict(holds));
            found.push(Finding::new(
                "5.13",
                &format!("d=4 k={k}, single- over multi-pass"),
                paper,
                ours,
            ));
        }
        if let (Some(single), Some(multi), Some(cross), 4) = (single, multi, cross, k) {
            let ratio = multi / single;
            let (paper, holds) = if d <= 32 {
                ("single-pass 1.1 to 2.1x, 3.4x over cross", ratio >= 1.05)
            } else {
                ("equal, 3.4x over cross", (0.9..=1.1).contains(&ratio))
            };
            let ours = format!(
                "{}: {ratio:.2}x, {:.1}x over cross",
                verdict(holds && cross / single > 3.4),
                cross / single
            );
            found.push(Finding::new(
                "5.14",
                &format!("d={d} k=4, single- over multi-pass"),
                paper,
                ours,
            ));
        }
        streaming(&mut found, rows, (d, k));
    }
    table_of(&found)
}

/// Figure 5.10: which mass sum is the fastest.
fn mass_sums(found: &mut Vec<Finding>, rows: &[Row], k: u32, d: u32) {
    let time = |sums: &'static str| {
        best(rows, |row| {
            of("mass sum", "resident", d, k)(row) && row.sums == sums
        })
    };
    let (Some(local), Some(atomic)) = (time("partitioned local"), time("global atomic")) else {
        return;
    };
    let private = time("partitioned private");
    let (paper, holds) = match k {
        0..=16 => ("private is best", private.is_some_and(|private| private < local)),
        17..=127 => (
            "private up to 1.7x over local while k is at most 64",
            private.is_some_and(|private| private < local),
        ),
        _ => ("local wins", private.is_none_or(|private| local < private)),
    };
    let private = private.map_or("does not fit".to_string(), |ms| {
        format!("{:.2}x local's rate", local / ms)
    });
    let ours = format!(
        "{}: private {private}, global atomic {:.2}x",
        verdict(holds && local < atomic),
        local / atomic
    );
    found.push(Finding::new("5.10", &format!("k={k}, labels only"), paper, ours));
}

/// Figure 5.9: Cluster Merge against Partitioned Features, in passes whose labels are known.
fn feature_sums(found: &mut Vec<Finding>, rows: &[Row], (d, k): (u32, u32)) {
    let time = |sums: &'static str| {
        best(rows, |row| {
            of("multi-pass", "resident", d, k)(row) && row.sums == sums
        })
    };
    let Some(features) = time("features") else {
        return;
    };
    let merge = time("private").or_else(|| time("global"));
    let Some(merge) = merge else {
        return;
    };
    let ratio = merge / features;
    let (paper, holds) = match (d, k) {
        (0..=16, 0..=4) => ("equal", (0.67..=1.5).contains(&ratio)),
        (17.., _) | (_, 64..) => ("partitioned features win", ratio > 1.0),
        // Between them the thesis says nothing.
        _ => return,
    };
    let how = if time("private").is_some() {
        ""
    } else {
        " (cluster merge does not fit: global memory)"
    };
    let ours = format!("{}: {ratio:.2}x{how}", verdict(holds));
    let what = format!("d={d} k={k}, partitioned features over cluster merge, multi-pass");
    found.push(Finding::new("5.9", &what, paper, ours));
}

/// Figure 5.16: points that stay in host memory.
fn streaming(found: &mut Vec<Finding>, rows: &[Row], (d, k): (u32, u32)) {
    for execution in ["single-pass", "multi-pass"] {
        let streamed = of(execution, "streamed", d, k);
        if let Some(row) = rows.iter().find(|row| streamed(row))
            && let Some(floor) = row.floor_ms
        {
            let share = floor / row.ms_median;
            let ours = format!(
                "{}: {:.0} % of the copies' rate",
                verdict(share > 0.9),
                100.0 * share
            );
            found.push(Finding::new(
                "5.16",
                &format!("d={d} k={k}, {execution}, streamed"),
                "the link is saturated",
                ours,
            ));
        }
    }
    let time = |place| best(rows, of("single-pass", place, d, k));
    if let (Some(device), Some(cpu)) = (time("streamed"), time("cpu")) {
        let ratio = cpu / device;
        let (paper, holds) = match k {
            0..=4 => ("the CPU is 2.6x faster", ratio < 1.0),
            64.. => ("the GPU is 1.5x faster", ratio > 1.0),
            _ => return,
        };
        let mut ours = format!("{}: the device is {ratio:.2}x as fast", verdict(holds));
        if let Some(both) = time("streamed with the CPU") {
            let sum = 1.0 / (1.0 / device + 1.0 / cpu);
            ours += &format!("; both {:.0} % of the sum of their rates", 100.0 * sum / both);
        }
        found.push(Finding::new(
            "5.16",
            &format!("d={d} k={k}, streamed against the CPU"),
            paper,
            ours,
        ));
    }
}
