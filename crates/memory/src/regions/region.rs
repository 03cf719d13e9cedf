//! A cached region: its pages in device memory, their users, and its worth.

use super::ablation::{Ablated, Ablation};
use super::page::Page;
use super::replacement::{Candidate, HALF_LIFE};
use crate::Identity;
use galatea_device::{DeviceError, Event, Stream};
use std::sync::{Arc, Weak};

/// Number of launches of a region above which completed ones are removed.
const REMEMBERED_LAUNCHES: usize = 16;

/// A copy of some host data, page by page.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) source: Weak<Identity>,
    pub(super) name: String,
    /// Number of the region by creation: orders regions that are equally recent.
    pub(super) number: u64,
    pub(super) parts: Vec<Part>,
    /// Bytes of all pages.
    pub(super) bytes: u64,
    /// Incremented whenever a page is freed: earlier addresses are no longer valid.
    pub(super) generation: u64,
    /// Number of scans in progress that use addresses of the generation.
    pub(super) pins: u32,
    /// Number of scans that reference it by its key.
    pub(super) scans: u32,
    /// Number of scans so far.
    pub(super) uses: u64,
    /// Number of the last scan.
    pub(super) last: u64,
    /// The weights of uses; those before the last one count less the older they are.
    heat: f64,
    /// Launches that may still read pages.
    launches: Vec<Arc<Event>>,
}

/// A page slot of a region.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) source: Weak<Identity>,
    pub(super) bytes: u64,
    pub(super) page: Option<Arc<Page>>,
}

impl Region {
    pub(super) fn new(source: Weak<Identity>, name: String, number: u64, parts: Vec<Part>) -> Self {
        Self {
            source,
            name,
            number,
            bytes: parts.iter().map(|part| part.bytes).sum(),
            parts,
            generation: 0,
            pins: 0,
            scans: 0,
            uses: 0,
            last: 0,
            heat: 0.0,
            launches: Vec::new(),
        }
    }

    /// Counts a scan; `now` is its number among all scans, and `weight` the worth of its use.
    pub(super) fn touch(&mut self, now: u64, weight: f64) {
        self.heat = weight + self.worth(now);
        self.last = now;
        self.uses += 1;
    }

    /// The weights of uses; older ones count less.
    pub(super) fn worth(&self, now: u64) -> f64 {
        self.heat * (-(now.saturating_sub(self.last) as f64) / HALF_LIFE).exp2()
    }

    /// Whether an eviction would free memory.
    fn can_give(&self) -> bool {
        self.pins == 0 && self.parts.iter().any(Part::can_give)
    }

    /// Its figures for the replacement policy, if an eviction would free memory. `written`: whether its pages
    /// count as written.
    pub(super) fn candidate<K>(&self, key: K, now: u64, written: bool) -> Option<Candidate<K>> {
        self.can_give().then(|| Candidate {
            key,
            recency: (self.last, self.number),
            bytes: self.bytes_here(),
            dirty: if written { self.bytes_here() } else { 0 },
            uses: self.uses,
            worth: self.worth(now),
        })
    }

    /// Bytes in device memory.
    pub(super) fn bytes_here(&self) -> u64 {
        self.pages().map(|page| page.bytes()).sum()
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = &Arc<Page>> {
        self.parts.iter().filter_map(|part| part.page.as_ref())
    }

    /// Records a launch that reads pages.
    pub(super) fn used_by(&mut self, launch: &Arc<Event>) {
        // Completed events need no waiting; other calls report a failed device. A query of an event takes
        // half a microsecond, for each region that a launch reads.
        if self.launches.len() >= REMEMBERED_LAUNCHES {
            self.launches
                .retain(|launch| !launch.is_complete().unwrap_or(true));
        }
        self.launches.push(Arc::clone(launch));
    }

    /// Frees the last page that is not pinned, or all of them if regions are evicted as a whole. Returns the
    /// number.
    pub(super) fn give(&mut self, home: &Stream, ablated: &Ablated) -> Result<u64, DeviceError> {
        let mut given = 0;
        while self.give_one(home, ablated)? {
            given += 1;
            if !ablated.has(Ablation::WholeRegion) {
                break;
            }
        }
        Ok(given)
    }

    /// Frees one page: its memory is freed on `home` after the launches that read it.
    fn give_one(&mut self, home: &Stream, ablated: &Ablated) -> Result<bool, DeviceError> {
        let Some(part) = self.parts.iter_mut().rev().find(|part| part.can_give()) else {
            return Ok(false);
        };
        // Done before anything is freed: after a failure the page is still resident, with the launches that
        // read it.
        for launch in &self.launches {
            home.wait(launch)?;
        }
        self.launches.clear();
        if let Some(page) = part.page.as_ref().filter(|_| ablated.has(Ablation::NoAccess)) {
            page.copy_out(home, ablated)?;
        }
        self.generation += 1;
        part.page = None;
        Ok(true)
    }

    /// Drops pages of dropped originals, except for pinned ones: launches that read those may not be queued
    /// yet. Returns whether the region is still needed.
    pub(super) fn let_go(&mut self, home: &Stream, gone: &mut Vec<Arc<Page>>) -> bool {
        if self.pins > 0 {
            return true;
        }
        let dead = |part: &&mut Part| part.can_give() && part.source.strong_count() == 0;
        let pages = self
            .parts
            .iter_mut()
            .filter(dead)
            .filter_map(|part| part.page.take());
        let before = gone.len();
        gone.extend(pages);
        if gone.len() > before {
            self.generation += 1;
            for launch in self.launches.drain(..) {
                if home.wait(&launch).is_err() {
                    // Then the host waits. If it cannot, the device is lost, and order does not matter.
                    let _ = launch.synchronize();
                }
            }
        }
        self.scans > 0 || self.source.strong_count() > 0 || self.pages().next().is_some()
    }
}

impl Part {
    fn can_give(&self) -> bool {
        self.page.as_ref().is_some_and(|page| !page.is_pinned())
    }
}
