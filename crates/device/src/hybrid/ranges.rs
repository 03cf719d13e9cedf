//! The order of pages in the two memories of a range.

use super::PageOrder;

/// Number of consecutive pages with the same share on the device, if pages are interleaved.
const STRIPE: u64 = 32;

/// Ranges of pages in one memory: first page, number, and whether they are on the device.
pub(super) fn ranges(pages: u64, on_device: u64, order: PageOrder) -> Vec<(u64, u64, bool)> {
    let stripe = match order {
        PageOrder::DeviceFirst => pages,
        PageOrder::Interleaved => STRIPE,
    };
    let mut ranges = Vec::new();
    let (mut first, mut placed) = (0, 0);
    while first < pages {
        let end = (first + stripe).min(pages);
        // The device's share of all pages up to the end, rounded down.
        let until = (u128::from(end) * u128::from(on_device) / u128::from(pages)) as u64;
        let count = until - placed;
        for (start, count, of_device) in [(first, count, true), (first + count, end - first - count, false)] {
            if count > 0 {
                ranges.push((start, count, of_device));
            }
        }
        placed = until;
        first = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_placed_once_in_proportion() {
        for (pages, on_device) in [
            (1, 0),
            (1, 1),
            (31, 7),
            (32, 16),
            (33, 16),
            (1000, 333),
            (640, 640),
        ] {
            for order in [PageOrder::DeviceFirst, PageOrder::Interleaved] {
                let ranges = ranges(pages, on_device, order);
                let mut next = 0;
                for (first, count, _) in &ranges {
                    assert_eq!(*first, next);
                    next += count;
                }
                let placed: u64 = ranges.iter().filter(|range| range.2).map(|range| range.1).sum();
                assert_eq!((next, placed), (pages, on_device), "{order:?}");
                if order == PageOrder::Interleaved {
                    let share = on_device as f64 / pages as f64;
                    let stripes = ranges.iter().filter(|range| range.2 && range.0 + STRIPE <= pages);
                    for (_, count, _) in stripes {
                        assert!((*count as f64 - share * STRIPE as f64).abs() <= 1.0, "{ranges:?}");
                    }
                } else {
                    assert!(ranges.len() <= 2 && (on_device == 0 || ranges[0].2));
                }
            }
        }
    }
}
