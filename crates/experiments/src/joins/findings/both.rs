//! Findings on both processors together: figure 3.20.

use super::rows::{CPU, GPU, Rows, about, found};

pub(super) fn cooperation(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.20";
    for (workload, thesis) in [
        ("A", [("Het", 1.19), ("GPU+Het", 4.7), (GPU, 5.8)]),
        ("B", [("Het", 0.3), ("GPU+Het", 1.8), (GPU, 1.4)]),
        ("C", [("Het", 1.08), ("GPU+Het", 2.4), (GPU, 4.6)]),
    ] {
        let rate = |algorithm: &str| {
            let mut rows = rows.0.iter();
            rows.find(|row| row.workload == workload && row.algorithm == algorithm)
                .map(|row| row.rate())
        };
        let device_share = |algorithm: &str| {
            let mut rows = rows.0.iter();
            rows.find(|row| row.workload == workload && row.algorithm == algorithm)
                .map_or(f64::NAN, |row| row.device_share)
        };
        for (algorithm, by) in thesis {
            let facts = rate(algorithm).zip(rate(CPU)).map(|(rate, cpu)| {
                let ratio = rate / cpu;
                let facts = format!("it has {rate:.2} G tuples/s and the CPU {cpu:.2}, {ratio:.2} times");
                (facts, about(ratio, (by, by)))
            });
            let thesis = format!("{algorithm} has {by} times the rate of the CPU for workload {workload}");
            lines.push(found(FIGURE, &thesis, facts));
        }
        let sum = rate(GPU).zip(rate(CPU)).zip(rate("GPU+Het"));
        let facts = sum.map(|((gpu, cpu), both)| {
            let share = 100.0 * both / (gpu + cpu);
            let of_cpu = 100.0 * (1.0 - device_share("GPU+Het"));
            let facts = format!(
                "it has {both:.2} of {:.2} G tuples/s, {share:.0} %, and the CPU probes {of_cpu:.0} % of S",
                gpu + cpu
            );
            (facts, share >= 90.0)
        });
        let goal =
            format!("(goal) GPU+Het has nine tenths of the sum of both processors for workload {workload}");
        lines.push(found(FIGURE, &goal, facts));
        // The rates of an alone processor vary by some per cent.
        let alone = rate(GPU).zip(rate(CPU)).zip(rate("GPU+Het"));
        let facts = alone.map(|((gpu, cpu), both)| {
            let facts = format!("it has {both:.2} G tuples/s, the device {gpu:.2}, the CPU {cpu:.2}");
            (facts, both >= 0.97 * gpu.max(cpu))
        });
        let goal =
            format!("(goal) GPU+Het is not slower than the better processor alone for workload {workload}");
        lines.push(found(FIGURE, &goal, facts));
        let shared = rate("Het").zip(rate(CPU)).map(|(both, cpu)| {
            let facts = format!("it has {both:.2} G tuples/s, the CPU {cpu:.2} with the same table");
            (facts, both >= 0.97 * cpu)
        });
        let goal = format!(
            "(goal) Het, with one table in host memory, is not slower than the CPU alone for workload {workload}"
        );
        lines.push(found(FIGURE, &goal, shared));
    }
}
