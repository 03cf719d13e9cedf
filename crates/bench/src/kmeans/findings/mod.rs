//! The thesis' figures 5.9 to 5.16 beside the measurements: which of their trends hold here, and why others
//! do not.

mod host;
mod passes;

use super::Row;
use crate::harness::Finding;

/// Shared memory of the devices in the thesis, as in rows.
const THESIS_SHARED: u64 = 48 << 10;

/// Rows with searches by their parameters.
struct Rows<'r>(&'r [Row]);

/// A combination of features and clusters, and the limit of shared memory; 0: all.
#[derive(Clone, Copy)]
struct Of {
    d: u32,
    k: u32,
    limit: u64,
}

impl Rows<'_> {
    /// The fastest row of a whole iteration with this execution and place.
    fn best(&self, execution: &str, place: &str, of: Of, wanted: impl Fn(&Row) -> bool) -> Option<&Row> {
        let rows = self.0.iter().filter(|row| {
            (row.execution.as_str(), row.place.as_str()) == (execution, place)
                && (row.features, row.clusters, row.shared_limit) == (of.d, of.k, of.limit)
                && row.part.is_empty()
                && wanted(row)
                && row.ms_median.is_finite()
        });
        rows.min_by(|a, b| a.ns_of_a_point().total_cmp(&b.ns_of_a_point()))
    }

    fn fastest(&self, execution: &str, place: &str, of: Of) -> Option<&Row> {
        self.best(execution, place, of, |_| true)
    }

    /// Cross-processing without a limit on shared memory: there it only assigns points.
    fn cross(&self, of: Of) -> Option<&Row> {
        self.fastest("cross-processing", "resident", Of { limit: 0, ..of })
    }

    /// The CPU's row, which has no shared memory.
    fn cpu(&self, execution: &str, of: Of) -> Option<&Row> {
        self.fastest(execution, "cpu", Of { limit: 0, ..of })
    }
}

/// The speed-up of the first over the second, per point, because rows may have different numbers of points.
fn times(fast: &Row, slow: &Row) -> f64 {
    slow.ns_of_a_point() / fast.ns_of_a_point()
}

/// The bound of a pass on the device: its time relative to one read, and the number of threads.
fn bound(row: &Row) -> String {
    let over = row.ratio.map_or_else(String::new, |ratio| {
        format!("{ratio:.2}x reading the points once, ")
    });
    format!(
        "{over}{} blocks of {} threads and {:.0} KB",
        row.blocks,
        row.threads,
        row.shared_bytes as f64 / 1024.0
    )
}

/// Bytes of points a second.
fn rate(row: &Row) -> String {
    format!("{:.1} GB/s", row.gbytes_s)
}

/// Whether a trend holds, and if not, the measured facts that explain it.
fn verdict(holds: bool, facts: impl std::fmt::Display) -> String {
    if holds {
        "holds".to_string()
    } else {
        format!("does not hold, because {facts}")
    }
}

/// The amount of shared memory, in words.
fn with(limit: u64) -> String {
    match limit {
        0 => "all shared memory".to_string(),
        bytes => format!("{} KB", bytes >> 10),
    }
}

/// One finding per claim that rows cover.
pub(super) fn findings(rows: &[Row]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut shapes: Vec<(u32, u32)> = rows.iter().map(|row| (row.features, row.clusters)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let rows = Rows(rows);
    for &(d, k) in &shapes {
        for limit in [THESIS_SHARED, 0] {
            passes::feature_sums(&mut found, &rows, Of { d, k, limit });
        }
    }
    for &(_, k) in shapes.iter().filter(|(d, _)| *d == 0) {
        passes::mass_sums(&mut found, &rows, k);
    }
    for limit in [THESIS_SHARED, 0] {
        passes::executions(&mut found, &rows, Of { d: 4, k: 4, limit });
    }
    host::phases(&mut found, rows.0);
    for of in shapes.iter().filter(|(d, _)| *d == 4) {
        for limit in [THESIS_SHARED, 0] {
            passes::by_clusters(&mut found, &rows, Of { d: 4, k: of.1, limit });
        }
    }
    for of in shapes.iter().filter(|(d, k)| *d > 0 && *k == 4) {
        for limit in [THESIS_SHARED, 0] {
            passes::by_features(&mut found, &rows, Of { d: of.0, k: 4, limit });
        }
    }
    host::chunks(&mut found, rows.0);
    for &(d, k) in &shapes {
        host::streaming(&mut found, &rows, Of { d, k, limit: 0 });
    }
    host::side_by_side(&mut found, rows.0);
    found
}
