//! The figures and the table of Z. Li et al., XeFlow, IEEE TC 2020: streams.

use super::{Entry, Paper, bench};

figures_of!(Xeflow);

pub(super) const FIGURES: &[Entry] = &[
    drawing("1", "two models of pipelines"),
    drawing("2", "paging of unified memory"),
    drawing("3", "overview of the programming model"),
    drawing("4", "the ping-pong topology"),
    drawing("5", "layers of a topic"),
    drawing("6", "replicas of the offset index"),
    drawing("7", "the kernel of all operators"),
    figure(
        "8",
        "frame sizes",
        "XeFlow has 2.4 to 3.1 times the throughput of copy, kernel, copy (CKC) and a third of its latency; concurrent CKC is good \
         only with large batches, a task table (CTC) only with small ones",
        "frame-sizes",
        "flow --experiment frame-sizes",
    ),
    figure(
        "9",
        "kernels that compute, and that read",
        "gains over CKC shrink with the batch for kernels that compute, and persist for those that read",
        "shapes",
        "flow --experiment shapes",
    ),
    figure(
        "10",
        "layers of a topic",
        "beside kernels over unified memory (KoUM), small frames gain 21 % by the catalogue, 52 % by the index and 334 % by frames",
        "layers",
        "flow --experiment layers",
    ),
    figure(
        "11",
        "steps of a round",
        "the work vector takes 0.02 to 2.5 % of a round; publishing and subscribing dominate small frames",
        "steps",
        "flow --experiment steps",
    ),
    figure(
        "12",
        "chains of operators",
        "with 16 KiB, XeFlow loses 1.7 to 3.6 % by further operators and the others more; with 4 MiB all lose and XeFlow is best",
        "chains",
        "flow --experiment chains",
    ),
    figure(
        "table 2",
        "time of tuning",
        "2.64 ms (FMA4, 800 samples) to 149.79 ms (FMA64, 12800 samples), linear in the samples",
        "tuning",
        "flow --experiment tuning",
    ),
    figure(
        "13",
        "partitions of warps",
        "4.1 and 3.2 times concurrent kernels, 2.0 and 1.4 times the worst partition; the estimate follows the throughput",
        "partitions",
        "flow --experiment partitions",
    ),
    figure(
        "14",
        "RAID-6 and AES",
        "with 4 KiB the CPU is best; with 64 KiB 2.2, 1.8 and 3.1 times CKC, four concurrent CKC and KoUM",
        "encoding",
        "flow --experiment encoding",
    ),
    figure(
        "15",
        "Set Query",
        "bytes over the link beside a GPU engine: paging by columns saves 80 to 85 % (Q1 to Q3) and 45 to 60 % (Q4), the index \
         5 to 61 % more",
        "set-query",
        "flow --experiment set-query",
    ),
    drawing("16", "the topology of encoding"),
];
