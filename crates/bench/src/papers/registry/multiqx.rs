//! Figures of K. Wang et al., MultiQx-GPU, PVLDB 2014: concurrent queries on one device.
//!
//! The paper's queries are those of the Star Schema Benchmark at scale 14 with 1.46 GB of device memory. Here
//! they have scale 20 and 2 GiB. Pairs are those that read more than the limit together, of all 13 queries or
//! of six.

use super::{Bench, Entry, Paper, Run};

const fn figure(
    figure: &'static str,
    subject: &'static str,
    outcome: &'static str,
    (name, arguments): (&'static str, &'static str),
    (sizes, small): (&'static str, &'static str),
) -> Entry {
    let run = Run::Bench(Bench {
        name,
        file: name,
        arguments,
        sizes,
        small,
    });
    Entry::new(Paper::Multiqx, figure, subject, outcome, run)
}

/// A figure with pairs of six queries.
const fn pairs(
    number: &'static str,
    subject: &'static str,
    outcome: &'static str,
    name: &'static str,
    arguments: &'static str,
) -> Entry {
    let sizes = (
        "--limit 2GiB --seconds 0.4 --queries 1.1,2.1,2.3,3.1,4.1,4.3",
        SMALL,
    );
    figure(number, subject, outcome, (name, arguments), sizes)
}

const fn missing(
    figure: &'static str,
    subject: &'static str,
    outcome: &'static str,
    reason: &'static str,
) -> Entry {
    Entry::new(Paper::Multiqx, figure, subject, outcome, Run::Nothing(reason))
}

const fn drawing(figure: &'static str, subject: &'static str) -> Entry {
    Entry::drawing(Paper::Multiqx, figure, subject)
}

/// Arguments for the emulated device, which has queries of scale 0.01.
const SMALL: &str = "--limit 512KiB --seconds 0.1 --queries 1.1,2.1 --set galatea.device=emulated \
                     --set galatea.tuning.chunk_rows=4096";

/// All queries under the limit.
const ALL: (&str, &str) = ("--limit 2GiB --seconds 0.4", SMALL);

/// The same with half of the limit, as if the scale were twice as large.
const TWICE: (&str, &str) = (
    "--limit 1GiB --seconds 0.4 --queries 1.1,2.1,2.3,3.1,4.1,4.3",
    SMALL,
);

/// Arrivals of queries under the limit.
const OPEN: (&str, &str) = ("--limit 2GiB --seconds 1.5", SMALL);

/// The same with 14 / 8 of the limit, as if the scale were 8 instead of 14.
const OPEN_SMALLER: (&str, &str) = ("--limit 3584MiB --seconds 1.5", SMALL);

/// Room for all columns, which are transferred for each query, as in the paper.
const NO_LIMIT: (&str, &str) = (
    "--seconds 3 --limit 64GiB --set galatea.cache.device=off",
    "--seconds 0.1 --queries 1.1,2.1 --set galatea.device=emulated --set galatea.cache.device=off",
);

/// The paper's result on the cost of its manager.
const OVERHEAD: &str =
    "beside YDB, queries alone take 2.2 % longer (4.3 % at most), pairs without a conflict 3.4 %";

/// The paper's result on its five techniques.
const TECHNIQUES: &str = "beside the full system, no reference advice costs 22 % (60 % at most), whole regions instead of pages 5.7 %";

/// The paper's result on replacement.
const REPLACEMENT: &str = "cost-driven replacement has 44 % more throughput than LRU, 56 % at most; LRU, MRU, LFU and random are \
                           alike";

/// The reason for experiments without a valid run on a GPU.
const FAILED: &str = "in the only run, queries without the manager had no limit of memory and failed, and those with it had \
                      the limit of an earlier experiment";

