//! The region that is evicted first, policy by policy, and that pages are evicted one by one from the end of
//! a region.

use crate::{Column, here, load, own_device};
use galatea_memory::regions::{MemoryManager, Replacement, Source};

const PAGE: u64 = 4096;

/// Columns of these numbers of pages, loaded one after the other.
struct Regions {
    manager: MemoryManager,
    columns: Vec<Column>,
}

impl Regions {
    fn new(policy: Replacement, pages: &[usize]) -> Self {
        let device = own_device();
        let manager = MemoryManager::new(&device).unwrap();
        manager.set_replacement(policy);
        let stream = device.stream().unwrap();
        let columns: Vec<_> = (pages.iter().enumerate())
            .map(|(number, pages)| Column::of(&format!("column {number}"), *pages, PAGE as usize))
            .collect();
        columns.iter().for_each(|column| load(&manager, &stream, column));
        Self { manager, columns }
    }

    fn touch(&self, columns: impl IntoIterator<Item = usize>) {
        let columns = columns.into_iter().map(|number| &self.columns[number]);
        drop(self.manager.scan(columns));
    }

    fn pages(&self) -> Vec<usize> {
        let pages = |column| here(&self.manager, column).len();
        self.columns.iter().map(pages).collect()
    }

    /// Evicts one page. Returns the number of its column. The page is the column's last.
    fn evict(&self) -> Option<usize> {
        let before = self.pages();
        let gave = self.manager.evict_one().unwrap();
        let after = self.pages();
        let changed: Vec<_> = (0..before.len())
            .filter(|number| before[*number] != after[*number])
            .collect();
        assert_eq!(changed.len(), usize::from(gave), "one page: {before:?} {after:?}");
        let number = *changed.first()?;
        assert_eq!(
            after[number] + 1,
            before[number],
            "one page: {before:?} {after:?}"
        );
        let left: Vec<_> = (0..after[number]).collect();
        assert_eq!(here(&self.manager, &self.columns[number]), left, "from the end");
        assert_eq!(
            self.manager.bytes_of(&self.columns[number]),
            left.len() as u64 * PAGE
        );
        Some(number)
    }

    /// Evicts everything. Returns the order of the columns.
    fn order(&self) -> Vec<usize> {
        let order = std::iter::from_fn(|| self.evict()).collect();
        assert_eq!(self.manager.bytes(), 0);
        order
    }
}

#[test]
fn policies_evict_the_least_valuable_region() {
    // Columns 0, 1, 2 of 2 pages each; then the scans; the columns in the order of eviction of all their
    // pages.
    let table: [(Replacement, &[usize], [usize; 3]); 10] = [
        (Replacement::Lru, &[], [0, 1, 2]),
        (Replacement::Lru, &[0], [1, 2, 0]),
        (Replacement::Lru, &[2, 1, 1, 0], [2, 1, 0]),
        (Replacement::Mru, &[], [2, 1, 0]),
        (Replacement::Mru, &[0], [0, 2, 1]),
        (Replacement::Lfu, &[0, 0, 1], [2, 1, 0]),
        // Equal frequency: the least recently used.
        (Replacement::Lfu, &[2, 0], [1, 2, 0]),
        (Replacement::Frequency, &[], [0, 1, 2]),
        (Replacement::Frequency, &[0, 0, 1, 2], [1, 2, 0]),
        (Replacement::CostDriven { latency: 0.0 }, &[1, 0, 2], [1, 0, 2]),
    ];
    for (policy, scans, order) in table {
        let regions = Regions::new(policy, &[2, 2, 2]);
        scans.iter().for_each(|number| regions.touch([*number]));
        let expected: Vec<_> = order.iter().flat_map(|number| [*number, *number]).collect();
        assert_eq!(regions.order(), expected, "{policy:?} {scans:?}");
    }
}

/// Uses count half after 64 scans of any regions. For LFU they count in full for ever.
#[test]
fn old_uses_decay() {
    for (policy, expected) in [(Replacement::Frequency, 0), (Replacement::Lfu, 1)] {
        let regions = Regions::new(policy, &[1, 1]);
        for _ in 0..4 {
            regions.touch([0]);
        }
        regions.touch([1]);
        assert_eq!(regions.manager.regions()[0].uses, 5);
        for _ in 0..256 {
            regions.touch([]);
        }
        // Worth 5/16, compared with 2.
        regions.touch([1]);
        assert_eq!(regions.manager.regions()[0].idle, 258);
        assert_eq!(regions.evict(), Some(expected), "{policy:?}");
    }
}

