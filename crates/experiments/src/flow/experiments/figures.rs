//! The paper's figures of streams, with their baselines.

use galatea_device::Device;
use galatea_flow::{CataloguePolicy, FlowOptions, IndexPolicy, PAGE, Result};

use super::{Scale, rows, stream};
use crate::flow::batches::Batches;
use crate::flow::copied::copy_kernel_copy;
use crate::flow::load::{Load, Touch};
use crate::flow::managed::kernel_over_managed;
use crate::flow::stream::{Shape, throughput};
use crate::flow::tasks::copy_task_copy;
use crate::flow::workload::Mode;
use crate::flow::{Row, cpu};

/// The stream and every baseline, for a load.
fn side_by_side(
    experiment: &'static str,
    device: &Device,
    scale: &Scale,
    load: &Load,
    shape: &Shape,
    out: &mut dyn FnMut(Row),
) -> Result<()> {
    let batches = |workers| scale.batches(load.frame_bytes, workers, shape.touch);
    rows(experiment, "stream", load, scale.runs, out, || {
        stream(device, load, shape)
    })?;
    for (method, workers, pinned) in [
        ("CKC", 1, false),
        ("CKC pinned", 1, true),
        ("CKC pinned HQ2", 2, true),
        ("CKC pinned HQ4", 4, true),
        ("CKC pinned HQ8", 8, true),
    ] {
        rows(experiment, method, load, scale.runs, out, || {
            copy_kernel_copy(device, load, pinned, batches(workers))
        })?;
    }
    rows(experiment, "CTC", load, scale.runs, out, || {
        copy_task_copy(device, load, batches(1))
    })?;
    over_managed(experiment, device, scale, load, batches(1), out)
}

/// The baseline over managed memory, if the device supports it.
fn over_managed(
    experiment: &'static str,
    device: &Device,
    scale: &Scale,
    load: &Load,
    batches: Batches,
    out: &mut dyn FnMut(Row),
) -> Result<()> {
    // Pages migrate at a few GB/s, so a tenth of the batches takes the same time.
    let (warm, measured) = batches.batches;
    let batches = Batches {
        batches: ((warm / 10).max(2).min(warm), (measured / 10).max(8).min(measured)),
        ..batches
    };
    if device.managed(PAGE)?.is_none() {
        return Ok(());
    }
    rows(experiment, "KoUM", load, scale.runs, out, || {
        Ok(kernel_over_managed(device, load, batches)?.unwrap_or_default())
    })
}

/// The micro-benchmark: doubled integers, by frame size (figure 8).
pub(super) fn frame_sizes(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in &scale.frame_sizes {
        let load = Load::double(*frame_bytes, seed);
        let shape = scale.shape(*frame_bytes, Touch::All);
        side_by_side("frame-sizes", device, scale, &load, &shape, out)?;
    }
    Ok(())
}

/// Frames with their data in place: the rate of the link both ways at once.
pub(super) fn both_ways(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in &scale.frame_sizes {
        let load = Load::double(*frame_bytes, seed);
        let mut shape = scale.shape(*frame_bytes, Touch::Number);
        shape.threads = (scale.threads.min(4), scale.threads.min(4));
        rows("ways-both", "stream", &load, scale.runs, out, || {
            stream(device, &load, &shape)
        })?;
        for workers in [1, 4] {
            let batches = scale.batches(*frame_bytes, workers, Touch::Number);
            let method = format!("CKC pinned HQ{workers}");
            rows("ways-both", &method, &load, scale.runs, out, || {
                copy_kernel_copy(device, &load, true, batches)
            })?;
        }
    }
    Ok(())
}

/// Kernel shapes that compute, and that read (figure 9).
pub(super) fn shapes(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in scale.frame_sizes.iter().filter(|bytes| **bytes <= 1 << 20) {
        for load in Load::shapes(*frame_bytes, seed) {
            let mut shape = scale.shape(*frame_bytes, Touch::Number);
            // Operators that compute need all blocks.
            shape.options.blocks = scale.blocks.or(Some(132));
            side_by_side("shapes", device, scale, &load, &shape, out)?;
        }
    }
    Ok(())
}

