//! The experiments, one function each.

use galatea_device::Out;
use galatea_experiments::heap::{queue_tas, queue_was};
use galatea_kernels::heap::PageSearch;
use galatea_memory::sizing::Pool;

use super::Experiment;
use super::bed::{Bed, Case, Outcome, Regime, Sizes, arguments_with};
use super::report::{AllocatorReport, Row};
use crate::Result;
use crate::harness::arguments;
use crate::result::Summary;

/// Shares of free pages in the paper's §5.2.1.
const SHARES: [f64; 4] = [0.5, 0.1, 0.01, 0.005];
/// The paper's page size.
const PAGE: u64 = 256;
/// The smallest unit of consecutive allocations.
const UNIT: u64 = 64;

const PAPER_SEARCHES: [PageSearch; 6] = [
    PageSearch::Window,
    PageSearch::RandomWalk,
    PageSearch::RandomWalkBitmap32,
    PageSearch::RandomWalkBitmap64,
    PageSearch::Collaborative32,
    PageSearch::Collaborative64,
];

pub(super) fn run(bed: &Bed, experiment: Experiment, report: &mut AllocatorReport) -> Result<()> {
    match experiment {
        Experiment::Contention => contention(bed, report),
        Experiment::Theory => {
            theory(report);
            Ok(())
        }
        Experiment::FreeShare => free_share(bed, report),
        Experiment::Scaling => scaling(bed, report),
        Experiment::Sizes => sizes(bed, report),
        Experiment::Mixed => mixed(bed, report),
        Experiment::Utilization => utilization(bed, report),
        Experiment::HashJoin => hash_join(bed, report),
    }
}

fn row(report: &AllocatorReport, experiment: Experiment, allocator: impl ToString, regime: &str) -> Row {
    Row::new(experiment, &allocator.to_string(), regime, &report.machine)
}

fn measured(report: &AllocatorReport, experiment: Experiment, case: Case, outcome: &Outcome) -> Row {
    let mut row = row(report, experiment, case.search, case.regime.name());
    row.size = match case.sizes {
        Sizes::Fixed(bytes) | Sizes::Mixed(bytes) => bytes,
    };
    row.threads = case.threads as u64;
    (row.pages, row.page_bytes) = (case.pages, case.page_bytes);
    row.free = if outcome.free > 0 {
        outcome.free
    } else {
        case.pages
    };
    row.set_allocate(outcome.allocate);
    row.set_release(outcome.release);
    row.served = outcome.served;
    row
}

fn null(bed: &Bed, report: &mut AllocatorReport, experiment: Experiment, threads: usize) -> Result<()> {
    let mut floor = row(report, experiment, "null kernel", "floor");
    floor.threads = threads as u64;
    floor.served = threads as u64;
    floor.set_allocate(bed.null(threads)?);
    report.rows.push(floor);
    Ok(())
}

/// Figure 1: atomic exchanges with one word by every thread, and by one thread of every warp.
fn contention(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    let word = bed.device.zeroed::<u64>(&bed.stream, 1)?;
    for &threads in &bed.extent.threads {
        null(bed, report, Experiment::Contention, threads)?;
        let out = bed.device.zeroed::<u64>(&bed.stream, threads)?;
        for (name, per_warp) in [("one word, every thread", 0), ("one word, every warp", 1)] {
            let kernel = bed.kernel(PageSearch::Window, "contend")?;
            let count = threads as u64;
            let arguments = arguments(&[word.address(), out.address(), count, per_warp]);
            let mut row = row(report, Experiment::Contention, name, "floor");
            row.threads = count;
            row.served = count;
            row.set_allocate(bed.clock.summary(|| bed.launch(&kernel, count, &arguments))?);
            report.rows.push(row);
        }
    }
    Ok(())
}

/// Figure 4: T = 10^6 and the paper's shares.
fn theory(report: &mut AllocatorReport) {
    const PAGES: u64 = 1_000_000;
    for share in [0.5, 0.1, 0.01, 0.007, 0.005] {
        for threads in (250..=5000).step_by(250) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a million"
            )]
            let free = (share * PAGES as f64).round() as u64;
            let pool = Pool {
                pages: PAGES,
                free,
                threads,
            };
            let mut push = |name: &str, tas: f64, was: f64| {
                let mut row = row(report, Experiment::Theory, name, "theory");
                (row.threads, row.pages, row.free) = (threads, PAGES, free);
                (row.tas, row.was) = (Some(tas), Some(was).filter(|was| was.is_finite()));
                report.rows.push(row);
            };
            push("RW", pool.tas(1), pool.was_bound(1));
            push("RW-BM32", pool.tas(32), pool.was_bound(32));
            push("RW-BM64", pool.tas(64), pool.was_bound(64));
            push("queue", queue_tas(&pool), queue_was(&pool));
        }
    }
}

