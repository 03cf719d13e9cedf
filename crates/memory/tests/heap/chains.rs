//! An unknown number of rows through chains of pages: no row is lost or duplicated, pages are filled, and all
//! pages are returned, even if the heap is exhausted at every possible point.

use galatea_device::{Device, DevicePointer, Function, Geometry, kernel_arguments};
use galatea_kernels::heap::{HeapBuild, PageChainsView, PageSearch};
use galatea_memory::{DeviceHeap, HeapError, HeapOptions, RowChains};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{emulated, kernel};

kernel_arguments! {
    /// Arguments of the producers below, which are not in the crate's list of kernels.
    struct ProduceArguments in "a test" {
        chains: PageChainsView,
        counts: DevicePointer<u32>,
        inputs: u64,
    }
}

/// Input i yields counts[i] rows (i * 100 + k, i, ...). One morsel is one input per thread. Warps append rows
/// as they find them.
fn producer(device: &Device, words: u32, build: HeapBuild) -> Function {
    let source = format!(
        r#"
#include "galatea/page_chain.cuh"
using namespace galatea;
struct Arguments {{ PageChainsView chains; const u32* counts; u64 inputs; }};
extern "C" __global__ void produce(const Arguments args) {{
    __shared__ ChainState state;
    ChainWriter<{words}> rows(args.chains, state);
    const u64 morsels = (args.inputs + blockDim.x - 1) / blockDim.x;
    for (u64 morsel = rows.first_morsel(blockIdx.x); morsel < morsels; morsel += gridDim.x) {{
        rows.begin_morsel();
        const u64 input = morsel * blockDim.x + threadIdx.x;
        const u32 count = input < args.inputs ? args.counts[input] : 0;
        const u32 mask = first_lanes(live_lanes());
        for (u32 k = 0; __any_sync(mask, k < count); ++k) {{
            u64 row[{words}];
            for (u32 i = 0; i < {words}; ++i) row[i] = i == 0 ? input * 100 + k : input + i;
            rows.append(mask, k < count, row);
        }}
        if (!rows.end_morsel(morsel)) return;
    }}
    rows.finish(morsels);
}}
"#
    );
    kernel(device, "produce", &source, build)
}

struct Case {
    seed: u64,
    words: u32,
    block: u32,
    blocks: u32,
    page_rows: u64,
    pages: u64,
    counts: Vec<u32>,
}

impl Case {
    fn name(&self) -> String {
        format!(
            "seed {}, {} words, {} blocks of {}, {} pages of {} rows, {} inputs",
            self.seed,
            self.words,
            self.blocks,
            self.block,
            self.pages,
            self.page_rows,
            self.counts.len()
        )
    }

    /// Runs the producer to the end, and gathers whenever the heap is exhausted. Returns the number of
    /// gathers.
    fn check(&self, device: &Device, search: PageSearch) -> usize {
        let case = self.name();
        let stream = device.stream().unwrap();
        let page_bytes = 8 * (2 + self.page_rows * u64::from(self.words));
        let options = HeapOptions::pages_of(page_bytes).search(search).checked();
        let heap = DeviceHeap::new(device, &stream, self.pages * page_bytes, options).unwrap();
        let mut chains = RowChains::new(device, &stream, &heap, self.words, self.blocks).unwrap();
        let produce = producer(device, self.words, heap.build());
        let counts = device.upload(&stream, &self.counts).unwrap();
        let mut found = Vec::new();
        let mut stops = 0;
        loop {
            let arguments = ProduceArguments {
                chains: chains.view(&heap, stops > 0),
                counts: DevicePointer::new(counts.address()),
                inputs: self.counts.len() as u64,
            };
            produce
                .launch(&stream, Geometry::new(self.blocks, self.block), &arguments)
                .unwrap();
            let (blocks, rows) = chains.stopped(&stream).unwrap();
            let list = chains.read(&stream).unwrap();
            let used = self.pages - heap.verify(device, &stream).unwrap().free;
            let filled: u64 = list.iter().map(|chain| chain.rows.div_ceil(self.page_rows)).sum();
            assert_eq!(used, filled, "pages are not filled: {case}");
            let gathered = chains.gather(device, &stream, &heap).unwrap();
            let values = stream.read(&gathered.columns, ..).unwrap();
            for row in 0..gathered.rows {
                let first = values[row];
                for word in 1..self.words as usize {
                    let expected = first / 100 + word as u64;
                    assert_eq!(values[word * gathered.rows + row], expected, "torn row: {case}");
                }
                found.push(first);
            }
            let counts = heap.verify(device, &stream).unwrap();
            assert_eq!(
                (counts.free, counts.wrong_balances, counts.unannounced),
                (self.pages, 0, 0),
                "pages lost: {case}"
            );
            assert!(!heap.statistics(&stream).unwrap().faults.any(), "{case}");
            if blocks == 0 {
                assert_eq!(rows, 0, "{case}");
                break;
            }
            assert!(rows > 0, "{case}");
            stops += 1;
            assert!(stops < 10_000, "no progress: {case}");
        }
        found.sort_unstable();
        let expected: Vec<u64> = self
            .counts
            .iter()
            .zip(0..)
            .flat_map(|(count, input)| (0..u64::from(*count)).map(move |k| input * 100 + k))
            .collect();
        assert_eq!(found, expected, "{case}");
        stops
    }
}

