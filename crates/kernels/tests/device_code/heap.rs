//! The device heap's headers: every page search for every target, and the definitions shared by both
//! languages.

use galatea_device::{ArgumentStruct, Nvrtc, Program, testing};
use galatea_kernels::heap::{
    GROUP_SUPERBLOCKS, HeapBuild, HeapView, MIN_PAGE_ROWS, PAGE_HEADER_WORDS, PageChain, PageChainsView,
    PageSearch, STATUS_WORDS, SUPERBLOCK_PAGES, SWEEP_BALANCES,
};
use galatea_kernels::{HeapCounts, KERNELS, headers};

use crate::compiles::{ARCHITECTURES, assert_compiles};

/// The kernels that contain a page search.
fn programs(build: HeapBuild) -> impl Iterator<Item = Program> {
    KERNELS
        .iter()
        .filter(|kernel| kernel.source.contains("heap_alloc(") || kernel.source.contains("heap_give("))
        .map(move |kernel| {
            let mut program = kernel.program();
            program.options.extend(build.options());
            program
        })
}

#[test]
fn nvrtc_compiles_every_page_search() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    for search in PageSearch::ALL {
        let plain = HeapBuild {
            search,
            ..HeapBuild::default()
        };
        let everything = HeapBuild {
            search,
            check: true,
            count: true,
        };
        for program in programs(plain) {
            for architecture in ARCHITECTURES {
                assert_compiles(&nvrtc, architecture, &program);
            }
        }
        for program in programs(everything) {
            assert_compiles(&nvrtc, ARCHITECTURES[0], &program);
        }
    }
}

#[test]
fn layouts_and_constants_agree() {
    let mut source: String = [HeapView::LAYOUT, PageChain::LAYOUT, PageChainsView::LAYOUT]
        .iter()
        .map(galatea_device::Layout::probe)
        .collect();
    source.push_str("#include \"galatea/args/heap_verify.h\"\n");
    for (constant, value) in [
        ("SUPERBLOCK_PAGES", SUPERBLOCK_PAGES),
        ("GROUP_SUPERBLOCKS", GROUP_SUPERBLOCKS),
        ("WARP * galatea::SWEEP_BALANCES", SWEEP_BALANCES),
        ("HEAP_STATUS_WORDS", STATUS_WORDS as u64),
        ("HEAP_VERIFIED_WORDS", HeapCounts::WORDS as u64),
        ("WARP", MIN_PAGE_ROWS),
    ] {
        source.push_str(&format!(
            "static_assert(galatea::{constant} == {value}, \"{constant}\");\n"
        ));
    }
    source.push_str(&format!(
        "static_assert(sizeof(galatea::PageHeader) == {}, \"header\");\n",
        8 * PAGE_HEADER_WORDS
    ));
    source.push_str("extern \"C\" __global__ void probe(unsigned long long) {}\n");
    let program = Program::new("heap_probe", source)
        .headers(headers())
        .entry("probe");
    assert_compiles(&Nvrtc::emulated().unwrap(), ARCHITECTURES[1], &program);
    if let Some(nvrtc) = testing::nvrtc() {
        assert_compiles(&nvrtc, ARCHITECTURES[1], &program);
    }
}