/// Figure 7: few free pages at random positions, with one page per thread; and one thread for every free
/// page, down to the last.
fn free_share(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    for &pages in &bed.extent.pages {
        for share in SHARES {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of the pages"
            )]
            let most = (share * pages as f64 * 0.95) as usize;
            let threads = bed.extent.threads.iter().copied().chain([5000]);
            for threads in threads.filter(|threads| *threads <= most) {
                for search in PAPER_SEARCHES.into_iter().chain([PageSearch::Queue]) {
                    few_free(bed, report, search, Regime::Share(share), pages, threads)?;
                }
            }
            let all = bed.free_pages(pages, share)?;
            if bed.extent.threads.last().is_some_and(|most| all <= *most) {
                // The others take seconds for the last page.
                for search in [PageSearch::Window, PageSearch::Queue] {
                    few_free(bed, report, search, Regime::Drain(share), pages, all)?;
                }
            }
        }
    }
    Ok(())
}

fn few_free(
    bed: &Bed,
    report: &mut AllocatorReport,
    search: PageSearch,
    regime: Regime,
    pages: u64,
    threads: usize,
) -> Result<()> {
    let case = Case {
        search,
        regime,
        sizes: Sizes::Fixed(PAGE),
        threads,
        pages,
        page_bytes: PAGE,
    };
    let outcome = bed.measure(case, false)?;
    let steps = bed.measure(case, true)?;
    let mut row = measured(report, Experiment::FreeShare, case, &outcome);
    row.share = regime.share();
    (row.tas, row.was) = (steps.tas, steps.was);
    let width = match search {
        PageSearch::RandomWalk => 1,
        PageSearch::RandomWalkBitmap32 => 32,
        PageSearch::RandomWalkBitmap64 => 64,
        _ => 0,
    };
    if width > 0 && outcome.free >= threads as u64 {
        let pool = Pool {
            pages,
            free: outcome.free,
            threads: threads as u64,
        };
        row.expected_tas = Some(pool.tas(width));
        row.was_bound = Some(pool.was_bound(width)).filter(|bound| bound.is_finite());
    }
    report.rows.push(row);
    Ok(())
}

/// Searches in the experiments on time with plenty of memory.
const TIMED: [PageSearch; 7] = [
    PageSearch::Window,
    PageSearch::Bump,
    PageSearch::Queue,
    PageSearch::RandomWalkBitmap32,
    PageSearch::Collaborative32,
    PageSearch::RandomWalk,
    PageSearch::Runs,
];

/// Figure 8: threads, for some sizes. Each size has its own page size; RW_malloc has its unit.
fn scaling(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    let extent = &bed.extent;
    let sizes = extent
        .sizes
        .iter()
        .copied()
        .filter(|size| [16, 256, 1024, 8192].contains(size));
    for &threads in &extent.threads {
        null(bed, report, Experiment::Scaling, threads)?;
        for size in sizes.clone() {
            let searches = &TIMED;
            timed(
                bed,
                report,
                Experiment::Scaling,
                searches,
                Sizes::Fixed(size),
                threads,
            )?;
        }
    }
    Ok(())
}

/// Figure 9: sizes, for two numbers of threads. A page has the size of the request, as an engine would
/// configure it.
fn sizes(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    let threads = &bed.extent.threads;
    for &threads in [threads.get(threads.len() / 2), threads.last()]
        .into_iter()
        .flatten()
    {
        null(bed, report, Experiment::Sizes, threads)?;
        for &size in &bed.extent.sizes {
            let searches = &[
                PageSearch::Window,
                PageSearch::Bump,
                PageSearch::Queue,
                PageSearch::Runs,
            ];
            timed(
                bed,
                report,
                Experiment::Sizes,
                searches,
                Sizes::Fixed(size),
                threads,
            )?;
        }
    }
    Ok(())
}

/// Figure 10: sizes from 4 B to a bound in one launch: RW_malloc by its unit, pages with the size of the
/// bound.
fn mixed(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    for &threads in &bed.extent.threads {
        for &size in bed.extent.sizes.iter().filter(|size| **size >= 256) {
            let searches = &[PageSearch::Runs, PageSearch::Window];
            timed(
                bed,
                report,
                Experiment::Mixed,
                searches,
                Sizes::Mixed(size),
                threads,
            )?;
        }
    }
    Ok(())
}

/// Measures searches in both regimes, over a pool of the paper's size if it fits the requests.
fn timed(
    bed: &Bed,
    report: &mut AllocatorReport,
    experiment: Experiment,
    searches: &[PageSearch],
    sizes: Sizes,
    threads: usize,
) -> Result<()> {
    for &search in searches {
        for regime in [Regime::Warm, Regime::Hold] {
            let Some(case) = case(bed, search, regime, sizes, threads) else {
                continue;
            };
            let outcome = bed.measure(case, false)?;
            report.rows.push(measured(report, experiment, case, &outcome));
        }
    }
    Ok(())
}