pub(super) const FIGURES: &[Entry] = &[
    drawing("1", "a plan of YDB"),
    missing(
        "2",
        "utilisation of queries alone",
        "dedicated queries use the copy engine for 24 % of the time, the cores for 8 % and the memory for 23 %",
        "not built: a program cannot count the busy time of multiprocessors, which needs the driver's profiler",
    ),
    pairs(
        "section 2.3",
        "queries side by side without a manager",
        "all conflicting pairs of YDB fail, always or sporadically",
        "naive",
        "concurrency --pairs --naive",
    ),
    figure(
        "3",
        "number of concurrent queries",
        "throughput is best with 2 queries; with 4 it is a quarter of that, 65 % below one query alone",
        ("clients", "concurrency --clients 1,2,3,4"),
        ALL,
    ),
    drawing("4", "components of MultiQx-GPU"),
    missing(
        "5",
        "allocated and used memory",
        "queries allocate more device memory than their kernels use; the values are only in the plot",
        "not built: queries here allocate columns of tables, which are shared, and kernels use all of what a query allocates",
    ),
    figure(
        "6",
        "pairs of queries",
        "weighted speed-up beside one query at a time (YDB): 39 % in the mean, at least 15 %",
        ("pairs", "concurrency --pairs"),
        ALL,
    ),
    figure(
        "7",
        "use of the link by pairs",
        "beside YDB, the DMA engine is used for 57 instead of 35 % of the time (and the cores for 18 instead of 13 %)",
        ("pairs", "concurrency --pairs"),
        ALL,
    ),
    figure(
        "section 7.2",
        "pairs of a larger scale",
        "SSB at scale 28, twice the first scale: 33 % faster than YDB in the mean, up to 54 %",
        ("scale", "concurrency --pairs"),
        TWICE,
    ),
    pairs(
        "8",
        "Raw: no technique",
        "eager transfers of whole regions without advice (Raw) have a DMA efficiency of 38 %, the full system of 84 %",
        "raw",
        "concurrency --pairs --ablation eager,no-reference,no-access,whole-region --replacement cost",
    ),
    pairs(
        "9",
        "full system",
        TECHNIQUES,
        "full",
        "concurrency --pairs --replacement cost",
    ),
    pairs(
        "9",
        "eager transfer",
        TECHNIQUES,
        "eager",
        "concurrency --pairs --ablation eager --replacement cost",
    ),
    pairs(
        "9",
        "copies of the source",
        TECHNIQUES,
        "copied",
        "concurrency --pairs --ablation copied --replacement cost",
    ),
    pairs(
        "9",
        "no reference advice",
        TECHNIQUES,
        "no-reference",
        "concurrency --pairs --ablation no-reference --replacement cost",
    ),
    pairs(
        "9",
        "no access advice",
        TECHNIQUES,
        "no-access",
        "concurrency --pairs --ablation no-access --replacement cost",
    ),
    pairs(
        "9",
        "whole regions",
        TECHNIQUES,
        "whole-region",
        "concurrency --pairs --ablation whole-region --replacement cost",
    ),
    pairs(
        "10",
        "replacement lru",
        REPLACEMENT,
        "lru",
        "concurrency --pairs --replacement lru",
    ),
    pairs(
        "10",
        "replacement mru",
        REPLACEMENT,
        "mru",
        "concurrency --pairs --replacement mru",
    ),
    pairs(
        "10",
        "replacement lfu",
        REPLACEMENT,
        "lfu",
        "concurrency --pairs --replacement lfu",
    ),
    pairs(
        "10",
        "replacement random",
        REPLACEMENT,
        "random",
        "concurrency --pairs --replacement random",
    ),
    pairs(
        "10",
        "replacement cost",
        REPLACEMENT,
        "cost",
        "concurrency --pairs --replacement cost",
    ),
    figure(
        "11",
        "Poisson arrivals",
        "beside FIX-1, FIX-2 has 1.39, Weight 1.37, FIX-3 1.1 and Peak 1.07 times the throughput",
        ("poisson", "concurrency --poisson"),
        OPEN,
    ),
    figure(
        "11",
        "Poisson arrivals, smaller queries",
        "with SSB at scale 8, Weight is best with more than 1.62 times the throughput of FIX-1, FIX-2 is below it",
        ("poisson-smaller", "concurrency --poisson"),
        OPEN_SMALLER,
    ),
    figure(
        "12",
        "overhead of the manager",
        OVERHEAD,
        ("managed", "concurrency --clients 1,2"),
        NO_LIMIT,
    )
    .pending(FAILED),
    figure(
        "12",
        "without the manager",
        OVERHEAD,
        ("unmanaged", "concurrency --clients 1,2 --ablation naive"),
        NO_LIMIT,
    )
    .pending(FAILED),
];
