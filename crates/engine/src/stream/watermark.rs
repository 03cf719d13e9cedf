//! Open windows, late rows, and the completion of windows.
//!
//! The *watermark* is the greatest time so far minus the allowed lateness. A window is over when it precedes
//! the watermark's window. A row is late, and dropped, if its window was over when the row arrived. This
//! depends only on the rows before it, not on their division into frames.
//!
//! A window occupies a position in the ring of tables from its first row until its groups have been
//! published. Rows of a window with an occupied position wait: the window that occupies it is over, since a
//! ring has positions for all windows that can be open at once.

use super::plan::Window;
use std::collections::BTreeMap;
use std::ops::Range;

/// The watermark and the open windows.
#[derive(Debug)]
pub(super) struct Watermark {
    window: Window,
    lateness: i64,
    tables: i64,
    /// For all rows that were examined: windows before this one are over.
    admitted: Over,
    /// The same for rows that were sent.
    sent: Over,
    /// Windows with rows on the device, and the last frame with rows of each. `None`: rows without time.
    open: BTreeMap<Option<i64>, u64>,
    /// Windows that are being published, by number, and the last frame of each.
    published: BTreeMap<Option<i64>, u64>,
    /// The window of the previous time, and its range of times.
    last: Option<(i64, Range<i64>)>,
    /// The window and the frame of the last accepted row.
    taken: Option<(Option<i64>, u64)>,
}

/// The first window that is not over.
#[derive(Debug, Default, Clone, Copy)]
struct Over {
    latest: Option<i64>,
    first: Option<i64>,
}

impl Over {
    /// Advances to a time.
    fn advance(&mut self, time: i64, window: &Window, lateness: i64) {
        if self.latest.is_none_or(|latest| latest < time) {
            self.latest = Some(time);
            let first = window.number(time.saturating_sub(lateness));
            self.first = self.first.max(first);
        }
    }

    fn includes(self, number: i64) -> bool {
        self.first.is_some_and(|first| number < first)
    }
}

impl Watermark {
    /// The initial state, for a ring of `tables` tables.
    pub(super) fn new(window: Window, lateness: i64, tables: u64) -> Self {
        Self {
            window,
            lateness,
            tables: tables as i64,
            admitted: Over::default(),
            sent: Over::default(),
            open: BTreeMap::new(),
            published: BTreeMap::new(),
            last: None,
            taken: None,
        }
    }

    /// The window of a time.
    fn number(&mut self, time: i64) -> Option<i64> {
        if let Some((number, times)) = &self.last
            && times.contains(&time)
        {
            return Some(*number);
        }
        let number = self.window.number(time)?;
        let start = self.window.start(number);
        self.last = Some((number, start..start.saturating_add(self.window.stride)));
        Some(number)
    }

    /// Examines the next row, and returns whether it is late.
    pub(super) fn is_late(&mut self, time: Option<i64>) -> bool {
        let Some(time) = time else { return false };
        let Some(number) = self.number(time) else {
            return false;
        };
        let late = self.admitted.includes(number);
        let same = self.admitted.latest.is_some_and(|latest| time <= latest);
        if !same {
            self.admitted.advance(time, &self.window, self.lateness);
        }
        late
    }

    /// Accepts a row for frame `frame`. Returns false if the position of its window is occupied.
    pub(super) fn take(&mut self, time: Option<i64>, frame: u64) -> bool {
        let number = match time {
            Some(time) => {
                if self.sent.latest.is_none_or(|latest| latest < time) {
                    self.sent.advance(time, &self.window, self.lateness);
                }
                self.number(time)
            }
            None => None,
        };
        if self.taken == Some((number, frame)) {
            return true;
        }
        self.taken = None;
        if let Some(last) = self.open.get_mut(&number) {
            *last = frame;
            self.taken = Some((number, frame));
            return true;
        }
        if number.is_some_and(|number| self.is_taken(number)) {
            return false;
        }
        self.open.insert(number, frame);
        true
    }

