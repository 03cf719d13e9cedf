//! Joins: figures 4.12, 4.16, 4.17, 4.20, 4.21, 4.23 and 4.25.

use super::rows::{OURS, Rows, rates, text, within};
use crate::finding::{missing, verdict};

/// Figure 4.12: the Triton join by size, and by the limit of its state.
pub(super) fn scaling(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.12";
    let joins = rows.ours("join").by("million tuples");
    let thesis = "from 128 to 2048 M tuples the join keeps 74 % of its throughput or more";
    match joins.0.first().zip(joins.0.last()) {
        Some((first, last)) => {
            let kept = last.rate() / first.rate();
            let facts = format!(
                "{:.0} % is kept with {:.0} % of the state in host memory, in G tuples/s: {}",
                100.0 * kept,
                100.0 * last.spilled,
                text(&rates(&joins), "")
            );
            lines.push(verdict(FIGURE, thesis, &facts, kept >= 0.74));
        }
        None => lines.push(missing(FIGURE, thesis, "the Triton join")),
    }
    let perfect = rows.of("join", "Refined Linear perfect").by("million tuples");
    let thesis = "chains are within 2 % of perfect hashing";
    within(lines, (FIGURE, thesis), &joins.ratios(&perfect), (1.0, 1.0));
    let shares: Vec<(f64, f64)> = joins.0.iter().map(|row| (row.value, row.shares().0)).collect();
    let holds = !shares.is_empty() && shares.iter().all(|(_, share)| *share >= 0.9);
    let thesis = "(ours) the join has 90 % of the link's bound";
    lines.push(verdict(FIGURE, thesis, &text(&shares, ""), holds));
    let limited = rows.ours("join").by("limit of the state");
    let shares: Vec<(f64, f64)> = limited.0.iter().map(|row| (row.value, row.shares().0)).collect();
    let holds = !shares.is_empty() && shares.iter().all(|(_, share)| *share >= 0.8);
    let thesis = "(ours) by the limit of the state the join has 80 % of the link's bound, without a cliff";
    let facts = format!(
        "shares {}, in G tuples/s {}",
        text(&shares, ""),
        text(&rates(&limited), "")
    );
    lines.push(verdict(FIGURE, thesis, &facts, holds));
}

/// Figure 4.16: partitioned by the CPU or by the GPU.
pub(super) fn processors(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.16";
    for (name, of_gpu) in [("ours", OURS), ("the thesis' kernels", "Hierarchical")] {
        let ratios = rows.of("join", of_gpu).ratios(&rows.of("join", "CPU"));
        let thesis = format!(
            "the Triton join ({name}) has 1.2 to 1.3 times the throughput of the CPU-partitioned one"
        );
        within(lines, (FIGURE, &thesis), &ratios, (1.2, 1.3));
        let ratios = rows
            .of("first pass", of_gpu)
            .ratios(&rows.of("first pass", "CPU"));
        let thesis = format!("the GPU ({name}) partitions 1.5 to 1.7 times as fast as the CPU");
        within(lines, (FIGURE, &thesis), &ratios, (1.5, 1.7));
    }
}

/// Figure 4.17: the algorithm of the first pass.
pub(super) fn first_passes(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.17";
    let of = |algorithm| rows.of("join", algorithm);
    let hierarchical = of("Hierarchical");
    for (other, thesis, range) in [
        (
            "Linear",
            "the join with Hierarchical has 1.1 to 1.9 times the throughput of Linear",
            (1.1, 1.9),
        ),
        (
            "Standard",
            "the join with Hierarchical has 3.6 to 4 times the throughput of Standard",
            (3.6, 4.0),
        ),
        (
            "Shared",
            "Hierarchical has 88 to 100 % of Shared below 1280 M tuples",
            (0.88, 1.0),
        ),
    ] {
        within(lines, (FIGURE, thesis), &hierarchical.ratios(&of(other)), range);
    }
    let ours = rows.ours("join");
    let ratios = ours.ratios(&hierarchical);
    let holds = !ratios.is_empty() && ratios.iter().all(|(_, ratio)| *ratio >= 1.0);
    let thesis =
        "(ours) copy engines with partitioning in device memory are faster than Hierarchical across the link";
    lines.push(verdict(FIGURE, thesis, &text(&ratios, "x"), holds));
}

