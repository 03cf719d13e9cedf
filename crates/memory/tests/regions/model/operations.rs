//! The operations of the random test of the manager, and their frequencies.

use galatea_memory::regions::Replacement;
use proptest::prelude::*;

/// A step. Numbers are taken modulo the number of choices.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// Creates a column of pages of these sizes, in units of 512 bytes.
    NewSource(Vec<u8>),
    /// Creates a version of a column: without its last pages, with new ones.
    Version {
        of: u8,
        drop: u8,
        add: Vec<u8>,
    },
    DropSource(u8),
    /// Begins a scan, of some sources possibly twice.
    Scan(Vec<u8>),
    /// Sets the number of units that pages of a scan leave free.
    Leave(u8, u8),
    Take {
        scan: u8,
        region: u8,
        page: u8,
        make_room: bool,
    },
    /// Takes every page of a scan's region.
    TakeAll {
        scan: u8,
        region: u8,
        make_room: bool,
    },
    /// Fetches a pinned page, launches a kernel that reads it, records the launch, and may drop the pin.
    Read {
        scan: u8,
        pin: u8,
        stream: bool,
        keep: bool,
    },
    Unpin {
        scan: u8,
        pin: u8,
    },
    Release(u8),
    /// Ends a scan. Its pins are dropped first or kept.
    DropScan {
        scan: u8,
        pins_too: bool,
    },
    DropStray(u8),
    /// Allocates working memory of that number of bytes.
    Allocate(u16),
    Free(u8),
    KeepSpare(u8),
    TakeSpare,
    Evict,
    Clear,
    Policy(Replacement),
    /// Sets the limit in units of 512 bytes.
    Limit(u8),
    /// Waits for the device, and checks the words that kernels have read.
    Settle,
}

fn sizes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1..8_u8, 0..=most)
}

fn policy() -> impl Strategy<Value = Replacement> {
    prop_oneof![
        Just(Replacement::Frequency),
        Just(Replacement::Lru),
        Just(Replacement::Mru),
        Just(Replacement::Lfu),
        Just(Replacement::Random),
        Just(Replacement::CostDriven { latency: 0.01 }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{
        Allocate, Clear, DropScan, DropSource, DropStray, Evict, Free, KeepSpare, Leave, Limit, NewSource,
        Policy, Read, Release, Scan, Settle, Take, TakeAll, TakeSpare, Unpin, Version,
    };
    let version = (any::<u8>(), 0..3_u8, sizes(2));
    let take = (any::<u8>(), any::<u8>(), any::<u8>(), prop::bool::weighted(0.8));
    let all = (any::<u8>(), any::<u8>(), prop::bool::weighted(0.9));
    let read = (any::<u8>(), any::<u8>(), any::<bool>(), any::<bool>());
    prop_oneof![
        4 => sizes(5).prop_map(NewSource),
        4 => version.prop_map(|(of, drop, add)| Version { of, drop, add }),
        3 => any::<u8>().prop_map(DropSource),
        8 => prop::collection::vec(any::<u8>(), 1..4).prop_map(Scan),
        1 => (any::<u8>(), 0..20_u8).prop_map(|(scan, units)| Leave(scan, units)),
        10 => take.prop_map(|(scan, region, page, make_room)| Take { scan, region, page, make_room }),
        8 => all.prop_map(|(scan, region, make_room)| TakeAll { scan, region, make_room }),
        16 => read.prop_map(|(scan, pin, stream, keep)| Read { scan, pin, stream, keep }),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(scan, pin)| Unpin { scan, pin }),
        4 => any::<u8>().prop_map(Release),
        6 => (any::<u8>(), prop::bool::weighted(0.8)).prop_map(|(scan, pins_too)| DropScan { scan, pins_too }),
        2 => any::<u8>().prop_map(DropStray),
        4 => (0..20_000_u16).prop_map(Allocate),
        3 => any::<u8>().prop_map(Free),
        1 => any::<u8>().prop_map(KeepSpare),
        1 => Just(TakeSpare),
        3 => Just(Evict),
        1 => Just(Clear),
        2 => policy().prop_map(Policy),
        2 => (8..100_u8).prop_map(Limit),
        2 => Just(Settle),
    ]
}

/// Steps of a case.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 1..90)
}
