//! The steps of the random test: their effects on the manager and on the model.

use super::operations::Operation;
use super::{Part, Pin, Region, Resident, Running, SLOTS, Spare, UNIT, WORDS, World, charge};
use crate::{Column, Original, peek};
use galatea_device::{DeviceBuffer, Stream};
use galatea_memory::regions::Replacement;
use std::sync::{Arc, Weak};

fn original(units: u8) -> Arc<Original> {
    // Some sizes are rounded up in device memory.
    let bytes = UNIT * u64::from(units) - 8 * u64::from(units % 2);
    Original::new(bytes as usize)
}

impl World<'_> {
    fn add_source(&mut self, pages: Vec<Arc<Original>>) {
        self.made += 1;
        self.sources
            .push(Column::new(&format!("column {}", self.made), pages));
    }

    fn drop_source(&mut self, at: usize) {
        let column = self.sources.swap_remove(at);
        let name = column.name.clone();
        let serials: Vec<_> = column.pages.iter().map(|page| page.serial).collect();
        drop(column);
        let region = self.regions.get_mut(&name);
        let told = region.is_some();
        if let Some(region) = region {
            region.live = false;
        }
        let told = told
            || serials
                .iter()
                .any(|serial| self.known.contains(serial) && !self.live(*serial));
        if told {
            self.sweep();
        }
    }

    fn scan(&mut self, choice: &[u8]) {
        if self.sources.is_empty() {
            return;
        }
        let chosen = choice
            .iter()
            .map(|at| &self.sources[*at as usize % self.sources.len()]);
        let sources: Vec<_> = chosen.collect();
        let mut scan = self.manager.scan(sources.iter().copied());
        scan.pin();
        for source in &sources {
            let parts = source.pages.iter().map(|page| Part {
                serial: page.serial,
                bytes: page.view.len() as u64,
                present: self.pages.contains_key(&page.serial),
            });
            let region = self.regions.entry(source.name.clone()).or_insert_with(|| Region {
                live: true,
                pins: 0,
                scans: 0,
                parts: parts.collect(),
            });
            region.pins += 1;
            region.scans += 1;
            self.known.extend(source.pages.iter().map(|page| page.serial));
        }
        self.scans.push(Running {
            scan,
            regions: sources.iter().map(|source| source.name.clone()).collect(),
            pins: Vec::new(),
            released: false,
            left: 0,
        });
    }

    fn take(&mut self, at: usize, region: usize, page: usize, make_room: bool) {
        let running = &self.scans[at];
        let (name, reserve) = (running.regions[region].clone(), self.reserve(running.left));
        let of = &self.regions[&name];
        let part = &of.parts[page];
        let (serial, bytes) = (part.serial, part.bytes);
        // A new page of a dropped source could not be filled.
        let make_room = make_room && of.live;
        let known = self.pages.get(&serial).map(|page| page.address);
        let taken = running.scan.page(region, page, make_room).unwrap();
        let available = self.device.budget().available();
        let Some(page_pin) = taken else {
            // The manager may have removed a page of a dropped original.
            assert!(known.is_none() || !self.live(serial), "it is there");
            if make_room {
                self.learn();
                assert!(available < charge(bytes) + reserve, "there is room");
                assert!(self.policy == Replacement::Frequency || !self.can_give());
            }
            return;
        };
        assert_eq!(page_pin.bytes(), bytes);
        match known {
            Some(address) => assert_eq!(page_pin.address(), address, "a second copy"),
            None => {
                assert!(
                    make_room && available >= reserve,
                    "{available} of {reserve} left free"
                );
                let copied = false;
                let address = page_pin.address();
                self.pages.insert(
                    serial,
                    Resident {
                        address,
                        bytes,
                        copied,
                    },
                );
            }
        }
        let originals = self.sources.iter().flat_map(|source| &source.pages);
        let original = originals.into_iter().find(|page| page.serial == serial);
        let original = original.map_or_else(Weak::new, Arc::downgrade);
        self.regions.get_mut(&name).unwrap().parts[page].present = true;
        self.scans[at].pins.push(Pin {
            page: page_pin,
            serial,
            original,
        });
        // Pages that were evicted for it may be requested next.
        self.learn();
    }

    fn read(&mut self, at: usize, pin: usize, stream: bool, keep: bool) {
        if self.pending.len() == SLOTS {
            self.settle();
        }
        let Running { scan, pins, .. } = &mut self.scans[at];
        let pinned = &pins[pin];
        let resident = self.pages.get_mut(&pinned.serial).unwrap();
        let original = pinned.original.upgrade();
        if original.is_none() && !resident.copied {
            return;
        }
        let copy = |stream: &Stream, target: &mut DeviceBuffer<u8>| {
            let original = original.expect("copied once");
            // Copies of pinned memory are still in progress when the call returns.
            self.device.pin(original.view.memory())?;
            stream.copy_to_device(target, &original.view)?;
            Ok(original.view.len() as u64)
        };
        let (event, bytes) = pinned
            .page
            .fetch(&self.transfers[usize::from(stream)], copy)
            .unwrap();
        assert_eq!(
            bytes,
            if resident.copied { 0 } else { resident.bytes },
            "copied once"
        );
        resident.copied = true;
        if let Some(event) = event {
            self.compute.wait(&event).unwrap();
        }
        let words = resident.bytes as usize / 8;
        let to = self.output.address() + (self.pending.len() * WORDS * 8) as u64;
        peek(self.peek, &self.compute, pinned.page.address(), to, 0, words);
        scan.used(&Arc::new(self.compute.record().unwrap()));
        self.pending.push((pinned.serial, words));
        if !keep {
            pins.swap_remove(pin);
        }
    }

    fn release(&mut self, at: usize) {
        let running = &mut self.scans[at];
        running.scan.release();
        if !std::mem::replace(&mut running.released, true) {
            for name in &running.regions {
                self.regions.get_mut(name).unwrap().pins -= 1;
            }
        }
    }

    fn drop_scan(&mut self, at: usize, pins_too: bool) {
        let mut running = self.scans.swap_remove(at);
        let pins = std::mem::take(&mut running.pins);
        if pins_too {
            drop(pins);
        } else {
            self.stray.extend(pins);
        }
        let mut dead = false;
        for name in &running.regions {
            let region = self.regions.get_mut(name).unwrap();
            region.pins -= usize::from(!running.released);
            region.scans -= 1;
            dead |= !region.live;
        }
        drop(running);
        if dead {
            self.sweep();
        }
    }

    fn allocate(&mut self, bytes: u64) {
        let fits = charge(bytes.max(1)) <= self.device.budget().available();
        let before = (self.manager.evicted(), self.spare_bytes());
        let memory = self.manager.allocate(&self.compute, bytes).unwrap();
        if fits {
            assert_eq!(
                before,
                (self.manager.evicted(), self.spare_bytes()),
                "for nothing"
            );
        }
        match memory {
            Some(buffer) => self.working.push(buffer),
            None => {
                self.learn();
                assert!(self.spare_bytes() == 0 && !self.can_give());
                assert!(charge(bytes.max(1)) > self.device.budget().available());
            }
        }
    }

    fn evict(&mut self) {
        let (spare, before) = (self.spare_bytes(), self.manager.evicted());
        let gave = self.manager.evict_one().unwrap();
        assert_eq!(self.manager.evicted() - before, u64::from(gave && spare == 0));
        assert!(
            spare == 0 || gave && self.spare_bytes() == 0,
            "the spare goes first"
        );
        self.learn();
        assert!(gave || !self.can_give());
    }

    pub(super) fn step(&mut self, operation: &Operation) {
        let of = |number: u8, count: usize| (count > 0).then(|| number as usize % count.max(1));
        match operation {
            Operation::NewSource(units) => {
                self.add_source(units.iter().map(|units| original(*units)).collect());
            }
            Operation::Version {
                of: number,
                drop,
                add,
            } => {
                if let Some(at) = of(*number, self.sources.len()) {
                    let mut pages = self.sources[at].pages.clone();
                    pages.truncate(pages.len().saturating_sub(*drop as usize));
                    pages.extend(add.iter().map(|units| original(*units)));
                    self.add_source(pages);
                }
            }
            Operation::DropSource(number) => {
                of(*number, self.sources.len())
                    .into_iter()
                    .for_each(|at| self.drop_source(at));
            }
            Operation::Scan(choice) => self.scan(choice),
            Operation::Policy(policy) => {
                self.policy = *policy;
                self.manager.set_replacement(*policy);
            }
            Operation::Limit(units) => {
                let limit = self.base + UNIT * u64::from(*units);
                self.device.budget().set_limit(Some(limit));
            }
            Operation::Settle => self.settle(),
            Operation::Allocate(bytes) => self.allocate(u64::from(*bytes)),
            Operation::Free(number) => {
                let at = of(*number, self.working.len());
                drop(at.map(|at| self.working.swap_remove(at)));
            }
            Operation::KeepSpare(number) => {
                if let Some(at) = of(*number, self.working.len()) {
                    let (buffer, token) = (self.working.swap_remove(at), Arc::new(()));
                    self.spare = Some((Arc::downgrade(&token), buffer.bytes()));
                    self.manager.keep_spare(Spare(buffer, token));
                }
            }
            Operation::TakeSpare => {
                let there = self.spare_bytes() > 0;
                assert!(self.manager.take_spare::<u64>(|_| true).is_none());
                assert!(self.manager.take_spare::<Spare>(|_| false).is_none());
                let spare = self.manager.take_spare::<Spare>(|_| true);
                assert_eq!(spare.is_some(), there);
                self.working.extend(spare.map(|Spare(buffer, _)| buffer));
            }
            Operation::Evict => self.evict(),
            Operation::Clear => {
                self.manager.clear().unwrap();
                self.learn();
                assert!(self.spare_bytes() == 0 && !self.can_give());
            }
            Operation::DropStray(number) => {
                let at = of(*number, self.stray.len());
                drop(at.map(|at| self.stray.swap_remove(at)));
            }
            Operation::Leave(scan, _)
            | Operation::Take { scan, .. }
            | Operation::TakeAll { scan, .. }
            | Operation::Read { scan, .. }
            | Operation::Unpin { scan, .. }
            | Operation::Release(scan)
            | Operation::DropScan { scan, .. } => {
                of(*scan, self.scans.len())
                    .into_iter()
                    .for_each(|at| self.step_of(at, operation));
            }
        }
    }

    /// A step of a scan.
    fn step_of(&mut self, at: usize, operation: &Operation) {
        let running = &mut self.scans[at];
        let of = |number: u8, count: usize| (count > 0).then(|| number as usize % count.max(1));
        let region = |number: u8| number as usize % running.regions.len();
        let pages = |number: u8| self.regions[&running.regions[region(number)]].parts.len();
        match *operation {
            Operation::Leave(_, units) => {
                running.left = u64::from(units) * UNIT;
                running.scan.leave(running.left);
            }
            Operation::Take {
                region: number,
                page,
                make_room,
                ..
            } => {
                let (region, page) = (region(number), of(page, pages(number)));
                page.into_iter()
                    .for_each(|page| self.take(at, region, page, make_room));
            }
            Operation::TakeAll {
                region: number,
                make_room,
                ..
            } => {
                let (region, pages) = (region(number), pages(number));
                (0..pages).for_each(|page| self.take(at, region, page, make_room));
            }
            Operation::Read {
                pin, stream, keep, ..
            } => {
                let pin = of(pin, running.pins.len());
                pin.into_iter().for_each(|pin| self.read(at, pin, stream, keep));
            }
            Operation::Unpin { pin, .. } => {
                let pin = of(pin, running.pins.len());
                drop(pin.map(|pin| running.pins.swap_remove(pin)));
            }
            Operation::Release(_) => self.release(at),
            Operation::DropScan { pins_too, .. } => self.drop_scan(at, pins_too),
            _ => unreachable!("not of a scan"),
        }
    }

    /// Drops everything and checks that nothing is left.
    pub(super) fn end(mut self) {
        while !self.scans.is_empty() {
            self.drop_scan(0, true);
            self.check();
        }
        self.stray.clear();
        self.working.clear();
        while !self.sources.is_empty() {
            self.drop_source(0);
            self.check();
        }
        self.settle();
        self.manager.clear().unwrap();
        assert_eq!(self.manager.bytes(), 0);
        assert_eq!(self.device.budget().used(), self.base);
        self.device.synchronize().unwrap();
        assert_eq!(self.device.memory_use().unwrap().pool_used, self.pool_base);
    }
}