/// c = e + f·s·l with e = 0: a large region is evicted before a small, less recently used one, until it is
/// small itself.
#[test]
fn cost_driven_replacement_weighs_size_by_recency_rank() {
    let latency = 0.01;
    let regions = Regions::new(Replacement::CostDriven { latency }, &[1, 5, 3, 1]);
    regions.touch([0]);
    // From least to most recently used.
    let recency = [1, 2, 3, 0];
    let mut pages = [1, 5, 3, 1];
    let mut expected = Vec::new();
    while pages.iter().any(|pages| *pages > 0) {
        let full: Vec<_> = recency.into_iter().filter(|number| pages[*number] > 0).collect();
        let cost = |rank: usize| {
            let place = (rank + 1) as f64 / full.len() as f64;
            latency * (pages[full[rank]] as u64 * PAGE) as f64 * place
        };
        let mut least = 0;
        for rank in 1..full.len() {
            if cost(rank) < cost(least) {
                least = rank;
            }
        }
        pages[full[least]] -= 1;
        expected.push(full[least]);
    }
    // Differs from the order by recency alone.
    assert_ne!(expected, [1, 1, 1, 1, 1, 2, 2, 2, 3, 0]);
    assert_eq!(regions.order(), expected);
}

/// Regions of one scan are equally recent. The first one to be evicted is always the same, and so are random
/// choices.
#[test]
fn eviction_order_is_deterministic() {
    let policies = [
        Replacement::Frequency,
        Replacement::Lru,
        Replacement::Mru,
        Replacement::Lfu,
        Replacement::Random,
        Replacement::CostDriven { latency: 0.01 },
    ];
    for policy in policies {
        let order = || {
            let regions = Regions::new(policy, &[2; 8]);
            regions.touch(0..8);
            regions.order()
        };
        let first = order();
        assert_eq!(first, order(), "{policy:?}");
        if policy == Replacement::Random {
            let mut sorted = first.clone();
            sorted.sort_unstable();
            assert_ne!(first, sorted, "not at random");
        }
    }
}

/// Loads `hot` and uses it `uses` times in total. Then scans `cold` once, with room for one page less than
/// both need. Returns the final number of resident pages of each, and the number of pages that the scan got.
fn admitted(policy: Replacement, uses: usize, scans_between: usize) -> (Vec<usize>, usize) {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    manager.set_replacement(policy);
    let stream = device.stream().unwrap();
    let (hot, cold) = (Column::of("hot", 4, 4096), Column::of("cold", 4, 4096));
    load(&manager, &stream, &hot);
    for _ in 1..uses {
        drop(manager.scan([&hot].into_iter()));
    }
    for _ in 0..scans_between {
        drop(manager.scan([].into_iter().take_while(|_: &&Column| true)));
    }
    // A thirty-second of the limit is left free.
    device.budget().set_limit(Some(7 * PAGE + PAGE / 2));
    let mut scan = manager.scan([&cold].into_iter());
    scan.pin();
    let pages: Vec<_> = (0..4)
        .filter_map(|index| scan.page(0, index, true).unwrap())
        .collect();
    // Working memory may still evict them.
    let got = pages.len();
    let left = vec![here(&manager, &hot).len(), here(&manager, &cold).len()];
    let available = device.budget().available();
    let wanted = available + left[0] as u64 * PAGE;
    assert!(manager.allocate(&stream, wanted).unwrap().is_some(), "{left:?}");
    assert!(
        manager.allocate(&stream, wanted + PAGE).unwrap().is_none(),
        "pinned"
    );
    assert_eq!(here(&manager, &cold).len(), got, "pinned");
    (left, got)
}