    /// Whether another window occupies the table of this one, or the window is being published itself.
    fn is_taken(&self, number: i64) -> bool {
        let place = |other: &i64| other.rem_euclid(self.tables) == number.rem_euclid(self.tables);
        let numbers = self.open.keys().chain(self.published.keys());
        numbers.flatten().any(place)
    }

    /// The first window that is over and has all of its frames among the `back` returned ones. Once `ended`,
    /// all windows are over.
    pub(super) fn complete(&self, back: u64, ended: bool) -> Option<Option<i64>> {
        let over = |number: &Option<i64>| ended || number.is_some_and(|number| self.sent.includes(number));
        // NULL is less than every number, but is published last.
        let numbered = self.open.range(Some(i64::MIN)..);
        let null = self.open.range(..=None);
        let (number, frame) = numbered.chain(null).next()?;
        (over(number) && *frame < back).then_some(*number)
    }

    /// Whether a window is over but some of its frames have not returned.
    pub(super) fn waits(&self, ended: bool) -> bool {
        let first = self.open.range(Some(i64::MIN)..).next();
        ended && !self.open.is_empty()
            || first.is_some_and(|(number, _)| number.is_some_and(|number| self.sent.includes(number)))
    }

    /// Records that a window is published by frames up to `frame`.
    pub(super) fn publish(&mut self, number: Option<i64>, frame: u64) {
        self.open.remove(&number);
        self.published.insert(number, frame);
    }

    /// Frees the tables of windows that have been published, given that the first `back` frames have
    /// returned.
    pub(super) fn free(&mut self, back: u64) {
        self.published.retain(|_, frame| *frame >= back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        key: 0,
        time: 0,
        stride: 10,
        origin: 3,
        nanoseconds: 1_000_000,
        checked: true,
    };

    #[test]
    fn window_numbers_are_negative_before_the_origin() {
        for time in -100..100 {
            let number = WINDOW.number(time).expect("it fits");
            let start = WINDOW.start(number);
            assert!((start..start + 10).contains(&time), "{time}: {start}");
            assert_eq!((start - 3).rem_euclid(10), 0);
        }
        // In nanoseconds it exceeds 64 bits.
        assert_eq!(WINDOW.number(i64::MAX / 1000), None);
    }

    #[test]
    fn lateness_is_relative_to_greatest_preceding_time() {
        let mut watermark = Watermark::new(WINDOW, 5, 4);
        let late: Vec<bool> = [13, 20, 12, 28, 13, 12, 35, 22, 38]
            .map(|time| watermark.is_late(Some(time)))
            .to_vec();
        // 28 minus 5 is in the window that starts at 23; 35 minus 5 still is.
        assert_eq!(late, [false, false, true, false, true, true, false, true, false]);
        assert!(!watermark.is_late(None));
    }

    #[test]
    fn windows_complete_after_watermark_and_returned_frames() {
        let mut watermark = Watermark::new(WINDOW, 0, 2);
        assert!(watermark.take(Some(5), 0) && watermark.take(None, 0) && watermark.take(Some(14), 1));
        assert!(watermark.waits(false));
        assert_eq!(watermark.complete(0, false), None);
        assert_eq!(watermark.complete(1, false), Some(Some(0)));
        // The table of window 0 is occupied until its last command has returned.
        assert!(!watermark.take(Some(25), 2));
        watermark.publish(Some(0), 3);
        assert!(!watermark.take(Some(25), 4));
        watermark.free(4);
        assert!(watermark.take(Some(25), 4));
        assert_eq!(watermark.complete(5, false), Some(Some(1)));
        watermark.publish(Some(1), 6);
        assert_eq!(watermark.complete(7, false), None);
        assert_eq!(watermark.complete(7, true), Some(Some(2)));
        watermark.publish(Some(2), 7);
        assert_eq!(watermark.complete(8, true), Some(None));
        watermark.publish(None, 8);
        assert_eq!(watermark.complete(9, true), None);
        assert!(!watermark.waits(true));
    }
}
