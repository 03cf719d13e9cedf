//! Figures of C. Lutz' thesis, chapter 5: k-means. One command measures all of them.

use super::{Entry, Paper, bench, drawing_of_thesis as drawing};

const fn figure(figure: &'static str, subject: &'static str, outcome: &'static str) -> Entry {
    let run = bench("chapter-5", "kmeans --experiment thesis");
    Entry::new(Paper::Thesis, figure, subject, outcome, run)
}

pub(super) const FIGURES: &[Entry] = &[
    drawing("5.1", "execution strategies of k-means"),
    drawing("5.2", "cluster merge"),
    drawing("5.3", "partitioned features"),
    drawing("5.4", "global atomic"),
    drawing("5.5", "partitioned local"),
    drawing("5.6", "partitioned private"),
    drawing("5.7", "fused assignment and update"),
    drawing("5.8", "chunks of points"),
    figure(
        "5.9",
        "feature sums",
        "partitioned features equal cluster merge for 4 clusters and up to 16 features, and win beyond, by up to 96.7 times",
    ),
    figure(
        "5.10",
        "mass sums",
        "private histograms are best up to 16 clusters, local ones from 128 on; global atomics are very slow",
    ),
    figure(
        "5.11",
        "executions",
        "multi-pass is 9.1 times as fast as cross-processing, single-pass 2 times as fast as multi-pass",
    ),
    figure(
        "5.12",
        "phases of an iteration",
        "cross-processing: feature sum and label transfer dominate; multi-pass on the CPU: assignment and feature sum",
    ),
    figure(
        "5.13",
        "number of clusters",
        "single-pass is up to 2 times as fast as multi-pass up to 16 clusters; multi-pass is better from 32, both equal from 128",
    ),
    figure(
        "5.14",
        "number of features",
        "single-pass is 1.1 to 2.1 times as fast as multi-pass up to 32 features, and equal beyond",
    ),
    figure(
        "5.15",
        "chunk sizes",
        "11.4 of 12.2 GiB/s with chunks of 8 to 64 MiB; with a copy to pinned memory before it, 86 % of that",
    ),
    figure(
        "5.16",
        "points in host memory",
        "PCIe 3 is saturated; the CPU is 2.6 times as fast as the GPU with 4 clusters, the GPU 1.5 times with 64",
    ),
];
