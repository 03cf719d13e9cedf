//! Figures of passes over points that are in the memory of their processor: 5.9, 5.10, 5.11, 5.13, 5.14.

use super::{Of, Rows, THESIS_SHARED, bound, rate, times, verdict, with};
use crate::harness::Finding;
use crate::kmeans::Row;

/// Figure 5.9: Cluster Merge against Partitioned Features, in passes with known labels.
pub(super) fn feature_sums(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let Of { d, k, limit } = of;
    let by = |sums: &str, of: Of| rows.best("multi-pass", "resident", of, |row| row.sums == sums);
    let (Some(features), Some(global)) = (by("features", of), by("global", of)) else {
        return;
    };
    let private = by("private", of);
    let merge = private.unwrap_or(global);
    let ratio = times(features, merge);
    let claim = match (d, k) {
        (0..=16, 0..=4) => Some(("equal", (0.67..=1.5).contains(&ratio))),
        (17.., _) | (_, 64..) => Some(("partitioned features win, by up to 96.7x", ratio > 1.0)),
        // The thesis has no statement between them.
        _ => None,
    };
    if let Some((paper, holds)) = claim {
        let how = match private {
            Some(_) => "",
            None => " (cluster merge does not fit: device memory)",
        };
        let facts = format!(
            "cluster merge takes {}; partitioned features {}",
            bound(merge),
            bound(features)
        );
        let ours = format!("{}: {ratio:.2}x{how}", verdict(holds, facts));
        let what = format!(
            "d={d} k={k}, {}, partitioned features over cluster merge",
            with(limit)
        );
        found.push(Finding::new("5.9", &what, paper, ours));
    }
    // Cluster merge, which fits in shared memory here, beside device memory, which it required there.
    if let (THESIS_SHARED, None, Some(all)) = (limit, private, by("private", Of { limit: 0, ..of })) {
        let cost = times(all, global);
        let atomics = f64::from(d + 1) / global.ns_of_a_point();
        let facts = format!(
            "device memory takes {atomics:.0} G atomics a second; in shared memory a pass takes {}",
            bound(all)
        );
        let ours = format!("{}: {cost:.2}x", verdict((1.5..=3.5).contains(&cost), facts));
        let what = format!("d={d} k={k}, cluster merge in device memory beside shared memory");
        found.push(Finding::new("5.9", &what, "1.8 to 3x slower", ours));
    }
    let cpu = rows.best("multi-pass", "cpu", Of { limit: 0, ..of }, |row| {
        row.sums == "cpu merge"
    });
    // The thesis has no statement for fewer features.
    if let (128.., THESIS_SHARED, Some(cpu)) = (d, limit, cpu) {
        let ratio = times(merge, cpu);
        let facts = format!(
            "cluster merge goes through {} on the device and {} on the CPU",
            rate(merge),
            rate(cpu)
        );
        let slower = verdict(ratio < 1.0, facts);
        let ours = format!("{slower}: the device is {ratio:.1}x as fast");
        let paper = "cluster merge falls behind the CPU at d = 256, by up to 4.6x";
        let what = format!("d={d} k={k}, cluster merge, device and CPU");
        found.push(Finding::new("5.9", &what, paper, ours));
    }
}

/// Figure 5.10: the fastest mass sum.
pub(super) fn mass_sums(found: &mut Vec<Finding>, rows: &Rows<'_>, k: u32) {
    let of = Of { d: 0, k, limit: 0 };
    let by = |place: &str, sums: &str| rows.best("mass sum", place, of, |row| row.sums == sums);
    let at = |sums: &str| by("resident", sums);
    let (Some(local), Some(atomic)) = (at("partitioned local"), at("global atomic")) else {
        return;
    };
    let (private, global) = (at("partitioned private"), at("partitioned global"));
    let (paper, holds) = match k {
        0..=16 => (
            "private is best, global atomic very low",
            private.is_some_and(|private| times(private, local) > 1.0),
        ),
        17..=127 => (
            "private up to 1.7x over local while k is at most 64",
            private.is_some_and(|private| times(private, local) > 1.0),
        ),
        _ => (
            "local wins",
            private.is_none_or(|private| times(local, private) > 1.0),
        ),
    };
    let labels = |row: Option<&Row>| {
        row.map_or("does not fit".to_string(), |row| {
            format!(
                "{:.0} G labels/s ({} blocks of {} threads)",
                1.0 / row.ns_of_a_point(),
                row.blocks,
                row.threads
            )
        })
    };
    let holds = holds && times(local, atomic) > 1.0;
    let ours = format!(
        "{}: private {}, local {}, partitioned global {}, global atomic {}",
        verdict(
            holds,
            format!("local reads labels at {}, by native atomics", rate(local))
        ),
        labels(private),
        labels(Some(local)),
        labels(global),
        labels(Some(atomic))
    );
    found.push(Finding::new("5.10", &format!("k={k}, labels only"), paper, ours));
    let cpu = |sums: &str| by("cpu", sums);
    if let (Some(private), Some(local)) = (cpu("partitioned private"), cpu("partitioned local")) {
        let ratio = times(private, local);
        let labels = |row: &Row| 1.0 / row.ns_of_a_point();
        let facts = format!(
            "private counts {:.2} G labels/s, local {:.2}",
            labels(private),
            labels(local)
        );
        let ours = format!("{}: {ratio:.1}x", verdict(ratio > 3.0, facts));
        let what = format!("k={k}, labels only, CPU: private over local");
        found.push(Finding::new("5.10", &what, "5x", ours));
    }
}

