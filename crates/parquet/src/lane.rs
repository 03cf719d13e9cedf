//! Lanes: streams on which column chunks are decoded at the same time, each with pinned memory for its
//! copies.
//!
//! A column chunk is decoded on one lane. Its thread copies bytes to the stages of the lane, pieces of pinned
//! memory, and the copy engine copies them to the device meanwhile; the way back is the same. On other lanes,
//! kernels and copies of other column chunks run. Lanes keep their stream, so that device memory which a
//! column chunk frees is reused by the next one without a call to the driver's allocator.
//!
//! The thread of a lane must not wait for work of its own thread pool: a pool may run another load on the
//! waiting thread, and that load may wait for a lane.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Pod;
use galatea_device::{Device, DeviceBuffer, DeviceError, Download, Event, HostMemory, HostView, Stream};
use parking_lot::{Condvar, Mutex};

use crate::error::Result;

/// Bytes of a stage. The copy engine reaches the rate of the link with pieces of this size.
const STAGE_BYTES: usize = 1 << 20;
/// Stages of a lane: one is filled while others are copied.
const STAGES: usize = 4;
/// Reads up to this size are copied by the driver, which has pinned memory of its own for them.
const SMALL_READ: u64 = 64 << 10;

/// A stream, and pinned memory for its copies.
#[derive(Debug)]
pub struct Lane {
    device: Device,
    stream: Stream,
    stages: [Stage; STAGES],
    next: usize,
}

/// A piece of pinned memory.
#[derive(Debug)]
struct Stage {
    /// None while a copy to the host has it.
    memory: Option<Arc<HostMemory>>,
    /// The end of the last copy to the device.
    copied: Option<Event>,
}

impl Stage {
    fn new(device: &Device) -> Result<Self> {
        let memory = Arc::new(HostMemory::new(STAGE_BYTES)?);
        device.pin_if_possible(&memory)?;
        Ok(Self {
            memory: Some(memory),
            copied: None,
        })
    }
}

impl Lane {
    /// A lane with its own stream.
    ///
    /// # Errors
    /// The device's; too little host memory.
    pub fn new(device: &Device) -> Result<Self> {
        let stage = || Stage::new(device);
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            stages: [stage()?, stage()?, stage()?, stage()?],
            next: 0,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Copies values to new device memory. The copy may still be running when the function returns.
    pub(crate) fn upload<T: Pod>(&mut self, values: &[T]) -> Result<DeviceBuffer<T>> {
        let mut buffer = self.device.alloc(&self.stream, values.len())?.assume_written();
        self.write(&mut buffer, 0, values)?;
        Ok(buffer)
    }

    /// Copies values to the place `start` of device memory. The copy may still be running when the function
    /// returns.
    pub(crate) fn write<T: Pod>(
        &mut self,
        target: &mut DeviceBuffer<T>,
        start: usize,
        values: &[T],
    ) -> Result<()> {
        let of_stage = STAGE_BYTES / size_of::<T>();
        for (number, piece) in values.chunks(of_stage).enumerate() {
            let (stage, view) = self.filled(bytemuck::cast_slice(piece))?;
            let first = start + number * of_stage;
            self.stream
                .copy_to_device(target.slice_mut(first..first + piece.len())?, &view)?;
            self.stages[stage].copied = Some(self.stream.record()?);
        }
        Ok(())
    }

    /// The number of the next stage, and these bytes in it. Waits until its last copy is done.
    fn filled(&mut self, bytes: &[u8]) -> Result<(usize, HostView)> {
        let number = self.next;
        let stage = &mut self.stages[number];
        self.next = (number + 1) % STAGES;
        if let Some(copied) = stage.copied.take() {
            copied.synchronize()?;
        }
        let shared = DeviceError::HostMemoryShared {
            bytes: STAGE_BYTES as u64,
        };
        let Some(memory) = &mut stage.memory else {
            return Err(shared.into());
        };
        if Arc::get_mut(memory).is_none() {
            // The stream releases the memory that it has copied.
            self.stream.synchronize()?;
        }
        let target = Arc::get_mut(memory).ok_or(shared)?;
        target.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        Ok((number, HostView::new(Arc::clone(memory), 0, bytes.len())?))
    }

    /// Reads device memory as values of type `T`. Waits for all work of the stream.
    ///
    /// # Errors
    /// The device's.
    pub fn read<S: Pod, T: Pod>(&mut self, source: &DeviceBuffer<S>) -> Result<Vec<T>> {
        let len = source.bytes() as usize / size_of::<T>();
        if source.bytes() <= SMALL_READ {
            let mut values = vec![T::zeroed(); len];
            let target = bytemuck::cast_slice_mut(&mut values);
            self.stream.read_into(source.as_slice().into_bytes(), target)?;
            return Ok(values);
        }
        // Releases stages that copies to the device have used.
        self.stream.synchronize()?;
        let mut values = Vec::with_capacity(len);
        let mut running: VecDeque<(Download, usize, usize)> = VecDeque::new();
        let of_stage = STAGE_BYTES / size_of::<S>();
        for (number, start) in (0..source.len()).step_by(of_stage).enumerate() {
            if running.len() == STAGES {
                self.receive(&mut running, &mut values)?;
            }
            let piece = source.slice(start..source.len().min(start + of_stage))?;
            let (stage, bytes) = (number % STAGES, piece.bytes() as usize);
            let shared = DeviceError::HostMemoryShared {
                bytes: STAGE_BYTES as u64,
            };
            let memory = self.stages[stage].memory.take().ok_or(shared)?;
            running.push_back((self.stream.copy_to_host(piece, memory, 0)?, stage, bytes));
        }
        while !running.is_empty() {
            self.receive(&mut running, &mut values)?;
        }
        Ok(values)
    }

    /// Waits for the first running copy, and adds its values.
    fn receive<T: Pod>(
        &mut self,
        running: &mut VecDeque<(Download, usize, usize)>,
        values: &mut Vec<T>,
    ) -> Result<()> {
        if let Some((download, stage, bytes)) = running.pop_front() {
            let memory = download.wait()?;
            values.extend_from_slice(bytemuck::cast_slice(&memory.as_slice()[..bytes]));
            self.stages[stage].memory = Some(memory);
        }
        Ok(())
    }

    /// Whether the lane can be used again: no copy has failed.
    fn is_intact(&self) -> bool {
        self.stages.iter().all(|stage| stage.memory.is_some())
    }
}

/// The lanes of a device, opened when they are first needed.
#[derive(Debug)]
pub struct Lanes {
    device: Device,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Lane>,
    /// Lanes in use.
    in_use: usize,
}

impl Lanes {
    /// Maximum number of lanes: threads that copy to pinned memory at once, enough for the rate of the link.
    pub const LIMIT: usize = 8;

