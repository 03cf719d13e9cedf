//! The device headers, embedded.

use std::sync::OnceLock;

use galatea_device::Headers;

/// Lists header files: name as included, and text.
macro_rules! embed {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/", $name))),)*]
    };
}

/// Every header under `cuda/galatea`, by the name device code includes it. A test compares the list with the
/// folder.
pub const HEADERS: &[(&str, &str)] = embed![
    "galatea/args/checksum.h",
    "galatea/args/collect_bits.h",
    "galatea/args/copy_bandwidth.h",
    "galatea/args/count_bits.h",
    "galatea/args/dense_fold.h",
    "galatea/args/fill_pattern.h",
    "galatea/args/flow.h",
    "galatea/args/global_atomics.h",
    "galatea/args/hash_collect.h",
    "galatea/args/hash_merge.h",
    "galatea/args/hash_rehash.h",
    "galatea/args/heap_allocate.h",
    "galatea/args/heap_gather.h",
    "galatea/args/heap_release.h",
    "galatea/args/heap_reset.h",
    "galatea/args/heap_verify.h",
    "galatea/args/kmeans_fit.h",
    "galatea/args/kmeans_masses.h",
    "galatea/args/kmeans_pass.h",
    "galatea/args/kmeans_update.h",
    "galatea/args/link_access.h",
    "galatea/args/link_chase.h",
    "galatea/args/link_select.h",
    "galatea/args/list_rows.h",
    "galatea/args/match_lanes.h",
    "galatea/args/nothing.h",
    "galatea/args/pipeline.h",
    "galatea/args/prefix_sum.h",
    "galatea/args/random_access.h",
    "galatea/args/read_bandwidth.h",
    "galatea/args/read_chunks.h",
    "galatea/args/shared_updates.h",
    "galatea/args/sort_gather.h",
    "galatea/args/sort_histogram.h",
    "galatea/args/sort_pass.h",
    "galatea/args/window_bounds.h",
    "galatea/args/window_starts.h",
    "galatea/args/window_tree.h",
    "galatea/args/window_values.h",
    "galatea/aggregate.cuh",
    "galatea/arithmetic.cuh",
    "galatea/automaton.cuh",
    "galatea/bit_run.cuh",
    "galatea/block.cuh",
    "galatea/datetime.cuh",
    "galatea/decimal.cuh",
    "galatea/flow/board.cuh",
    "galatea/flow/catalogue.h",
    "galatea/flow/conclude.cuh",
    "galatea/flow/frame.cuh",
    "galatea/flow/inline.cuh",
    "galatea/flow/outbox.cuh",
    "galatea/flow/paging.cuh",
    "galatea/flow/run.cuh",
    "galatea/flow/topic.cuh",
    "galatea/flow/work.cuh",
    "galatea/grid.cuh",
    "galatea/hash_table.cuh",
    "galatea/heap.cuh",
    "galatea/heap/bits.cuh",
    "galatea/heap/bump.cuh",
    "galatea/heap/claim.cuh",
    "galatea/heap/collaborative.cuh",
    "galatea/heap/lanes.cuh",
    "galatea/heap/one_page.cuh",
    "galatea/heap/queue.cuh",
    "galatea/heap/random_walk.cuh",
    "galatea/heap/random_walk_bitmap.cuh",
    "galatea/heap/runs.cuh",
    "galatea/heap/view.cuh",
    "galatea/heap/window.cuh",
    "galatea/interned.cuh",
    "galatea/key_table.cuh",
    "galatea/kmeans/feature_sums.cuh",
    "galatea/kmeans/matrix.cuh",
    "galatea/kmeans/nearest.cuh",
    "galatea/kmeans/pass.cuh",
    "galatea/kmeans/points.cuh",
    "galatea/kmeans/quad_points.cuh",
    "galatea/kmeans/quad_sums.cuh",
    "galatea/kmeans/shared_tile.cuh",
    "galatea/kmeans/shared_tile_matrix.cuh",
    "galatea/kmeans/sums.cuh",
    "galatea/kmeans/update.cuh",
    "galatea/kmeans/wide.cuh",
    "galatea/kmeans/wide_sums.cuh",
    "galatea/link.cuh",
    "galatea/made_text.cuh",
    "galatea/mma.cuh",
    "galatea/morsel.cuh",
    "galatea/page_chain.cuh",
    "galatea/pairs.cuh",
    "galatea/partition.cuh",
    "galatea/prelude.cuh",
    "galatea/radix_sort.cuh",
    "galatea/small_text.cuh",
    "galatea/strings.cuh",
    "galatea/thread.cuh",
    "galatea/warp.cuh",
    "galatea/windows.cuh",
];

/// The headers as programs take them, digested once.
#[must_use]
pub fn headers() -> &'static Headers {
    static ALL: OnceLock<Headers> = OnceLock::new();
    ALL.get_or_init(|| Headers::new(HEADERS.iter().copied()))
}
