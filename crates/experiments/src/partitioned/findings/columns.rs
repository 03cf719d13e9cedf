//! Prefix sums: figure 4.22.

use super::rows::{Rows, rates, text, within};
use crate::finding::verdict;

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
