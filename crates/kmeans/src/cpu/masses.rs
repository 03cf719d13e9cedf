//! Histograms of labels on the CPU, with each published replication (thesis §5.2.2).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use galatea_kernels::MassSum;
use rayon::prelude::*;

use crate::Labels;

/// Labels that a thread counts at a time.
const TASK: usize = 1 << 17;
/// Private histograms of a thread for successive labels, so that an addition need not wait for the previous
/// one.
const PRIVATE: usize = 4;

/// The number of points of each of `clusters` clusters. On the CPU the partitioned ways differ by the threads
/// that may add to a task's histogram. Either other tasks may, so additions are atomic (global: beside the
/// histograms of other tasks; local: in memory of its own), or only the task itself (private).
///
/// # Panics
/// If a label is not below `clusters`.
#[must_use]
pub fn count_labels(labels: &Labels, clusters: usize, way: MassSum) -> Vec<u64> {
    let width = labels.width().bytes();
    let tasks = labels.bytes().par_chunks(TASK * width);
    match way {
        MassSum::GlobalAtomic => {
            let masses: Vec<AtomicU64> = (0..clusters).map(|_| AtomicU64::new(0)).collect();
            tasks.for_each(|bytes| {
                for_each_label(bytes, width, |_, label| {
                    masses[label].fetch_add(1, Ordering::Relaxed);
                });
            });
            masses.into_iter().map(AtomicU64::into_inner).collect()
        }
        MassSum::PartitionedGlobal => {
            let count = tasks.len();
            let all: Vec<AtomicU32> = (0..count * clusters).map(|_| AtomicU32::new(0)).collect();
            tasks.zip(all.par_chunks(clusters)).for_each(|(bytes, masses)| {
                for_each_label(bytes, width, |_, label| {
                    masses[label].fetch_add(1, Ordering::Relaxed);
                });
            });
            let of = |cluster: usize| {
                let masses = all.iter().skip(cluster).step_by(clusters);
                masses.map(|mass| u64::from(mass.load(Ordering::Relaxed))).sum()
            };
            (0..clusters).into_par_iter().map(of).collect()
        }
        MassSum::PartitionedLocal => {
            let counted = tasks.map(|bytes| {
                let masses: Vec<AtomicU32> = (0..clusters).map(|_| AtomicU32::new(0)).collect();
                for_each_label(bytes, width, |_, label| {
                    masses[label].fetch_add(1, Ordering::Relaxed);
                });
                masses.into_iter().map(|mass| mass.into_inner().into()).collect()
            });
            counted.reduce(|| vec![0; clusters], added)
        }
        MassSum::PartitionedPrivate => {
            let counted = tasks.map(|bytes| {
                let mut masses = vec![0u32; clusters * PRIVATE];
                for_each_label(bytes, width, |lane, label| masses[label * PRIVATE + lane] += 1);
                let of_cluster = masses.chunks_exact(PRIVATE);
                of_cluster
                    .map(|lanes| lanes.iter().copied().map(u64::from).sum())
                    .collect()
            });
            counted.reduce(|| vec![0; clusters], added)
        }
    }
}

fn added(mut some: Vec<u64>, others: Vec<u64>) -> Vec<u64> {
    some.iter_mut()
        .zip(others)
        .for_each(|(some, other)| *some += other);
    some
}

/// Calls `use_label` with each label and a number below [`PRIVATE`], which differs for successive labels.
fn for_each_label(bytes: &[u8], width: usize, mut use_label: impl FnMut(usize, usize)) {
    match width {
        1 => {
            for (at, label) in bytes.iter().enumerate() {
                use_label(at % PRIVATE, usize::from(*label));
            }
        }
        2 => {
            for (at, label) in bytes.chunks_exact(2).enumerate() {
                use_label(
                    at % PRIVATE,
                    usize::from(u16::from_ne_bytes([label[0], label[1]])),
                );
            }
        }
        _ => {
            for (at, label) in bytes.chunks_exact(4).enumerate() {
                let label = u32::from_ne_bytes([label[0], label[1], label[2], label[3]]);
                use_label(at % PRIVATE, label as usize);
            }
        }
    }
}