/// Figure 5.11: executions.
pub(super) fn executions(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let at = |execution| rows.fastest(execution, "resident", of);
    let (Some(single), Some(multi), Some(cross)) = (at("single-pass"), at("multi-pass"), rows.cross(of))
    else {
        return;
    };
    let what = format!("d={} k={}, executions, {}", of.d, of.k, with(of.limit));
    let facts = format!(
        "a single pass takes {}, two {}; cross-processing goes through {}",
        bound(single),
        bound(multi),
        rate(cross)
    );
    let ours = format!(
        "{}: multi-pass {:.1}x over cross, single-pass {:.1}x over multi, {:.1}x over cross",
        verdict(times(single, multi) > 1.0 && times(multi, cross) > 1.0, facts),
        times(multi, cross),
        times(single, multi),
        times(single, cross)
    );
    found.push(Finding::new("5.11", &what, "9.1x, 2x, 19.3x", ours));
    if let (Some(cpu), Some(cpu_multi)) = (rows.cpu("single-pass", of), rows.cpu("multi-pass", of)) {
        let ratio = times(cpu, cpu_multi);
        let ours = format!(
            "{}: {ratio:.2}x; the device's single pass is {:.0}x as fast as the CPU's",
            verdict(ratio > 1.8, of_cpu(cpu, cpu_multi)),
            times(single, cpu)
        );
        let what = format!("d={} k={}, CPU, single- over multi-pass", of.d, of.k);
        found.push(Finding::new("5.11", &what, "more than 1.8x", ours));
    }
}

/// The rates of the CPU's executions: two passes read memory twice, unless caches hold a chunk meanwhile.
fn of_cpu(single: &Row, multi: &Row) -> String {
    format!(
        "a single pass goes through {}, two through {}",
        rate(single),
        rate(multi)
    )
}

/// Figure 5.13: by number of clusters.
pub(super) fn by_clusters(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let at = |execution| rows.fastest(execution, "resident", of);
    let (Some(single), Some(multi)) = (at("single-pass"), at("multi-pass")) else {
        return;
    };
    let ratio = times(single, multi);
    let (paper, holds) = match of.k {
        0..=16 => (
            "single-pass up to 2x over multi-pass",
            (1.0..=2.5).contains(&ratio),
        ),
        17..=127 => ("multi-pass better", ratio < 1.0),
        _ => ("equal", (0.9..=1.1).contains(&ratio)),
    };
    let facts = format!("a single pass takes {}; two {}", bound(single), bound(multi));
    let ours = format!("{}: {ratio:.2}x", verdict(holds, facts));
    let what = format!(
        "d={} k={}, single- over multi-pass, {}",
        of.d,
        of.k,
        with(of.limit)
    );
    found.push(Finding::new("5.13", &what, paper, ours));
    if let (0, Some(cpu), Some(cross)) = (of.limit, rows.cpu("single-pass", of), rows.cross(of)) {
        let ratio = times(cpu, cross);
        let (paper, holds) = match of.k {
            0..=16 => ("the CPU's single pass is ahead of cross-processing", ratio > 1.0),
            _ => ("cross-processing is ahead of the CPU's single pass", ratio < 1.0),
        };
        let facts = format!(
            "the CPU goes through {}, cross-processing through {}",
            rate(cpu),
            rate(cross)
        );
        let ours = format!("{}: {ratio:.2}x", verdict(holds, facts));
        let what = format!("d={} k={}, CPU over cross-processing", of.d, of.k);
        found.push(Finding::new("5.13", &what, paper, ours));
    }
}

/// Figure 5.14: by number of features.
pub(super) fn by_features(found: &mut Vec<Finding>, rows: &Rows<'_>, of: Of) {
    let at = |execution| rows.fastest(execution, "resident", of);
    let (Some(single), Some(multi), Some(cross)) = (at("single-pass"), at("multi-pass"), rows.cross(of))
    else {
        return;
    };
    let ratio = times(single, multi);
    let (paper, holds) = if of.d <= 32 {
        ("single-pass 1.1 to 2.1x, 3.4x over cross", ratio >= 1.05)
    } else {
        ("equal, 3.4x over cross", (0.9..=1.1).contains(&ratio))
    };
    let facts = format!(
        "a single pass takes {}; two {}; cross-processing goes through {}",
        bound(single),
        bound(multi),
        rate(cross)
    );
    let ours = format!(
        "{}: {ratio:.2}x, {:.1}x over cross",
        verdict(holds && times(single, cross) > 3.4, facts),
        times(single, cross)
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
        let ratio = times(cpu, cpu_multi);
        let ours = format!("{}: {ratio:.2}x", verdict(ratio > 1.0, of_cpu(cpu, cpu_multi)));
        let what = format!("d={} k={}, CPU, single- over multi-pass", of.d, of.k);
        found.push(Finding::new("5.14", &what, "single-pass is faster", ours));
    }
}