/// The benefit of each layer of a topic (figure 10).
pub(super) fn layers(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in scale.frame_sizes.iter().filter(|bytes| **bytes <= 1 << 20) {
        let load = Load::double(*frame_bytes, seed);
        let batches = scale.batches(*frame_bytes, 1, Touch::Number);
        over_managed("layers", device, scale, &load, batches, out)?;
        for (method, catalogue, index) in [
            (
                "stream: remote catalogue",
                CataloguePolicy::Remote,
                IndexPolicy::Direct,
            ),
            ("stream", CataloguePolicy::ReadMostly, IndexPolicy::Direct),
            (
                "stream: index copied on read",
                CataloguePolicy::ReadMostly,
                IndexPolicy::CopyOnRead,
            ),
        ] {
            let mut shape = scale.shape(*frame_bytes, Touch::Number);
            (shape.options.catalogue, shape.options.index) = (catalogue, index);
            rows("layers", method, &load, scale.runs, out, || {
                stream(device, &load, &shape)
            })?;
        }
    }
    Ok(())
}

/// Shares of the steps of a round (figure 11).
pub(super) fn steps(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in &scale.frame_sizes {
        let load = Load::double(*frame_bytes, seed);
        let mut shape = scale.shape(*frame_bytes, Touch::Number);
        shape.options.count_steps = true;
        let mut shares = [const { Vec::new() }; 4];
        for _ in 0..scale.runs {
            let (_, _, outcome) = throughput(device, &load, &shape)?;
            let counted = outcome.steps.unwrap_or_default();
            let clocks = [counted.look, counted.compute, counted.publish, counted.idle];
            let all: u64 = clocks.iter().sum();
            for (shares, clocks) in shares.iter_mut().zip(clocks) {
                shares.push(clocks as f64 * 100.0 / all.max(1) as f64);
            }
        }
        let names = ["look %", "compute %", "publish %", "idle %"];
        for (metric, values) in names.into_iter().zip(shares) {
            out(Row {
                experiment: "steps",
                method: "stream".to_owned(),
                operator: load.operator.name().into_owned(),
                frame_bytes: *frame_bytes,
                metric,
                values,
            });
        }
    }
    Ok(())
}

/// Chains of operators, on the device alone and alternating between both sides (figure 12).
pub(super) fn chains(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in [16 << 10, 4 << 20] {
        let load = Load::double(frame_bytes, seed);
        for stages in 1..=4 {
            for returns in [false, true] {
                let mut shape = scale.shape(frame_bytes, Touch::Number);
                shape.threads = (scale.threads.min(2), scale.threads.min(2));
                (shape.operators, shape.returns) = (stages, returns);
                let kind = if returns {
                    format!("C(GC){stages}")
                } else {
                    format!("C(G){stages}C")
                };
                let method = format!("stream {kind}");
                rows("chains", &method, &load, scale.runs, out, || {
                    stream(device, &load, &shape)
                })?;
            }
            // Baselines return to the host after each stage in both cases.
            let batches = |workers| Batches {
                stages,
                ..scale.batches(frame_bytes, workers, Touch::Number)
            };
            let method = format!("CKC pinned HQ4, {stages} stages");
            rows("chains", &method, &load, scale.runs, out, || {
                copy_kernel_copy(device, &load, true, batches(4))
            })?;
            let method = format!("CTC, {stages} stages");
            rows("chains", &method, &load, scale.runs, out, || {
                copy_task_copy(device, &load, batches(1))
            })?;
        }
    }
    Ok(())
}

/// RAID-6 and AES, by frame size (figure 14).
pub(super) fn encoding(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in scale
        .frame_sizes
        .iter()
        .copied()
        .filter(|bytes| *bytes <= 1 << 20)
    {
        let loads = [
            Load::raid6(4, frame_bytes, seed),
            Load::raid6(8, frame_bytes, seed),
            Load::aes(Mode::Ecb, frame_bytes, seed),
            Load::aes(Mode::Ctr { nonce: seed }, frame_bytes, seed),
        ];
        for load in loads {
            let mut shape = scale.shape(frame_bytes, Touch::Number);
            shape.threads = (scale.threads.min(2), scale.threads.min(2));
            shape.options = FlowOptions {
                blocks: scale.blocks,
                ..shape.options
            };
            side_by_side("encoding", device, scale, &load, &shape, out)?;
            for threads in [1, 2 * scale.threads] {
                let method = format!("CPU of {threads} threads");
                rows("encoding", &method, &load, scale.runs, out, || {
                    Ok(cpu::throughput(&load, threads, &shape))
                })?;
            }
        }
    }
    Ok(())
}