    /// No lane is open yet.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// A lane, for one column chunk; none if all are still in use after `patience`.
    ///
    /// # Errors
    /// Those of [`Lane::new`].
    pub fn take(&self, patience: Duration) -> Result<Option<LaneInUse<'_>>> {
        let mut state = self.state.lock();
        if state.in_use == Self::LIMIT {
            self.returned.wait_for(&mut state, patience);
        }
        if state.in_use == Self::LIMIT {
            return Ok(None);
        }
        state.in_use += 1;
        let idle = state.idle.pop();
        drop(state);
        // Counts down also if no lane can be opened.
        let mut lane = LaneInUse {
            lanes: self,
            lane: idle,
        };
        if lane.lane.is_none() {
            lane.lane = Some(Lane::new(&self.device)?);
        }
        Ok(Some(lane))
    }

    fn give(&self, lane: Option<Lane>) {
        let mut state = self.state.lock();
        state.in_use -= 1;
        let lane = lane.filter(Lane::is_intact);
        state.idle.extend(lane);
        drop(state);
        self.returned.notify_one();
    }
}

/// A lane in use. It is returned when this value is dropped.
#[derive(Debug)]
pub struct LaneInUse<'l> {
    lanes: &'l Lanes,
    lane: Option<Lane>,
}

impl Deref for LaneInUse<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane.as_ref().expect("opened before it is handed out")
    }
}

impl DerefMut for LaneInUse<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("opened before it is handed out")
    }
}

impl Drop for LaneInUse<'_> {
    fn drop(&mut self) {
        self.lanes.give(self.lane.take());
    }
}

#[cfg(test)]
mod tests {
    use galatea_device::{DeviceOptions, EmulatorOptions};

    use super::*;

    fn device() -> Device {
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).expect("an emulated device")
    }

    #[test]
    fn values_of_several_stages_are_written_and_read() {
        let device = device();
        let mut lane = Lane::new(&device).expect("a lane");
        for len in [0, 1, 1000, STAGE_BYTES / 8, 5 * STAGE_BYTES / 8 + 3, STAGE_BYTES] {
            let values: Vec<u64> = (0..len as u64).map(|value| value * 3).collect();
            let buffer = lane.upload(&values).expect("uploaded");
            assert_eq!(lane.read::<_, u64>(&buffer).expect("read"), values, "{len}");
            let words: Vec<u32> = lane.read(&buffer).expect("read");
            assert_eq!(words, bytemuck::cast_slice::<u64, u32>(&values), "{len}");
        }
    }

    #[test]
    fn lanes_are_limited_and_reused() {
        let lanes = Lanes::new(&device());
        let none = Duration::ZERO;
        let mut taken: Vec<_> = (0..Lanes::LIMIT)
            .map(|_| lanes.take(none).expect("opened").expect("below the limit"))
            .collect();
        assert!(lanes.take(none).expect("no error").is_none());
        let stream = taken[0].stream().clone();
        taken.remove(0);
        let again = lanes.take(none).expect("opened").expect("one was returned");
        assert!(again.stream().is(&stream));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lanes.take(Duration::from_secs(60)).expect("opened").is_some());
            taken.clear();
            assert!(waiting.join().expect("no panic"));
        });
    }
}
