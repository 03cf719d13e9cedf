//! Figures of C. Lutz' thesis, chapter 4: partitions, and joins of partitions.

use galatea_experiments::papers::Module::{Joins, Partitioned, Transfer};

use super::{Entry, drawing_of_thesis as drawing, of_thesis as figure};

/// An experiment that has the number of its figure.
const fn partitioned(number: &'static str, subject: &'static str, outcome: &'static str) -> Entry {
    figure(number, subject, outcome, Partitioned, number)
}

pub(super) const FIGURES: &[Entry] = &[
    figure(
        "4.1",
        "join scaling",
        "beyond device memory, hashing loses 5 (perfect) and 400 times (linear probing) and the CPU's radix join is faster",
        Joins,
        "tuples",
    ),
    figure(
        "4.1",
        "join scaling, two devices",
        "the same with the memory of a second device instead of the host's",
        Joins,
        "peer_tuples",
    ),
    drawing("4.2", "the CPU-partitioned join"),
    partitioned(
        "4.3",
        "destinations of partitions",
        "the GPU partitions faster than the CPU, to the memory of either",
    ),
    drawing("4.4", "the GPU-partitioned join"),
    figure(
        "4.5",
        "granularity and alignment",
        "random accesses over NVLink 2.0 grow with their size up to the sequential rate at 128 bytes; misalignment costs 20 % of \
         reads and 56 % of writes",
        Transfer,
        "pieces",
    ),
    figure(
        "4.6",
        "TLB",
        "the TLB reaches 8 GiB of device memory and 32 GiB of host memory",
        Transfer,
        "tlb",
    ),
    drawing("4.7", "shared buffers of a block"),
    drawing("4.8", "two levels of buffers"),
    drawing("4.9", "stages of the Triton join"),
    drawing("4.10", "overlap of the second pass and the join"),
    drawing("4.11", "interleaved pages of the state"),
    partitioned(
        "4.12",
        "scaling of the Triton join",
        "the Triton join keeps 74 % of its throughput from 128 to 2048 M tuples, 1.9 to 2.6 times the CPU's join and 3.9 times \
         hashing without partitions",
    ),
    partitioned(
        "4.13",
        "utilisation of the link",
        "the Triton join uses 90 to 100 % of the link in its prefix sum and partitioning; linear probing 0.4 %",
    ),
    partitioned(
        "4.14",
        "time by phase",
        "the first pass takes 43.8 to 47.2 % of the time, the first prefix sum 18.9 to 23.4 %",
    ),
    partitioned(
        "4.15",
        "bounds by phase",
        "the first pass and the prefix sums are bound by the link, the second pass by computing",
    ),
    partitioned(
        "4.16",
        "partitioning by CPU and GPU",
        "the Triton join is 1.2 to 1.3 times as fast as the CPU-partitioned join",
    ),
    partitioned(
        "4.17",
        "algorithms of the first pass",
        "Hierarchical is 1.1 to 1.9 times as fast as Linear and 3.6 to 4 times as fast as Standard",
    ),
    partitioned(
        "4.18",
        "partitioning across the link",
        "Hierarchical keeps 38.3 of 55.9 GiB/s at a fanout of 2048, Shared only up to 64",
    ),
    partitioned(
        "4.19",
        "partitioning in device memory",
        "Shared is 1.04 to 2.1 times as fast as Linear above a fanout of 4; Hierarchical has less than 60 % of it",
    ),
    partitioned(
        "4.20",
        "fanouts of both passes",
        "a second pass is best with a fanout of 512",
    ),
    partitioned(
        "4.21",
        "cached share of the state",
        "caching all state makes the Triton join 1.4 times as fast as caching none, the smallest workload best with 79 %",
    ),
    partitioned(
        "4.22",
        "prefix sum by CPU and GPU",
        "the CPU computes the prefix sum at 129.6 GiB/s, the GPU at 63, which makes the join 1.1 times as fast",
    ),
    partitioned(
        "4.23",
        "build-to-probe ratio",
        "the Triton join is flat from 1:1 to 1:32, hashing without partitions has a cliff",
    ),
    partitioned(
        "4.24",
        "payload columns",
        "late materialisation of 16 columns leaves 86 to 88 M of 1.5 to 2 G tuples/s",
    ),
    partitioned(
        "4.25",
        "fewer multiprocessors",
        "28 of 80 multiprocessors have 75 % of the throughput, 55 have 95 %",
    ),
];
