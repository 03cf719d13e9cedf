//! Prefix sums and payload columns: figures 4.22 and 4.24.

use super::rows::{OURS, Rows, rates, text, within};
use crate::finding::{missing, verdict};

/// Figure 4.22: the prefix sum by the CPU and by the GPU.
pub(super) fn prefix_sums(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.22";
    let [cpu, gpu] = ["CPU", "GPU"].map(|algorithm| rows.of("prefix sum", algorithm));
    // A key has 8 bytes.
    let gibibytes = |rows: &Rows<'_>| -> Vec<(f64, f64)> {
        let of = |(value, rate)| (value, 8e9 * rate / f64::from(1u32 << 30));
        rates(rows).into_iter().map(of).collect()
    };
    let thesis = "the CPU computes the prefix sum 1.6 to 2.2 times as fast as the GPU";
    within(lines, (FIGURE, thesis), &cpu.ratios(&gpu), (1.6, 2.2));
    let holds = !gpu.0.is_empty() && gpu.0.iter().all(|row| row.shares().0 >= 0.9);
    let shares: Vec<(f64, f64)> = gpu.0.iter().map(|row| (row.value, row.shares().0)).collect();
    let facts = format!(
        "shares {}, GiB/s of the GPU {}, of the CPU {}",
        text(&shares, ""),
        text(&gibibytes(&gpu), ""),
        text(&gibibytes(&cpu), "")
    );
    let thesis = "the GPU's prefix sum has the rate of the link";
    lines.push(verdict(FIGURE, thesis, &facts, holds));
    let joins = rows.of("join", "Hierarchical");
    let with_cpu = rows.of("join", "Hierarchical with the CPU's prefix sum");
    let thesis = "the join is 1.1 times as fast with the CPU's prefix sum";
    within(lines, (FIGURE, thesis), &with_cpu.ratios(&joins), (1.1, 1.1));
    let ratios = rows.ours("join").ratios(&with_cpu);
    let holds = !ratios.is_empty() && ratios.iter().all(|(_, ratio)| *ratio >= 1.0);
    let thesis = "(ours) counting chunks in device memory is faster than the CPU's prefix sum";
    lines.push(verdict(FIGURE, thesis, &text(&ratios, "x"), holds));
}

/// Figure 4.24: payload columns.
pub(super) fn columns(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.24";
    for workload in rows.workloads() {
        let rows = rows.with(workload);
        let size = workload.0;
        let late = rows.of("join", "Late materialisation");
        let staged = rows.of("join", "Staged columns");
        let Some((index, last)) = late.at(0.0).zip(late.0.last()) else {
            lines.push(missing(FIGURE, "late materialisation", "it"));
            continue;
        };
        let thesis = format!(
            "{size} M tuples: a join index alone has the throughput of a join that carries a payload"
        );
        let early = rows.of("join", OURS);
        let ratio: Vec<(f64, f64)> = early
            .0
            .iter()
            .map(|row| (index.value, index.rate() / row.rate()))
            .collect();
        within(lines, (FIGURE, &thesis), &ratio, (1.0, 1.0));
        let thesis =
            format!("{size} M tuples: 16 columns leave 4 to 6 % of the throughput of the join index alone");
        let kept = last.rate() / index.rate();
        let facts = format!(
            "{:.1} % is left with {} columns; in G tuples/s by number of columns {}",
            100.0 * kept,
            last.value,
            rates(&late)
                .iter()
                .map(|(columns, rate)| format!("{rate:.4} at {columns}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        let holds = last.value >= 16.0 && kept <= 0.07;
        lines.push(verdict(FIGURE, &thesis, &facts, holds));
        let ratios = staged.ratios(&late);
        let holds = !ratios.is_empty() && ratios.iter().all(|(_, ratio)| *ratio >= 1.0);
        let thesis = format!("(ours) {size} M tuples: staged columns are faster than late materialisation");
        let facts = format!(
            "{}; in G tuples/s by number of columns {}",
            text(&ratios, "x"),
            text(&rates(&staged), "")
        );
        lines.push(verdict(FIGURE, &thesis, &facts, holds));
        if last.value < staged.0.iter().map(|row| row.value).fold(0.0, f64::max) {
            lines.push(format!(
                "note: {FIGURE}: {size} M tuples: late materialisation of more than {} columns is left out, \
                 because it takes too long",
                last.value
            ));
        }
    }
}
