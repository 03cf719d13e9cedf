//! Passes on the device.
//!
//! Points are a region of the memory manager, a page a chunk. A pass launches over all chunks whose pages are there, while the others
//! arrive, each with a launch of its own: in pages as far as there is room, through a ring of slots otherwise (thesis §5.4). Sums
//! stay in device memory over all launches of a pass (KM-18); the update moves the centroids there, and only its state comes back. While
//! everything is resident, several iterations are queued at once: once one has converged, those behind it do nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use bytemuck::Pod;
use galatea_device::{Device, DeviceBuffer, DeviceError, Event, In, InOut, Out, Stream};
use galatea_kernels::kmeans::{CHUNK_WORDS, Centroids, LabelWidth, PassShape};
use galatea_kernels::{KmeansPass, KmeansState, KmeansUpdate, PassMemory, UpdateRule};
use galatea_layout::model::Machine;
use galatea_memory::regions::{MemoryManager, PagePin, Scan, Source};

use crate::choose::choose;
use crate::estimator::{Finish, Iterations, Monitor, Processor, Rule};
use crate::labels::Labels;
use crate::points::Chunk;
use crate::{KMeans, KMeansError, Points, Result};

/// Slots that chunks without pages pass through: one computed on, two copied, one waiting.
const SLOTS: usize = 4;
/// Launches that are queued ahead of the host.
const AHEAD: usize = 16;
/// Iterations that are queued at once at most.
const BATCH: u32 = 16;
/// Bytes of partial sums at most: blocks share slots beyond.
const PARTIAL_BYTES: u64 = 32 << 20;
/// Chunks whose labels come back together.
const LABELLED: usize = 8;

/// A device that clusters.
#[derive(Debug)]
pub struct DeviceKMeans<'m> {
    manager: &'m MemoryManager,
    machine: Machine,
    update: KmeansUpdate,
    compute: Stream,
    transfer: [Stream; 2],
    keep: bool,
}

impl<'m> DeviceKMeans<'m> {
    /// On a manager's device, whose figures the model takes from `machine`.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(manager: &'m MemoryManager, machine: Machine) -> Result<Self> {
        let device = manager.device();
        Ok(Self {
            manager,
            machine,
            update: KmeansUpdate::new(device)?,
            compute: device.stream()?,
            transfer: [device.stream()?, device.stream()?],
            keep: true,
        })
    }

    /// Makes no pages of points: all that is not there already passes through slots, in every pass (KM-20).
    #[must_use]
    pub fn without_pages(mut self) -> Self {
        self.keep = false;
        self
    }

    /// The stream that kernels run in.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.compute
    }

    fn device(&self) -> &Device {
        self.manager.device()
    }

    /// Memory of a run, for which pages give way.
    fn allocate<T: Pod>(&self, what: &'static str, len: usize) -> Result<DeviceBuffer<T>> {
        let attempt = || self.device().zeroed::<T>(&self.compute, len);
        let made = self.manager.making_room(attempt, DeviceError::is_out_of_memory)?;
        made.ok_or_else(|| KMeansError::Memory {
            what,
            bytes: (len * size_of::<T>()) as u64,
            limit: self.device().budget().limit(),
        })
    }

    /// Compiles what `settings` need for `points`, and allocates.
    ///
    /// # Errors
    /// [`KMeansError::NoShape`], [`KMeansError::Features`], [`KMeansError::Memory`]; the device's.
    pub fn start<'p>(&'p self, points: &'p Points, settings: &KMeans) -> Result<DeviceRun<'p>> {
        let (d, k) = (points.features() as u32, settings.clusters as u32);
        let shape = choose(&self.machine, (d, k), settings.sums, settings.shared_limit)?;
        self.start_with(points, shape)
    }

    /// As [`Self::start`], with a shape.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with<'p>(&'p self, points: &'p Points, shape: PassShape) -> Result<DeviceRun<'p>> {
        let (d, k) = (shape.features as usize, shape.clusters as usize);
        let pass = KmeansPass::new(self.device(), shape)?;
        let words = k * (d + 1) + 1;
        let slots = (PARTIAL_BYTES / 8 / words as u64).clamp(1, pass.blocks()) as usize;
        Ok(DeviceRun {
            on: self,
            points,
            centroids: self.allocate("the centroids", Centroids::floats(k, d))?,
            partials: self.allocate("the partial sums", slots * words)?,
            shifts: self.allocate("the shifts of centroids", k)?,
            masses: self.allocate("the masses of clusters", k)?,
            state: self.allocate("the state of the fit", 1)?,
            slots: slots as u32,
            pass,
            table: Table::default(),
            ring: Vec::new(),
        })
    }
}

