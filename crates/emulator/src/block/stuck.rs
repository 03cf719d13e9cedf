//! Reports of a block that cannot continue: the threads that wait, the places where they wait, and the
//! threads that they wait for.

use std::time::Duration;

use super::Runner;
use crate::abi::{LANES, barrier as barriers, collective as operations};
use crate::warp::lanes;

/// Describes a deadlocked block.
pub(super) fn deadlock(runner: &Runner) -> String {
    format!(
        "no thread can go on; {} of the block's threads have not exited; {}",
        runner.live,
        waiting(runner)
    )
}

/// Describes a block with threads that spin.
pub(super) fn stall(runner: &Runner, limit: Duration) -> String {
    let running: u32 = runner.warps.iter().map(|warp| warp.runnable.count_ones()).sum();
    format!(
        "no thread of the launch has exited for {limit:?}; in this block {} have not exited and {} of them are running; {}",
        runner.live,
        running + 1,
        waiting(runner)
    )
}

/// Lists waiting threads by the place where they wait, at most a dozen groups.
fn waiting(runner: &Runner) -> String {
    const MOST: usize = 12;
    let mut groups = Vec::new();
    for (index, warp) in runner.warps.iter().enumerate() {
        let mut left = warp.waiting;
        while left != 0 {
            let (operation, mask, site) = warp.wait_of(left.trailing_zeros() as usize);
            let alike = lanes(left)
                .filter(|&lane| {
                    let (other, other_mask, other_site) = warp.wait_of(lane);
                    other == operation && other_mask == mask && other_site.same(&site)
                })
                .fold(0_u32, |set, lane| set | 1 << lane);
            left &= !alike;
            let missing = mask & !warp.waiting & !warp.exited;
            groups.push(format!(
                "warp {index} lanes {alike:#010x} wait in {} at {site} for mask {mask:#010x} (missing {missing:#010x})",
                operations::name(operation)
            ));
        }
    }
    for (id, barrier) in runner.barriers.iter().enumerate() {
        if barrier.arrived == 0 {
            continue;
        }
        let named = barrier.kind == barriers::NAMED || barrier.kind == barriers::ARRIVE;
        let expected = if named { barrier.expected } else { runner.live };
        let number = if named { format!(" {id}") } else { String::new() };
        let missing = (0..LANES)
            .find_map(|warp| {
                let absent = !barrier.waiting[warp] & !runner.warps[warp].exited;
                (absent != 0)
                    .then(|| format!(", first missing: warp {warp} lane {}", absent.trailing_zeros()))
            })
            .unwrap_or_default();
        groups.push(format!(
            "{} of {expected} threads wait in {}{number} at {}{missing}",
            barrier.arrived,
            barriers::name(barrier.kind),
            barrier.site
        ));
    }
    let more = groups.len().saturating_sub(MOST);
    groups.truncate(MOST);
    if more > 0 {
        groups.push(format!("and {more} more groups"));
    }
    groups.join("; ")
}
