//! The table and the figures of E. Sitaridi and K. Ross, DaMoN 2012: conflicts in shared memory.

use super::{Entry, Paper, bench};

figures_of!(Conflicts);

pub(super) const FIGURES: &[Entry] = &[
    figure(
        "table 1",
        "conflicts of columns by Zipf's law",
        "distinct banks, write and read rounds of unplaced columns: 20.42, 3.54, 3.44 for θ = 0; 18.24, 5.33, 2.77 for θ = 1",
        "table-1",
        "conflicts table-1",
    ),
    drawing("1", "conflicts of a warp"),
    drawing("2", "an example of placing a chunk"),
    figure(
        "3",
        "copies by rows, skew and window",
        "writes take more copies than reads, more with a larger window, far fewer with skew; few more after 50 million rows",
        "figure-3",
        "conflicts figure-3",
    ),
    figure(
        "4",
        "copies by cardinality",
        "more copies at low cardinality, the more so with a window",
        "figure-4",
        "conflicts figure-4",
    ),
    figure(
        "5",
        "speed-up of queries by placed columns",
        "beside the original column: counts by group gain dramatically at high skew and 1.2 times without; reads gain 2 % or less",
        "figure-5",
        "conflicts figure-5",
    ),
    figure(
        "6",
        "rows per second by window",
        "18 G rows per second with placed columns, 72 GB/s of nominally 144",
        "figure-6",
        "conflicts figure-6",
    ),
    figure(
        "7",
        "only value conflicts resolved",
        "20 % fewer rows per second than with bank conflicts resolved too, less of a loss at θ = 2",
        "figure-7",
        "conflicts figure-6,figure-7",
    ),
    figure(
        "8",
        "rows per second by budget",
        "near the maximum with 4 copies per value for uniform columns, with 2 for skewed ones",
        "figure-8",
        "conflicts figure-8",
    ),
    figure(
        "9",
        "time of placing a column",
        "a few seconds on 16 threads for 200 million rows; with skew faster for small windows, slower for large ones",
        "figure-9",
        "conflicts figure-9",
    ),
    figure(
        "10",
        "degree of conflict",
        "reads in the worst case run at less than half the speed of conflict-free ones; writes lose more",
        "figure-10",
        "conflicts figure-10",
    ),
];