/// A table of chunks on the device, and its words.
#[derive(Debug, Default)]
struct Table {
    words: Vec<u64>,
    buffer: Option<DeviceBuffer<u64>>,
}

/// A buffer that chunks pass through.
#[derive(Debug)]
struct Slot {
    buffer: DeviceBuffer<u8>,
    /// Behind the last launch that read it.
    free: Option<Event>,
}

/// Memory and kernels of a clustering on a device.
#[derive(Debug)]
pub struct DeviceRun<'p> {
    on: &'p DeviceKMeans<'p>,
    points: &'p Points,
    pass: KmeansPass,
    centroids: DeviceBuffer<f32>,
    partials: DeviceBuffer<f64>,
    shifts: DeviceBuffer<f64>,
    masses: DeviceBuffer<u64>,
    state: DeviceBuffer<KmeansState>,
    slots: u32,
    table: Table,
    ring: Vec<Slot>,
}

/// Where the chunks of a pass are, those that need no copy first.
struct Places<'s> {
    scan: Scan<'s>,
    /// Chunks in the order of launches.
    order: Vec<usize>,
    /// By position; none: through a slot.
    pages: Vec<Option<PagePin>>,
    /// How many need no copy.
    ready: usize,
}

impl<'p> DeviceRun<'p> {
    /// Finds places for all chunks.
    fn place(&mut self) -> Result<Places<'p>> {
        let (on, points) = (self.on, self.points);
        let scan = on.manager.scan(std::iter::once(points));
        let chunks = points.chunks();
        let missing = |chunk: &usize| !scan.has(0, *chunk);
        let needed: u64 = (0..chunks.len())
            .filter(missing)
            .map(|c| points.page_bytes(c))
            .sum();
        if needed > 0 && self.ring.is_empty() && (!on.keep || needed > scan.room()) {
            self.make_ring()?;
        }
        let mut found: Vec<(usize, Option<PagePin>)> = Vec::with_capacity(chunks.len());
        let mut room = on.keep;
        for chunk in 0..chunks.len() {
            let page = scan.page(0, chunk, room)?;
            room &= page.is_some();
            found.push((chunk, page));
        }
        if self.ring.is_empty() && found.iter().any(|(_, page)| page.is_none()) {
            self.make_ring()?;
        }
        let is_ready =
            |(_, page): &(usize, Option<PagePin>)| page.as_ref().is_some_and(|page| page.is_here());
        let (mut placed, away): (Vec<_>, Vec<_>) = found.into_iter().partition(is_ready);
        let ready = placed.len();
        for (chunk, _) in &away {
            on.device().pin_if_possible(chunks[*chunk].memory())?;
        }
        placed.extend(away);
        let (order, pages) = placed.into_iter().unzip();
        Ok(Places {
            scan,
            order,
            pages,
            ready,
        })
    }

    fn make_ring(&mut self) -> Result<()> {
        let largest = self.points.chunks().iter().map(Chunk::bytes).max().unwrap_or(0);
        let on = self.on;
        let wanted = SLOTS.min(self.points.chunks().len());
        while self.ring.len() < wanted {
            match on.manager.allocate(&on.transfer[0], largest)? {
                Some(buffer) => self.ring.push(Slot { buffer, free: None }),
                // One slot still works, without overlap.
                None if !self.ring.is_empty() => break,
                None => {
                    return Err(KMeansError::Memory {
                        what: "a chunk of points",
                        bytes: largest,
                        limit: on.device().budget().limit(),
                    });
                }
            }
        }
        on.transfer[1].wait(&on.transfer[0].record()?)?;
        on.compute.wait(&on.transfer[0].record()?)?;
        Ok(())
    }

    /// Has the table of chunks on the device; `labels`: where those of the chunk at a position go.
    fn write_table(&mut self, places: &Places<'_>, labels: impl Fn(usize) -> u64) -> Result<()> {
        let mut words = Vec::with_capacity(places.order.len() * CHUNK_WORDS);
        for (position, (&chunk, page)) in places.order.iter().zip(&places.pages).enumerate() {
            let address = match page {
                Some(page) => page.address(),
                None => self.ring[position % self.ring.len()].buffer.address(),
            };
            let chunk = &self.points.chunks()[chunk];
            words.extend([address, labels(position), chunk.len as u64, chunk.stride as u64]);
        }
        if self.table.buffer.is_none() || self.table.words != words {
            let mut buffer = match self.table.buffer.take() {
                Some(buffer) if buffer.len() == words.len() => buffer,
                _ => self.on.allocate("the table of chunks", words.len())?,
            };
            self.on.compute.copy_from_slice(&mut buffer, &words)?;
            self.table = Table {
                words,
                buffer: Some(buffer),
            };
        }
        Ok(())
    }

    /// Queues a launch over the chunks at positions.
    fn launch(&mut self, pass: Option<&KmeansPass>, positions: std::ops::Range<usize>) -> Result<()> {
        if positions.is_empty() {
            return Ok(());
        }
        let table = self.table.buffer.as_ref().expect("written before launches");
        let words = positions.start * CHUNK_WORDS..positions.end * CHUNK_WORDS;
        let memory = PassMemory {
            chunks: In(table.slice(words)?),
            centroids: In(&self.centroids),
            partials: InOut(&mut self.partials),
            state: Some(In(&self.state)),
        };
        let pass = pass.unwrap_or(&self.pass);
        Ok(pass.launch(&self.on.compute, self.points.most(), memory)?)
    }

    /// Queues the copy of the chunk at a position, and has launches wait for it.
    fn fetch(&mut self, places: &Places<'_>, position: usize) -> Result<()> {
        let on = self.on;
        let stream = &on.transfer[position % on.transfer.len()];
        let chunk = &self.points.chunks()[places.order[position]];
        if let Some(page) = &places.pages[position] {
            let (event, _) = page.fetch(stream, |stream, target| chunk.copy(stream, target))?;
            if let Some(event) = event {
                on.compute.wait(&event)?;
            }
            return Ok(());
        }
        let index = position % self.ring.len();
        let slot = &mut self.ring[index];
        if let Some(free) = slot.free.take() {
            stream.wait(&free)?;
        }
        chunk.copy(stream, &mut slot.buffer)?;
        Ok(on.compute.wait(&stream.record()?)?)
    }

    /// Queues a pass over all chunks; labels are read back, chunk by chunk, into `labels`.
    fn queue(
        &mut self,
        places: &mut Places<'_>,
        pass: Option<&KmeansPass>,
        mut labels: Option<&mut ChunkLabels>,
    ) -> Result<()> {
        let on = self.on;
        let width = labels.as_ref().map_or(0, |labels| labels.width.bytes());
        let most = self.points.most() as usize;
        let label_words = if labels.is_some() {
            LABELLED * most * width
        } else {
            0
        };
        let labelled: DeviceBuffer<u8> = on.allocate("the labels of some chunks", label_words)?;
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
            // All that are there in one launch, but for labels, which have room for a few chunks.
            let mut end = if ready { places.ready } else { start + 1 };
            if labels.is_some() {
                end = end.min((start / LABELLED + 1) * LABELLED);
            }
            if !ready {
                self.fetch(places, start)?;
            }
            self.launch(pass, start..end)?;
            if places.pages[start].is_none() {
                let index = start % self.ring.len();
                self.ring[index].free = Some(on.compute.record()?);
            }
            launched.push_back(on.compute.record()?);
            if launched.len() > AHEAD
                && let Some(event) = launched.pop_front()
            {
                event.synchronize()?;
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
        Ok(())
    }

    fn queue_update(&mut self, rule: UpdateRule) -> Result<()> {
        let shape = self.pass.shape();
        let shape = (shape.clusters, shape.features, self.slots);
        self.on.update.launch(
            &self.on.compute,
            shape,
            rule,
            InOut(&mut self.partials),
            InOut(&mut self.centroids),
            Out(&mut self.shifts),
            Out(&mut self.masses),
            InOut(&mut self.state),
        )?;
        Ok(())
    }

    fn read_state(&self) -> Result<KmeansState> {
        Ok(self.on.compute.read(&self.state, ..)?[0])
    }

    /// Puts centroids on the device, for a fit that begins.
    fn begin(&mut self, centroids: &Centroids) -> Result<()> {
        let stream = &self.on.compute;
        stream.copy_from_slice(&mut self.centroids, centroids.words())?;
        stream.copy_from_slice(&mut self.state, &[KmeansState::default()])?;
        // What a run that failed may have left.
        Ok(stream.fill(&mut self.partials, 0)?)
    }

    /// Queues so many iterations over places where all is resident, one otherwise.
    fn queue_iterations(&mut self, most: u32, tolerance: f64) -> Result<()> {
        let mut places = self.place()?;
        let resident = places.ready == places.order.len();
        for _ in 0..if resident { most } else { 1 } {
            self.queue(&mut places, None, None)?;
            self.queue_update(UpdateRule::Means { tolerance })?;
        }
        Ok(())
    }

    /// What passes are made of.
    #[must_use]
    pub fn shape(&self) -> &PassShape {
        self.pass.shape()
    }

    /// Registers of a thread, and bytes of its memory that registers are spilled to.
    #[must_use]
    pub fn registers(&self) -> (u32, u32) {
        let resources = self.pass.resources();
        (resources.registers, resources.local)
    }

    /// Blocks of a pass that run at once.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.pass.blocks()
    }

    /// Puts first centroids on the device, row after row, for [`Self::queue_iteration`].
    ///
    /// # Errors
    /// The device's.
    pub fn place_centroids(&mut self, rows: &[f64]) -> Result<()> {
        let rows = self.points.without_offsets(rows);
        self.begin(&Centroids::new(&rows, self.points.features()))
    }

    /// Queues an iteration, which goes on from where the one before left, whether it converged or not: for measurements.
    ///
    /// # Errors
    /// [`KMeansError::Memory`]; the device's.
    pub fn queue_iteration(&mut self) -> Result<()> {
        self.queue_iterations(1, -1.0)
    }

    /// The centroids after all iterations that are queued, row after row.
    ///
    /// # Errors
    /// The device's.
    pub fn read_centroids(&self) -> Result<Vec<f64>> {
        let shape = self.pass.shape();
        let (k, d) = (shape.clusters as usize, shape.features as usize);
        let mut centroids = Centroids::new(&vec![0.0; k * d], d);
        centroids.set_words(self.on.compute.read(&self.centroids, ..)?);
        let mut rows = centroids.rows();
        self.points.add_offsets(&mut rows);
        Ok(rows)
    }
}

