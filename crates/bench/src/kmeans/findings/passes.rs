//! Figures of passes over points that are where they are processed: 5.9, 5.10, 5.11, 5.13, 5.14.

use super::{Of, Rows, THESIS_SHARED, verdict, with};
use crate::harness::Finding;

/// Figure 5.9: Cluster Merge against Partitioned Features, in passes whose labels are known.
pub(super) fn feature_sums(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let Of { d, k, limit } = of;
    let time = |sums: &str| rows.best("multi-pass", "resident", of, |row| row.sums == sums);
    let (Some(features), Some(global)) = (time("features"), time("global")) else {
        return;
    };
    let private = time("private");
    let merge = private.unwrap_or(global);
    let ratio = merge / features;
    let claim = match (d, k) {
        (0..=16, 0..=4) => Some((
            "equal",
            (0.67..=1.5).contains(&ratio),
            "passes of both are bound by other things than sums",
        )),
        (17.., _) | (_, 64..) => Some((
            "partitioned features win, by up to 96.7x",
            ratio > 1.0,
            if private.is_some() {
                "cluster merge fits shared memory here, where its additions take no exchange of points"
            } else {
                "additions in device memory are spread over many clusters"
            },
        )),
        // Between them the thesis says nothing.
        _ => None,
    };
    if let Some((paper, holds, because)) = claim {
        let how = if private.is_some() {
            ""
        } else {
            " (cluster merge does not fit: device memory)"
        };
        let ours = format!("{}: {ratio:.2}x{how}", verdict(holds, because));
        let what = format!(
            "d={d} k={k}, {}, partitioned features over cluster merge",
            with(limit)
        );
        found.push(Finding::new("5.9", &what, paper, ours));
    }
    // Cluster merge that fits here beside the device memory that it had to take there.
    let all = rows.best("multi-pass", "resident", Of { limit: 0, ..of }, |row| {
        row.sums == "private"
    });
    if let (THESIS_SHARED, None, Some(all)) = (limit, private, all) {
        let cost = global / all;
        let because = "atomics to device memory cost more, or less, beside a pass than on the thesis' GPUs";
        let ours = format!("{}: {cost:.2}x", verdict((1.5..=3.5).contains(&cost), because));
        let what = format!("d={d} k={k}, cluster merge in device memory beside shared memory");
        found.push(Finding::new("5.9", &what, "1.8 to 3x slower", ours));
    }
    let cpu = rows.best("multi-pass", "cpu", Of { limit: 0, ..of }, |row| {
        row.sums == "cpu merge"
    });
    if let (THESIS_SHARED, Some(cpu)) = (limit, cpu) {
        let ratio = cpu / merge;
        let because = "the device's memory has several times the CPU's bandwidth even behind atomics";
        let slower = verdict(d < 128 || ratio < 1.0, because);
        let ours = format!("{slower}: the device is {ratio:.1}x as fast");
        let paper = "cluster merge falls behind the CPU at d = 256, by up to 4.6x";
        found.push(Finding::new(
            "5.9",
            &format!("d={d} k={k}, cluster merge, device and CPU"),
            paper,
            ours,
        ));
    }
}

/// Figure 5.10: which mass sum is the fastest.
pub(super) fn mass_sums(found: &mut Vec<Finding>, rows: &Rows<'_>, k: u32) {
    let of = Of { d: 0, k, limit: 0 };
    let time = |place: &str, sums: &str| rows.best("mass sum", place, of, |row| row.sums == sums);
    let at = |sums: &str| time("resident", sums);
    let (Some(local), Some(atomic)) = (at("partitioned local"), at("global atomic")) else {
        return;
    };
    let (private, global) = (at("partitioned private"), at("partitioned global"));
    let (paper, holds, because) = match k {
        0..=16 => (
            "private is best, global atomic very low",
            private.is_some_and(|private| private < local),
            "native atomics of shared memory combine equal labels of a warp faster than private histograms merge",
        ),
        17..=127 => (
            "private up to 1.7x over local while k is at most 64",
            private.is_some_and(|private| private < local),
            "private histograms of many labels leave a multiprocessor few threads",
        ),
        _ => (
            "local wins",
            private.is_none_or(|private| local < private),
            "there is shared memory for private histograms of as many labels",
        ),
    };
    let because = if local < atomic {
        because
    } else {
        "atomics of device memory are combined before they leave a multiprocessor"
    };
    let rate = |ms: Option<f64>| {
        ms.map_or("does not fit".to_string(), |ms| {
            format!("{:.2}x local's rate", local / ms)
        })
    };
    let ours = format!(
        "{}: private {}, partitioned global {}, global atomic {}",
        verdict(holds && local < atomic, because),
        rate(private),
        rate(global),
        rate(Some(atomic))
    );
    found.push(Finding::new("5.10", &format!("k={k}, labels only"), paper, ours));
    let cpu = |sums: &str| time("cpu", sums);
    if let (Some(private), Some(local)) = (cpu("partitioned private"), cpu("partitioned local")) {
        let ratio = local / private;
        let because = "atomics on a cache line that one core has cost less than five additions";
        let ours = format!("{}: {ratio:.1}x", verdict(ratio > 3.0, because));
        let what = format!("k={k}, labels only, CPU: private over local");
        found.push(Finding::new("5.10", &what, "5x", ours));
    }
}

