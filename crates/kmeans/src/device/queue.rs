//! Launches over chunks: passes of an iteration, iterations that share a launch, and chunks that the CPU
//! takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use galatea_device::{Event, In};
use galatea_kernels::kmeans::{Centroids, LabelWidth};
use galatea_kernels::{KmeansFit, KmeansPass, UpdateRule};

use super::DeviceRun;
use super::places::{Places, SLOTS};
use super::starts::Start;
use crate::Result;
use crate::share::{Split, share_of_cpu};

/// Launches that are queued ahead of the host.
const AHEAD: usize = 16;
/// Number of chunks whose labels are read back together.
const LABELLED: usize = 8;

/// Labels by chunk.
pub(super) struct ChunkLabels {
    pub(super) chunks: Vec<Vec<u8>>,
}

impl DeviceRun<'_> {
    /// Queues launches over the chunks at these positions: all passes of a start, then those of the next one,
    /// which uses the same memory for labels.
    fn launch(&mut self, passes: &[KmeansPass], positions: std::ops::Range<usize>) -> Result<()> {
        let table = self.table.buffer.as_ref().expect("written before launches");
        let most = self.points.most();
        for start in self.starts.iter_mut().filter(|start| start.active) {
            for pass in passes {
                start.launch(&self.on.compute, pass, table, positions.clone(), most)?;
            }
        }
        Ok(())
    }

    /// Queues passes over all chunks. All passes over the chunks of a launch precede the next launch. The
    /// labels of a single start are read back, chunk by chunk, into `labels`.
    pub(super) fn queue(
        &mut self,
        places: &mut Places<'_>,
        passes: &[KmeansPass],
        mut labels: Option<&mut ChunkLabels>,
        split: Option<&Split>,
    ) -> Result<()> {
        let on = self.on;
        // The CPU cannot take queued chunks, so few are queued ahead.
        let ahead = split.map_or(AHEAD, |_| SLOTS);
        let width = passes[0].shape().labels.map_or(0, LabelWidth::bytes);
        let most = self.points.most() as usize;
        let labelled = match self.labelled.take() {
            Some(labelled) if labelled.len() == LABELLED * most * width => labelled,
            _ => on.allocate("the labels of some chunks", LABELLED * most * width)?,
        };
        let base = labelled.address();
        self.write_table(places, |position| match width {
            0 => 0,
            _ => base + (position % LABELLED * most * width) as u64,
        })?;
        let count = places.order.len();
        let mut launched: VecDeque<Event> = VecDeque::new();
        let mut start = 0;
        while start < count {
            let ready = start < places.ready;
            let passes_through = places.pages[start].is_none();
            if passes_through && split.is_some_and(|split| !split.take_first()) {
                break;
            }
            // All resident chunks are in one launch. With labels, a launch has few chunks, because the buffer
            // of labels is small.
            let mut end = if ready { places.ready } else { start + 1 };
            if width > 0 {
                end = end.min((start / LABELLED + 1) * LABELLED);
            }
            if !ready {
                self.fetch(places, start)?;
            }
            self.launch(passes, start..end)?;
            if passes_through {
                let index = start % self.ring.len();
                self.ring[index].free = Some(on.compute.record()?);
            }
            launched.push_back(on.compute.record()?);
            if launched.len() > ahead
                && let Some(event) = launched.pop_front()
            {
                event.synchronize()?;
                if let Some(split) = split {
                    split.device_did_one();
                }
            }
            if let Some(labels) = labels.as_mut().filter(|_| end % LABELLED == 0 || end == count) {
                for position in end.saturating_sub(1) / LABELLED * LABELLED..end {
                    let chunk = places.order[position];
                    let bytes = self.points.chunks()[chunk].len * width;
                    let from = position % LABELLED * most * width;
                    let target = &mut labels.chunks[chunk];
                    target.resize(bytes, 0);
                    on.compute
                        .read_into(labelled.slice(from..from + bytes)?, target)?;
                }
            }
            start = end;
        }
        places.scan.used(&Arc::new(on.compute.record()?));
        self.labelled = Some(labelled);
        Ok(())
    }

    pub(super) fn queue_update(&mut self, rule: UpdateRule) -> Result<()> {
        for start in self.starts.iter_mut().filter(|start| start.active) {
            start.update(&self.on.compute, &self.on.update, rule)?;
        }
        Ok(())
    }

    /// Queues `most` iterations if all points are resident, otherwise one. In that one, chunks without pages
    /// are shared with the CPU if `cpu` has its centroids. Returns whether all points are resident.
    pub(super) fn queue_iterations(
        &mut self,
        most: u32,
        tolerance: f64,
        cpu: Option<&[Centroids]>,
    ) -> Result<bool> {
        let mut places = self.place()?;
        let resident = places.ready == places.order.len();
        if let Some(fit) = self.fit.clone().filter(|_| resident) {
            self.queue_fit(&places, &fit, most, tolerance)?;
            return Ok(true);
        }
        let passes = self.passes.clone();
        for _ in 0..if resident { most } else { 1 } {
            match cpu.filter(|_| !resident) {
                Some(centroids) => self.queue_shared(&mut places, centroids)?,
                None => self.queue(&mut places, &passes, None, None)?,
            }
            self.queue_update(UpdateRule::Means { tolerance })?;
        }
        Ok(resident)
    }

    /// Queues the iterations of each start in one launch, or in the fewest launches that hold all starts. All
    /// points must be resident.
    fn queue_fit(
        &mut self,
        places: &Places<'_>,
        fit: &KmeansFit,
        iterations: u32,
        tolerance: f64,
    ) -> Result<()> {
        self.write_table(places, |_| 0)?;
        let table = self.table.buffer.as_ref().expect("just written");
        let work = (self.points.most(), iterations);
        let stream = &self.on.compute;
        // Barriers of a start require the same number of blocks in all of its launches.
        let begun = &mut self.starts[..self.begun];
        for together in begun.chunks_mut(fit.most_starts()) {
            if together.iter().any(|start| start.active) {
                let memory = together.iter_mut().map(Start::memory).collect();
                fit.launch(stream, work, tolerance, In(table), memory)?;
            }
        }
        places.scan.used(&Arc::new(stream.record()?));
        Ok(())
    }

    /// Queues a pass. The CPU takes chunks without pages from the end, while the device takes them from the
    /// beginning.
    fn queue_shared(&mut self, places: &mut Places<'_>, centroids: &[Centroids]) -> Result<()> {
        let staying = places.pages.iter().filter(|page| page.is_some()).count();
        let split = Split::new(staying..places.order.len());
        let first = split.take_last(Duration::ZERO);
        let (points, order, passes) = (self.points, places.order.clone(), self.passes.clone());
        let active = self
            .starts
            .iter()
            .zip(centroids)
            .filter(|(start, _)| start.active);
        let centroids: Vec<&Centroids> = active.map(|(_, centroids)| centroids).collect();
        let (queued, (partials, chunks)) = std::thread::scope(|scope| {
            let cpu = scope.spawn(|| share_of_cpu(points, &order, &split, first, &centroids));
            let queued = self.queue(places, &passes, None, Some(&split));
            split.stop_if(queued.is_err());
            let of_cpu = cpu
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (queued, of_cpu)
        });
        queued?;
        self.cpu_chunks += chunks;
        let active = self.starts.iter_mut().filter(|start| start.active);
        for (start, partial) in active.zip(&partials) {
            start.add(&self.on.compute, &partial.words())?;
        }
        Ok(())
    }
}