/// Labels by chunk.
struct ChunkLabels {
    width: LabelWidth,
    chunks: Vec<Vec<u8>>,
}

impl Processor for DeviceRun<'_> {
    fn iterate(
        &mut self,
        centroids: &mut Centroids,
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Iterations> {
        self.begin(centroids)?;
        let mut done = Iterations::default();
        let mut batch = 1;
        while done.iterations < rule.max_iter {
            self.queue_iterations(batch.min(rule.max_iter - done.iterations), rule.tolerance)?;
            let state = self.read_state()?;
            done = Iterations {
                iterations: state.iterations as u32,
                shift: state.shift,
                converged: state.done != 0,
            };
            if !monitor.tell(done.iterations, done.shift) {
                return Err(KMeansError::Cancelled {
                    iterations: done.iterations,
                });
            }
            if done.converged {
                break;
            }
            batch = (2 * batch).min(BATCH);
        }
        centroids.set_words(self.on.compute.read(&self.centroids, ..)?);
        Ok(done)
    }

    fn finish(&mut self, centroids: &Centroids, labels: bool) -> Result<Finish> {
        self.begin(centroids)?;
        let mut shape = *self.pass.shape();
        shape.inertia = true;
        let width = LabelWidth::of(shape.clusters);
        shape.labels = labels.then_some(width);
        let pass = KmeansPass::new(self.on.device(), shape)?;
        let mut wanted = labels.then(|| ChunkLabels {
            width,
            chunks: vec![Vec::new(); self.points.chunks().len()],
        });
        let mut places = self.place()?;
        self.queue(&mut places, Some(&pass), wanted.as_mut())?;
        self.queue_update(UpdateRule::Fixed)?;
        let state = self.read_state()?;
        let labels = wanted.map(|wanted| {
            let mut labels = Labels::new(shape.clusters);
            for chunk in wanted.chunks {
                labels.bytes_mut().extend(chunk);
            }
            labels
        });
        Ok(Finish {
            masses: self.on.compute.read(&self.masses, ..)?,
            inertia: state.inertia,
            labels,
        })
    }
}