/// Figure 4.20: fanouts of both passes.
pub(super) fn fanouts(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.20";
    let joins = rows.ours("join");
    for workload in joins.workloads() {
        let rows = joins.with(workload);
        let thesis = format!("{} M tuples: a second fanout of 512 is best", workload.0);
        let Some(best) = rows.best() else { continue };
        let of_nine = Rows(rows.0.iter().copied().filter(|row| row.bits.1 == 9).collect());
        let share = of_nine.best().map_or(0.0, |row| row.rate() / best.rate());
        let facts = format!(
            "{} and {} bits are best with {:.2} G tuples/s, and 9 bits have {:.0} % of it; the worst has {:.0} %",
            best.bits.0,
            best.bits.1,
            best.rate(),
            100.0 * share,
            100.0 * rows.worst().map_or(0.0, |row| row.rate() / best.rate())
        );
        lines.push(verdict(FIGURE, &thesis, &facts, share >= 0.98));
    }
}

/// Figure 4.21: the fraction of the state in device memory.
pub(super) fn cache(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.21";
    let joins = rows.ours("join");
    for workload in joins.workloads() {
        let rows = joins.with(workload);
        let thesis = format!(
            "{} M tuples: a full cache has 1.4 times the throughput of none",
            workload.0
        );
        if let Some((none, full)) = rows.at(0.0).zip(rows.at(1.0)) {
            let gain = full.rate() / none.rate();
            let facts = format!(
                "{gain:.2} times; in G tuples/s by cached fraction {}",
                text(&rates(&rows), "")
            );
            lines.push(verdict(FIGURE, &thesis, &facts, (1.26..=1.54).contains(&gain)));
        } else {
            lines.push(missing(FIGURE, &thesis, "one of the two"));
        }
    }
    if let Some(workload) = joins.workloads().first() {
        let rows = joins.with(*workload);
        let thesis = "the smallest workload is fastest with 79 % of its state cached";
        if let Some((part, full)) = rows.at(0.79).zip(rows.at(1.0)) {
            let facts = format!(
                "{:.2} G tuples/s with 79 %, {:.2} with all",
                part.rate(),
                full.rate()
            );
            lines.push(verdict(FIGURE, thesis, &facts, part.rate() > full.rate()));
        }
    }
}

/// Figure 4.23: the ratio of the sides.
pub(super) fn ratios(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.23";
    let joins = rows.ours("join");
    let thesis = "the Triton join varies by at most 13 % from a ratio of 1:1 to 1:32";
    match joins.best().zip(joins.worst()) {
        Some((best, worst)) => {
            let ratio = best.rate() / worst.rate();
            let facts = format!(
                "{ratio:.2} times, in G tuples/s by ratio {}",
                text(&rates(&joins), "")
            );
            lines.push(verdict(FIGURE, thesis, &facts, ratio <= 1.13));
        }
        None => lines.push(missing(FIGURE, thesis, "the Triton join")),
    }
}

/// Figure 4.25: fewer multiprocessors, of 80 in the thesis.
pub(super) fn multiprocessors(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.25";
    for algorithm in [OURS, "Hierarchical"] {
        let joins = rows.of("join", algorithm);
        for workload in joins.workloads() {
            let rows = joins.with(workload);
            let Some(best) = rows.best() else { continue };
            let shares: Vec<(f64, f64)> = rows
                .0
                .iter()
                .map(|row| (row.value, row.rate() / best.rate()))
                .collect();
            for (count, share) in [(28.0, 0.75), (55.0, 0.95)] {
                let thesis = format!(
                    "{} M tuples, {algorithm}: {count} multiprocessors have {:.0} % of the throughput of all",
                    workload.0,
                    100.0 * share
                );
                let enough = shares.iter().find(|(at, _)| *at >= count);
                let holds = enough.is_some_and(|(_, found)| *found >= share);
                lines.push(verdict(FIGURE, &thesis, &text(&shares, ""), holds));
            }
        }
    }
}

/// The join with its whole state in host memory, by the size of chunks.
pub(super) fn chunks(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "chunks";
    let joins = rows.ours("join");
    let Some((best, worst)) = joins.best().zip(joins.worst()) else {
        lines.push(missing(
            FIGURE,
            "the join with its state in host memory",
            "the join",
        ));
        return;
    };
    let limits = best.limits;
    let facts = format!(
        "{:.2} G tuples/s with {} {}, {:.2} with {} {}; the link allows {:.2} at {:.1} GB/s to the device, {:.1} to the host and {:.1} together",
        best.rate(),
        best.value,
        best.parameter,
        worst.rate(),
        worst.value,
        worst.parameter,
        best.rate() / best.shares().0,
        limits.to_device / 1e9,
        limits.to_host / 1e9,
        limits.both / 1e9
    );
    let thesis = "(ours) with all of its state in host memory the join has 1.55 G tuples/s";
    lines.push(verdict(FIGURE, thesis, &facts, best.rate() >= 1.55));
    let thesis = "(ours) it has 90 % of the link's bound";
    lines.push(verdict(FIGURE, thesis, &facts, best.shares().0 >= 0.9));
}
