//! Points that stay in host memory: streamed in every iteration, by the device only, with the CPU's help,
//! and by the CPU only.
//!
//! Times are host times, from one iteration's end to the next. The floor is the time of copying the same
//! number of bytes from pinned memory, in two streams.

use std::sync::Arc;
use std::time::Instant;

use galatea_device::{Device, HostMemory, HostView};
use galatea_kmeans::{DeviceKMeans, Execution, Init, KMeans, Share, choose};
use galatea_memory::regions::MemoryManager;

use super::{Case, Experiment, Plan, Row};
use crate::Result;
use crate::harness::Clock;
use crate::result::Summary;

/// Number of iterations before the measured ones, for page faults and the trial of sharing.
const WARMUPS: usize = 3;
/// Number of bytes with which copies are measured.
const COPIED: usize = 64 << 20;

/// Milliseconds of copying this number of bytes to the device.
fn link_floor(device: &Device, runs: usize, bytes: u64) -> Result<Option<f64>> {
    let memory = Arc::new(HostMemory::new(COPIED.min(bytes as usize))?);
    device.pin_if_possible(&memory)?;
    let bytes_copied = memory.len();
    let view = HostView::new(memory, 0, bytes_copied)?;
    let streams = [device.stream()?, device.stream()?];
    let mut targets = Vec::new();
    for stream in &streams {
        targets.push(device.zeroed::<u8>(stream, view.len())?);
        stream.synchronize()?;
    }
    let clock = Clock::new(&streams[0], runs);
    let time = clock.summary(|| {
        for (stream, target) in streams.iter().zip(&mut targets) {
            stream.copy_to_device(target.slice_mut(..)?, &view)?;
        }
        Ok(streams[0].wait(&streams[1].record()?)?)
    })?;
    Ok(time.map(|time| 1e3 * time.median / (2 * view.len()) as f64 * bytes as f64))
}

/// Whether an iteration of the CPU moves centroids to the same positions as the device, which is checked
/// against a reference.
fn cpu_agrees(on: &DeviceKMeans<'_>, case: &Case<'_>) -> Result<bool> {
    let once = KMeans {
        max_iter: 1,
        tol: 0.0,
        init: Init::First,
        ..KMeans::new(case.clusters as usize)
    };
    let fewer = case.reference.points();
    let cpu = once.fit(fewer)?;
    let device = once.fit_with(fewer, Some(on), false, &mut |_| true)?;
    let mut pairs = cpu.centroids.iter().zip(&device.centroids);
    // A tie that is resolved differently moves a centroid by less.
    Ok(pairs.all(|(cpu, device)| (cpu - device).abs() < 0.1))
}

pub(super) fn measure(
    manager: &MemoryManager,
    case: &Case<'_>,
    machine: &galatea_layout::model::Machine,
    plan: &Plan,
) -> Result<Vec<Row>> {
    let on = DeviceKMeans::new(manager, *machine)?.without_pages();
    let points = case.points;
    let of = (points.features() as u32, case.clusters);
    let cost = super::costs(machine, of, plan.wanted(plan.only_scores(), None))
        .into_iter()
        .next();
    let shape = match cost {
        Some(cost) => cost.shape,
        None => choose(machine, of, plan.wanted(None, None))?,
    };
    let floor = link_floor(manager.device(), plan.runs, points.bytes())?;
    let mut rows = Vec::new();
    for (execution, share, place) in [
        (Execution::Single, Some(Share::Device), "streamed"),
        (Execution::Multi, Some(Share::Device), "streamed"),
        (Execution::Single, Some(Share::Both), "streamed with the CPU"),
        (Execution::Single, None, "cpu"),
    ] {
        let settings = KMeans {
            max_iter: (WARMUPS + plan.runs) as u32,
            tol: 0.0,
            init: Init::First,
            execution,
            share: share.unwrap_or_default(),
            ..KMeans::new(case.clusters as usize)
        };
        let mut ends = vec![Instant::now()];
        let device = share.map(|_| &on);
        settings.fit_with(points, device, false, &mut |_| {
            ends.push(Instant::now());
            true
        })?;
        let times = ends
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64())
            .skip(WARMUPS);
        let time = Summary::of(times);
        let verified = case.reference.hold(&on, shape, execution)?;
        let right = verified.is_right() && (share.is_some() || cpu_agrees(&on, case)?);
        let mut row = Row::new(
            Experiment::Streaming.name(),
            execution.name(),
            place,
            &plan.machine,
        );
        row.set_shape(shape);
        row.set_time(points.len(), points.bytes(), time, floor);
        row.set_verified(&verified);
        row.right = right;
        rows.push(row);
    }
    Ok(rows)
}