#[test]
fn rows_are_stored_at_boundary_counts() {
    for seed in [0, 1, 2] {
        let device = emulated(seed);
        for words in [1, 3] {
            for block in [32, 96] {
                let morsel = block as usize;
                for rows in [0, 1, 31, 32, 33, morsel - 1, morsel, morsel + 1, 5 * morsel + 7] {
                    let case = Case {
                        seed,
                        words,
                        block,
                        blocks: 2,
                        page_rows: 37,
                        pages: 64,
                        counts: vec![1; rows],
                    };
                    assert_eq!(case.check(&device, PageSearch::Window), 0, "{}", case.name());
                }
            }
        }
    }
}

#[test]
fn skewed_rows_are_stored_and_fill_pages() {
    for seed in [1, 2, 3, 4] {
        let device = emulated(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        for search in [
            PageSearch::Window,
            PageSearch::RandomWalkBitmap64,
            PageSearch::Queue,
        ] {
            let skew = [0u32, 0, 0, 1, 2, 40];
            let counts = (0..700)
                .map(|_| skew[random.random_range(0..skew.len())])
                .collect();
            let case = Case {
                seed,
                words: 2,
                block: 128,
                blocks: 3,
                page_rows: random.random_range(32..80),
                pages: 400,
                counts,
            };
            assert_eq!(case.check(&device, search), 0, "{}", case.name());
        }
    }
}

/// Heaps of a few pages: blocks stop, the host drains, blocks resume. No row is lost or duplicated.
#[test]
fn no_rows_are_lost_when_the_heap_is_exhausted() {
    let mut stops = 0;
    for seed in 1..=6 {
        let device = emulated(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..4 {
            let block = [32, 64, 128][random.random_range(0..3)];
            // One block's morsel must fit into the pages that the others do not hold. This is the most rows
            // of a morsel.
            let most = 3;
            let page_rows = random.random_range(32..50);
            let tile_pages = (block as u64 * u64::from(most)).div_ceil(page_rows);
            let case = Case {
                seed,
                words: random.random_range(1..4),
                block,
                blocks: random.random_range(1..4),
                page_rows,
                pages: tile_pages + random.random_range(0..5),
                counts: (0..random.random_range(1..1500))
                    .map(|_| random.random_range(0..=most))
                    .collect(),
            };
            stops += case.check(&device, PageSearch::Window);
        }
    }
    assert!(stops > 20, "only {stops} stops: the test exercises nothing");
}

/// Several launches write into the same chains: each continues to fill the last pages.
#[test]
fn launches_continue_chains() {
    let device = emulated(5);
    let stream = device.stream().unwrap();
    let options = HeapOptions::pages_of(8 * (2 + 2 * 40)).checked();
    let heap = DeviceHeap::new(&device, &stream, 100 * options.page_bytes, options).unwrap();
    let mut chains = RowChains::new(&device, &stream, &heap, 2, 2).unwrap();
    let produce = producer(&device, 2, heap.build());
    let counts = device.upload(&stream, &[1u32; 50]).unwrap();
    for launch in 1..=7u64 {
        let arguments = ProduceArguments {
            chains: chains.view(&heap, false),
            counts: DevicePointer::new(counts.address()),
            inputs: 50,
        };
        produce
            .launch(&stream, Geometry::new(2u32, 32u32), &arguments)
            .unwrap();
        let list = chains.read(&stream).unwrap();
        let rows: Vec<u64> = list.iter().map(|chain| chain.rows).collect();
        assert_eq!(rows, [launch * 32, launch * 18]);
        let used = 100 - heap.verify(&device, &stream).unwrap().free;
        assert_eq!(used, rows.iter().map(|rows| rows.div_ceil(40)).sum::<u64>());
    }
    let gathered = chains.gather(&device, &stream, &heap).unwrap();
    assert_eq!(gathered.rows, 350);
    // The first column, chain after chain, each in the order of its launches.
    let first = stream.read(&gathered.columns, ..350).unwrap();
    let expected: Vec<u64> = (0..7)
        .flat_map(|_| 0..32)
        .chain((0..7).flat_map(|_| 32..50))
        .map(|i| i * 100)
        .collect();
    assert_eq!(first, expected);
    assert_eq!(chains.gather(&device, &stream, &heap).unwrap().rows, 0);
}

#[test]
fn pages_too_small_for_a_warp_are_refused() {
    let device = emulated(2);
    let stream = device.stream().unwrap();
    let heap = DeviceHeap::new(&device, &stream, 1 << 16, HeapOptions::pages_of(1024)).unwrap();
    assert!(RowChains::new(&device, &stream, &heap, 3, 1).is_ok());
    let error = RowChains::new(&device, &stream, &heap, 4, 1).unwrap_err();
    assert!(
        matches!(
            error,
            HeapError::RowsPerPage {
                rows: 31,
                least: 32,
                needed: 1040,
                ..
            }
        ),
        "{error}"
    );
}