#[test]
fn scan_does_not_evict_more_valuable_regions() {
    for policy in [
        Replacement::Lru,
        Replacement::Mru,
        Replacement::Lfu,
        Replacement::Random,
    ] {
        assert_eq!(admitted(policy, 5, 0), (vec![3, 4], 4), "{policy:?}");
    }
    // Three full pages of memory are free beside the hot region, which keeps all its pages.
    assert_eq!(admitted(Replacement::Frequency, 5, 0), (vec![4, 3], 3));
    // Worth slightly less than the scan's own use.
    assert_eq!(admitted(Replacement::Frequency, 1, 0), (vec![3, 4], 4));
    // Worth less than the scan's own use after a while, with a margin.
    assert_eq!(admitted(Replacement::Frequency, 2, 80), (vec![4, 3], 3));
    assert_eq!(admitted(Replacement::Frequency, 2, 90), (vec![3, 4], 4));
}

/// A small region and a large one that are scanned in turn: the small one has all of its pages after some
/// rounds, although the large one was first.
#[test]
fn small_scans_keep_their_pages_beside_large_ones() {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let page = 1 << 20;
    let (small, large) = (Column::of("small", 4, page), Column::of("large", 40, page));
    // A thirty-second of the limit is left free: 42 pages fit.
    device
        .budget()
        .set_limit(Some(43 * page as u64 + page as u64 / 2));
    let scan = |column: &Column| {
        let mut scan = manager.scan([column].into_iter());
        scan.pin();
        let pages = (0..Source::pages(column)).filter_map(|index| scan.page(0, index, true).unwrap());
        pages.count()
    };
    assert_eq!(scan(&large), 40);
    for _ in 0..20 {
        scan(&large);
        scan(&small);
    }
    assert_eq!((scan(&small), scan(&large)), (4, 38));
}

/// Two regions that are scanned in turn, with memory for all of their pages but two: both scans find the
/// pages of the last round.
#[test]
fn scans_in_turn_do_not_evict_each_other() {
    let device = own_device();
    let manager = MemoryManager::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let columns = [Column::of("first", 4, 4096), Column::of("second", 4, 4096)];
    // A thirty-second of the limit is left free.
    device.budget().set_limit(Some(6 * PAGE + PAGE / 2));
    for round in 0..20 {
        for column in &columns {
            let missing = 4 - here(&manager, column).len();
            let mut scan = manager.scan([column].into_iter());
            scan.pin();
            let pages: Vec<_> = (0..4)
                .filter_map(|index| scan.page(0, index, true).unwrap())
                .collect();
            assert!(pages.len() >= 2, "round {round}");
            if round > 2 {
                assert_eq!(4 - pages.len(), missing, "round {round} evicted pages");
            }
        }
    }
    drop(stream);
    let resident: usize = columns.iter().map(|column| here(&manager, column).len()).sum();
    assert_eq!(resident, 6);
}

/// Regions that a scan has pinned, and pages pinned one by one, stay. The pages before a pinned one are
/// evicted.
#[test]
fn pinned_pages_are_not_evicted() {
    let regions = Regions::new(Replacement::Lru, &[3, 3]);
    let mut scan = regions.manager.scan([&regions.columns[0]].into_iter());
    scan.pin();
    let pin = scan.page(0, 2, false).unwrap().unwrap();
    let order: Vec<_> = std::iter::from_fn(|| regions.evict()).collect();
    assert_eq!(order, [1, 1, 1]);
    scan.release();
    let before = scan.addresses().to_vec();
    assert!(regions.manager.evict_one().unwrap());
    assert_eq!(here(&regions.manager, &regions.columns[0]), [0, 2]);
    regions.manager.clear().unwrap();
    assert_eq!(here(&regions.manager, &regions.columns[0]), [2]);
    let mut later = regions.manager.scan([&regions.columns[0]].into_iter());
    later.pin();
    assert_ne!(later.addresses(), before, "pages have gone");
    drop((later, pin, scan));
    assert_eq!(regions.evict_all(), 1);
}

impl Regions {
    fn evict_all(&self) -> u64 {
        let before = (self.manager.evicted(), self.manager.eviction_epoch());
        self.manager.clear().unwrap();
        assert_eq!(self.manager.bytes(), 0);
        let evicted = self.manager.evicted() - before.0;
        assert_eq!(
            self.manager.eviction_epoch() - before.1,
            evicted,
            "each was noticed"
        );
        evicted
    }
}