/// Figure 5.11: executions.
pub(super) fn executions(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let time = |execution| rows.time(execution, "resident", of);
    let cross = rows.time("cross-processing", "resident", Of { limit: 0, ..of });
    let (Some(single), Some(multi), Some(cross)) = (time("single-pass"), time("multi-pass"), cross) else {
        return;
    };
    let what = format!("d={} k={}, executions, {}", of.d, of.k, with(of.limit));
    let because =
        "labels are a small part of the points, and the update's own pass reads from memory that is as fast";
    let ours = format!(
        "{}: multi-pass {:.1}x over cross, single-pass {:.1}x over multi, {:.1}x over cross",
        verdict(single < multi && multi < cross, because),
        cross / multi,
        multi / single,
        cross / single
    );
    found.push(Finding::new("5.11", &what, "9.1x, 2x, 19.3x", ours));
    if let (Some(cpu), Some(cpu_multi)) = (rows.cpu("single-pass", of), rows.cpu("multi-pass", of)) {
        let ratio = cpu_multi / cpu;
        let because = "a chunk of the points stays in the caches between the two passes";
        let ours = format!(
            "{}: {ratio:.2}x; the device's single pass is {:.0}x as fast as the CPU's",
            verdict(ratio > 1.8, because),
            cpu / single
        );
        let what = format!("d={} k={}, CPU, single- over multi-pass", of.d, of.k);
        found.push(Finding::new("5.11", &what, "more than 1.8x", ours));
    }
}

/// Figure 5.13: with more clusters.
pub(super) fn by_clusters(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let time = |execution| rows.time(execution, "resident", of);
    let (Some(single), Some(multi)) = (time("single-pass"), time("multi-pass")) else {
        return;
    };
    let ratio = multi / single;
    let (paper, holds, because) = match of.k {
        0..=16 => (
            "single-pass up to 2x over multi-pass",
            (1.0..=2.5).contains(&ratio),
            "a pass is bound by comparisons already",
        ),
        17..=127 => (
            "multi-pass better",
            ratio < 1.0,
            "the sums of a single pass take a warp's shared memory, not a block's, so threads do not get fewer",
        ),
        _ => (
            "equal",
            (0.9..=1.1).contains(&ratio),
            "the second pass is a visible share of the comparisons' time",
        ),
    };
    let ours = format!("{}: {ratio:.2}x", verdict(holds, because));
    let what = format!(
        "d={} k={}, single- over multi-pass, {}",
        of.d,
        of.k,
        with(of.limit)
    );
    found.push(Finding::new("5.13", &what, paper, ours));
    let cross = rows.time("cross-processing", "resident", Of { limit: 0, ..of });
    if let (0, Some(cpu), Some(cross)) = (of.limit, rows.cpu("single-pass", of), cross) {
        let ratio = cross / cpu;
        let because = "cross-processing sums on the same CPU and adds the labels' way across the link";
        let (paper, holds) = match of.k {
            0..=16 => ("the CPU's single pass is ahead of cross-processing", ratio > 1.0),
            _ => ("cross-processing is ahead of the CPU's single pass", ratio < 1.0),
        };
        let ours = format!("{}: {ratio:.2}x", verdict(holds, because));
        let what = format!("d={} k={}, CPU over cross-processing", of.d, of.k);
        found.push(Finding::new("5.13", &what, paper, ours));
    }
}

/// Figure 5.14: with more features.
pub(super) fn by_features(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let time = |execution| rows.time(execution, "resident", of);
    let cross = rows.time("cross-processing", "resident", Of { limit: 0, ..of });
    let (Some(single), Some(multi), Some(cross)) = (time("single-pass"), time("multi-pass"), cross) else {
        return;
    };
    let ratio = multi / single;
    let (paper, holds, because) = if of.d <= 32 {
        (
            "single-pass 1.1 to 2.1x, 3.4x over cross",
            ratio >= 1.05,
            "both are bound by reading the points once",
        )
    } else {
        (
            "equal, 3.4x over cross",
            (0.9..=1.1).contains(&ratio),
            "a pass over many features reads them twice, from a cache where it is fused",
        )
    };
    let ours = format!(
        "{}: {ratio:.2}x, {:.1}x over cross",
        verdict(holds && cross / single > 3.4, because),
        cross / single
    );
    let what = format!(
        "d={} k={}, single- over multi-pass, {}",
        of.d,
        of.k,
        with(of.limit)
    );
    found.push(Finding::new("5.14", &what, paper, ours));
    if let (0, Some(cpu), Some(cpu_multi)) =
        (of.limit, rows.cpu("single-pass", of), rows.cpu("multi-pass", of))
    {
        let ratio = cpu_multi / cpu;
        let because = "a chunk of the points stays in the caches between the two passes";
        let ours = format!("{}: {ratio:.2}x", verdict(ratio > 1.0, because));
        let what = format!("d={} k={}, CPU, single- over multi-pass", of.d, of.k);
        found.push(Finding::new("5.14", &what, "single-pass is faster", ours));
    }
}
