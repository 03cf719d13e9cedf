//! Only sums of masses (thesis, figure 5.10): histograms of labels on the device, by each method of
//! replicating them.

use std::time::Instant;

use galatea_device::{Device, In, InOut, Stream};
use galatea_kernels::kmeans::LabelWidth;
use galatea_kernels::{KmeansMasses, MassSum};
use galatea_kmeans::{Labels, count_labels};
use rayon::prelude::*;

use super::{Experiment, Plan, Row};
use crate::Result;
use crate::harness::Clock;
use crate::result::Summary;

/// Number of labels that one task generates.
const TASK: usize = 1 << 16;
/// Number of labels that the CPU counts: atomics of all cores on one address take some seconds for a hundred
/// million.
const LABELS_OF_CPU: u64 = 1 << 22;

/// The label of a point, uniformly distributed.
fn label_of(point: u64, clusters: u32) -> u32 {
    let mixed = (point.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    ((u64::from(mixed.wrapping_mul(0x85eb_ca6b) ^ mixed >> 13) * u64::from(clusters)) >> 32) as u32
}

pub(super) fn measure(
    device: &Device,
    clock: &Clock,
    stream: &Stream,
    plan: &Plan,
    (points, clusters): (u64, u32),
) -> Result<Vec<Row>> {
    let width = LabelWidth::of(clusters).bytes();
    let mut bytes = vec![0u8; points as usize * width];
    bytes
        .par_chunks_mut(TASK * width)
        .enumerate()
        .for_each(|(task, bytes)| {
            for (at, bytes) in bytes.chunks_exact_mut(width).enumerate() {
                let label = label_of((task * TASK + at) as u64, clusters);
                bytes.copy_from_slice(&label.to_le_bytes()[..width]);
            }
        });
    let expected_of = |points: u64| {
        let count = |mut counts: Vec<u64>, point| {
            counts[label_of(point, clusters) as usize] += 1;
            counts
        };
        let add = |mut all: Vec<u64>, some: Vec<u64>| {
            all.iter_mut().zip(some).for_each(|(all, some)| *all += some);
            all
        };
        let none = || vec![0u64; clusters as usize];
        (0..points).into_par_iter().fold(none, count).reduce(none, add)
    };
    let expected = expected_of(points);
    let labels = device.upload(stream, &bytes)?;
    let limit = u64::from(device.info().shared_memory_per_block).saturating_sub(1024);
    let limit = plan.shared_limit.map_or(limit, |asked| asked.min(limit));
    let mut rows = Vec::new();
    for way in MassSum::ALL {
        let Some(mut masses) = KmeansMasses::new(device, stream, way, clusters, limit)? else {
            continue;
        };
        let mut counts = device.zeroed::<u64>(stream, clusters as usize)?;
        masses.launch(stream, In(&labels), InOut(&mut counts))?;
        let right = stream.read(&counts, ..)? == expected;
        let time = clock.sustained(|| Ok(masses.launch(stream, In(&labels), InOut(&mut counts))?))?;
        let mut row = Row::new(Experiment::Masses.name(), "mass sum", "resident", &plan.machine);
        row.set_time(points, bytes.len() as u64, time, None);
        rows.push(Row {
            clusters,
            sums: way.name().to_string(),
            points_per_thread: (16 / width) as u32,
            threads: masses.threads(),
            copies: 1,
            blocks: masses.blocks(),
            shared_bytes: way.shared_bytes(clusters, masses.threads()),
            right,
            ..row
        });
    }
    let points = points.min(LABELS_OF_CPU);
    bytes.truncate(points as usize * width);
    let expected = expected_of(points);
    let labels = Labels::of_bytes(LabelWidth::of(clusters), bytes);
    for way in MassSum::ALL {
        let mut times = Vec::new();
        let mut right = true;
        for run in 0..=plan.runs {
            let begun = Instant::now();
            right &= count_labels(&labels, clusters as usize, way) == expected;
            if run > 0 {
                times.push(begun.elapsed().as_secs_f64());
            }
        }
        let mut row = Row::new(Experiment::Masses.name(), "mass sum", "cpu", &plan.machine);
        row.set_time(points, labels.bytes().len() as u64, Summary::of(times), None);
        rows.push(Row {
            clusters,
            sums: way.name().to_string(),
            right,
            ..row
        });
    }
    Ok(rows)
}