/// The case of a pool of the paper's size; `None` if it does not fit the requests.
fn case(bed: &Bed, search: PageSearch, regime: Regime, sizes: Sizes, threads: usize) -> Option<Case> {
    let (Sizes::Fixed(bytes) | Sizes::Mixed(bytes)) = sizes;
    // The units are such that a request covers at most one word of the bitmap.
    let page_bytes = if search == PageSearch::Runs {
        UNIT.max(bytes / 64)
    } else {
        bytes.max(8).next_multiple_of(8)
    };
    // No experiment needs more pages.
    let pages = (bed.extent.pool_bytes / page_bytes).min(1 << 29);
    if threads as u64 * bytes.next_multiple_of(page_bytes) > pages * page_bytes {
        return None;
    }
    Some(Case {
        search,
        regime,
        sizes,
        threads,
        pages,
        page_bytes,
    })
}

/// Figure 11: the same request until one is refused; then the allocated share of the pool.
fn utilization(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    let pool = bed.extent.pool_bytes.min(64 << 20);
    let batch = bed.extent.threads[bed.extent.threads.len() / 2];
    for &power in bed.extent.sizes.iter().filter(|size| **size >= 16) {
        // Powers of two, and other sizes.
        for size in [power, power + power / 2 + 4] {
            for search in [PageSearch::Window, PageSearch::Runs] {
                let page_bytes = if search == PageSearch::Runs {
                    16
                } else {
                    size.next_multiple_of(8)
                };
                let pages = pool / page_bytes;
                let heap = bed.heap(search, pages, page_bytes, false)?;
                let kernel = galatea_kernels::HeapAllocate::new(&bed.device, heap.build())?;
                let mut addresses = bed.device.zeroed::<u64>(&bed.stream, batch)?;
                let mut served = 0;
                loop {
                    kernel.launch(&bed.stream, heap.view(), size, Out(&mut addresses))?;
                    let got = bed.stream.read(&addresses, ..)?;
                    let got = got.iter().filter(|address| **address != 0).count();
                    served += got as u64;
                    if got < batch {
                        break;
                    }
                }
                let mut row = row(report, Experiment::Utilization, search, "hold");
                (row.size, row.pages, row.free, row.served) = (size, pages, pages, served);
                row.page_bytes = page_bytes;
                row.threads = batch as u64;
                row.share = Some((served * size) as f64 / pool as f64);
                report.rows.push(row);
            }
        }
    }
    Ok(())
}

/// Figure 12: build and probe. Every probing thread with a match allocates a page for its result.
fn hash_join(bed: &Bed, report: &mut AllocatorReport) -> Result<()> {
    const OUTPUT: u64 = 64;
    for &rows in &bed.extent.join_rows {
        let capacity = (2 * rows).next_power_of_two();
        let words = usize::try_from(2 * capacity).unwrap_or(usize::MAX);
        let mut slots = bed.device.zeroed::<u64>(&bed.stream, words)?;
        let mut found = bed.device.zeroed::<u64>(&bed.stream, 1024)?;
        for search in [
            PageSearch::Bump,
            PageSearch::Queue,
            PageSearch::RandomWalk,
            PageSearch::RandomWalkBitmap32,
            PageSearch::Collaborative32,
            PageSearch::Window,
        ] {
            let (build, probe) = (
                bed.kernel(search, "join_build")?,
                bed.kernel(search, "join_probe")?,
            );
            let mut heap = bed.heap(search, bed.extent.join_pages, OUTPUT, false)?;
            let mut seconds = Vec::new();
            for _ in 0..bed.extent.runs {
                heap.reset(&bed.stream)?;
                bed.stream.fill(&mut slots, 0)?;
                bed.stream.fill(&mut found, 0)?;
                let view = heap.view();
                seconds.push(bed.clock.time(|| {
                    bed.launch(&build, rows, &arguments(&[slots.address(), capacity - 1, rows]))?;
                    let words = [slots.address(), found.address(), capacity - 1, rows, 2 * rows];
                    bed.launch(&probe, 2 * rows, &arguments_with(view, &words))
                })?);
            }
            let mut row = row(report, Experiment::HashJoin, search, "hold");
            (row.size, row.threads, row.pages) = (OUTPUT, 2 * rows, bed.extent.join_pages);
            (row.free, row.page_bytes) = (row.pages, OUTPUT);
            row.served = bed.stream.read(&found, ..)?.iter().sum();
            row.set_allocate(Summary::of(seconds));
            report.rows.push(row);
        }
    }
    Ok(())
}
