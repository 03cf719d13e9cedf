//! Partitioning alone: figures 4.3, 4.18 and 4.19.

use super::rows::{Rows, text, within};
use crate::finding::{missing, verdict};

/// Figure 4.3: partitioning by each processor, in each memory.
pub(super) fn destinations(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.3";
    for destination in ["device", "host"] {
        let experiment = format!("partitioning to the {destination}");
        let cpu = rows.of(&experiment, "CPU");
        for (name, algorithm) in [("the thesis' kernel", "Hierarchical"), ("ours", "Staged Linear")] {
            let thesis =
                format!("with partitions in {destination} memory the GPU ({name}) is faster than the CPU");
            let gpu = rows.of(&experiment, algorithm);
            let Some((gpu, cpu)) = gpu.0.first().zip(cpu.0.first()) else {
                lines.push(missing(FIGURE, &thesis, "one of the two"));
                continue;
            };
            let facts = format!(
                "{:.2} times: {:.1} GB/s of input by the GPU, {:.1} by the CPU",
                gpu.rate() / cpu.rate(),
                gpu.gigabytes(),
                cpu.gigabytes()
            );
            lines.push(verdict(FIGURE, &thesis, &facts, gpu.rate() > cpu.rate()));
        }
        let thesis = format!("with partitions in {destination} memory the CPU cannot saturate the link");
        if let Some(row) = cpu.0.first() {
            let share = 1e9 * row.gigabytes() / row.limits.to_device;
            let facts = format!(
                "it partitions {:.1} GB/s, {:.0} % of the rate of copies to the device",
                row.gigabytes(),
                100.0 * share
            );
            lines.push(verdict(FIGURE, &thesis, &facts, share < 0.9));
        }
    }
}

/// Figure 4.18: one pass across the link.
pub(super) fn across_the_link(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.18";
    let shares = |algorithm: &str| -> Vec<(f64, f64)> {
        let rows = rows.of("partitioning", algorithm);
        rows.0.iter().map(|row| (row.value, row.shares().0)).collect()
    };
    let mut state = |algorithm: &str, thesis: &str, holds: &dyn Fn(f64, f64) -> bool| {
        let found = shares(algorithm);
        if found.is_empty() {
            lines.push(missing(FIGURE, thesis, algorithm));
            return;
        }
        let facts = format!("shares of the rate of both directions: {}", text(&found, ""));
        let all = found.iter().all(|(fanout, share)| holds(*fanout, *share));
        lines.push(verdict(FIGURE, thesis, &facts, all));
    };
    state(
        "Linear",
        "Linear has at most 76 % of the link's rate",
        &|_, share| share <= 0.76,
    );
    state(
        "Shared",
        "Shared has 90 % of the link's rate up to a fanout of 64",
        &|fanout, share| fanout > 64.0 || share >= 0.9,
    );
    state(
        "Shared",
        "Shared has less than half of the link's rate above a fanout of 64",
        &|fanout, share| fanout <= 64.0 || share < 0.5,
    );
    state(
        "Hierarchical",
        "Hierarchical has 68 % of the link's rate or more",
        &|_, share| share >= 0.68,
    );
    state(
        "Staged Linear",
        "(ours) Staged has 90 % of the link's rate at every fanout",
        &|_, share| share >= 0.9,
    );
    let standard = rows.of("partitioning", "Standard");
    let hierarchical = rows.of("partitioning", "Hierarchical");
    let ratios = hierarchical.ratios(&standard);
    if let Some((_, ratio)) = ratios.last() {
        let thesis = "at the highest fanout Standard is far slower than Hierarchical";
        let facts = format!("Hierarchical has {ratio:.1} times its rate");
        lines.push(verdict(FIGURE, thesis, &facts, *ratio > 2.0));
    }
}

/// Figure 4.19: one pass in device memory.
pub(super) fn in_memory(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.19";
    let of = |algorithm| rows.of("partitioning", algorithm);
    let above_four = |ratios: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        ratios.into_iter().filter(|(fanout, _)| *fanout > 4.0).collect()
    };
    let ratios = above_four(of("Shared").ratios(&of("Linear")));
    let thesis = "above a fanout of 4, Shared has 1.04 to 2.1 times the rate of Linear";
    within(lines, (FIGURE, thesis), &ratios, (1.04, 2.1));
    let ratios = above_four(of("Hierarchical").ratios(&of("Shared")));
    let thesis = "Hierarchical has less than 60 % of the rate of Shared";
    within(lines, (FIGURE, thesis), &ratios, (0.0, 0.6 / 1.1));
    let best: Vec<String> = ["Standard", "Linear", "Linear twice", "Shared", "Hierarchical"]
        .into_iter()
        .filter_map(|algorithm| {
            let rows = of(algorithm);
            let (best, worst) = (rows.best()?, rows.worst()?);
            Some(format!(
                "{algorithm} {:.0} to {:.0} GB/s ({:.0} to {:.0} % of a copy)",
                2.0 * worst.gigabytes(),
                2.0 * best.gigabytes(),
                100.0 * worst.shares().1,
                100.0 * best.shares().1
            ))
        })
        .collect();
    let half = of("Shared")
        .0
        .iter()
        .chain(of("Linear").0.iter())
        .chain(of("Linear twice").0.iter())
        .any(|row| row.value >= 512.0 && row.shares().1 >= 0.5);
    let thesis = "(ours) at a fanout of 512 or more an algorithm has half of the rate of a copy";
    lines.push(verdict(FIGURE, thesis, &best.join(", "), half));
}
