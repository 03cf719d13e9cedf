//! A cached region: which of its pages are in device memory, their users, and its worth.

use super::ablation::{Ablated, Ablation};
use super::page::Page;
use super::replacement::{Candidate, HALF_LIFE};
use crate::Identity;
use galatea_device::{DeviceError, Event, Stream};
use std::sync::{Arc, Weak};

/// Launches of a region from which on it is asked which have ended.
const REMEMBERED_LAUNCHES: usize = 16;

/// A copy of some host data, page by page.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) source: Weak<Identity>,
    pub(super) name: String,
    /// By the order in which regions were made: an order among those that are equally recent.
    pub(super) number: u64,
    pub(super) parts: Vec<Part>,
    /// Goes up whenever a page is freed: addresses taken before are no longer valid.
    pub(super) generation: u64,
    /// Scans under way that use addresses of the generation.
    pub(super) pins: u32,
    /// Scans that know it by its key.
    pub(super) scans: u32,
    /// Scans so far.
    pub(super) uses: u64,
    /// Number of the last one.
    pub(super) last: u64,
    /// Uses, those before the last one counted less the older they are.
    heat: f64,
    /// Launches that may still read pages.
    launches: Vec<Arc<Event>>,
}

/// A page's place in a region.
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

    /// Counts a scan, the `now`th of all.
    pub(super) fn touch(&mut self, now: u64) {
        self.heat = 1.0 + self.worth(now);
        self.last = now;
        self.uses += 1;
    }

    /// Uses, older ones counted less.
    pub(super) fn worth(&self, now: u64) -> f64 {
        self.heat * (-(now.saturating_sub(self.last) as f64) / HALF_LIFE).exp2()
    }

    /// Whether an eviction would free memory.
    fn can_give(&self) -> bool {
        self.pins == 0 && self.parts.iter().any(Part::can_give)
    }

    /// Its figures for the policy of replacement, if an eviction would free memory.
    /// `written`: whether its pages are taken for written.
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

    /// Notes a launch that reads pages.
    pub(super) fn used_by(&mut self, launch: &Arc<Event>) {
        // Events that have completed need no waiting for; a failed device is found elsewhere. Asking takes
        // half a microsecond, for each region that a launch reads.
        if self.launches.len() >= REMEMBERED_LAUNCHES {
            self.launches
                .retain(|launch| !launch.is_complete().unwrap_or(true));
        }
        self.launches.push(Arc::clone(launch));
    }

    /// Gives up the last page that is not pinned, or all of them where regions go as a whole; how many.
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

    /// Gives up one page: its memory is freed on `home` behind the launches that read it.
    fn give_one(&mut self, home: &Stream, ablated: &Ablated) -> Result<bool, DeviceError> {
        let Some(part) = self.parts.iter_mut().rev().find(|part| part.can_give()) else {
            return Ok(false);
        };
        // Before anything is given up: after a failure the page is still there, with the launches that read
        // it.
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

    /// Drops pages whose original was dropped, but for those that are pinned: launches that read
    /// them may be yet to come. Whether the region is still of use.
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
                    // Then the host waits. Where it cannot, the device is lost, and order does not matter.
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
