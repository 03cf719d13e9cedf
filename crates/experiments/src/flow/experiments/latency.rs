//! The link itself: one frame at a time, and the settings that fill it.

use galatea_device::Device;
use galatea_flow::Result;

use super::{Scale, percentile, rows, stream};
use crate::flow::Row;
use crate::flow::batches::{Batches, over_mapped_memory};
use crate::flow::bulk::{bulk_copies_exist, by_bulk_copies};
use crate::flow::copied::copy_kernel_copy;
use crate::flow::link::ceilings;
use crate::flow::load::{Load, Touch};
use crate::flow::stream::round_trip;

pub(super) fn link(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    let bytes = (scale.bytes / 4).max(1 << 20) as usize;
    let piece = bytes.min(64 << 20);
    let found = ceilings(device, bytes, piece, scale.runs)?;
    let mut row = |method: &str, values: Vec<f64>| {
        out(Row {
            experiment: "link",
            method: method.to_owned(),
            operator: "copy".to_owned(),
            frame_bytes: piece,
            metric: "GB/s",
            values: values.into_iter().map(|rate| rate / 1e9).collect(),
        });
    };
    row("copy engine to device", found.to_device);
    row("copy engine to host", found.to_host);
    row("copy engines both ways (each way)", found.each_way);
    let load = Load::double(bytes.min(64 << 20), seed);
    for blocks in [8, 16, 32, 64, 132] {
        let rates = over_mapped_memory(device, &load, blocks, scale.runs)?;
        row(
            &format!("kernel of {blocks} blocks over mapped memory (each way)"),
            rates,
        );
    }
    if bulk_copies_exist(device) {
        for (blocks, piece) in [
            (8, 4 << 10),
            (16, 4 << 10),
            (32, 4 << 10),
            (8, 16 << 10),
            (16, 16 << 10),
            (64, 16 << 10),
        ] {
            let rates = by_bulk_copies(device, &load, blocks, piece, scale.runs)?;
            let method =
                format!("bulk copies of {piece} bytes by {blocks} blocks over mapped memory (each way)");
            row(&method, rates);
        }
    }
    Ok(())
}

pub(super) fn round_trips(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    let (page, line) = (Load::double(4096, seed), Load::double(64, seed));
    for blocks in [1, 8, 32] {
        for (load, threads, bytes) in [
            (&line, 32, 64),
            (&line, 256, 64),
            (&page, 256, 64),
            (&page, 256, 4096),
            (&page, 1024, 4096),
        ] {
            let threads = threads.min(scale.block_threads);
            let mut shape = scale.shape(4096, Touch::All);
            shape.depth = 64;
            shape.inline = load.frame_bytes < 4096;
            shape.frames = (scale.frames / 100, (scale.frames / 10).max(1));
            shape.options.blocks = Some(blocks);
            shape.options.block_threads = threads;
            let kind = if shape.inline { "inline, " } else { "" };
            let mut values = [Vec::new(), Vec::new()];
            for _ in 0..scale.runs {
                let (times, _) = round_trip(device, load, &shape, bytes)?;
                values[0].push(percentile(&times, 50));
                values[1].push(percentile(&times, 99));
            }
            let metrics = ["round trip p50 us", "round trip p99 us"];
            for (metric, values) in metrics.into_iter().zip(values) {
                out(Row {
                    experiment: "round-trip",
                    method: format!("stream: {kind}{blocks} blocks of {threads} threads"),
                    operator: "double".to_owned(),
                    frame_bytes: bytes,
                    metric,
                    values,
                });
            }
        }
    }
    let batches = Batches {
        batches: (scale.frames / 100, (scale.frames / 40).max(1)),
        ..scale.batches(4096, 1, Touch::All)
    };
    rows("round-trip", "CKC pinned", &page, scale.runs, out, || {
        copy_kernel_copy(device, &page, true, batches)
    })
}

/// Blocks, their threads, and the number of notes that they leave before they wait. These determine whether
/// the link is filled.
pub(super) fn in_flight(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for frame_bytes in [4 << 10, 16 << 10, 64 << 10] {
        let load = Load::double(frame_bytes, seed);
        for (blocks, threads) in [
            (16, 512),
            (16, 1024),
            (32, 256),
            (32, 1024),
            (64, 256),
            (64, 512),
            (132, 256),
        ] {
            for notes in [1, 2, 4, 8] {
                let mut shape = scale.shape(frame_bytes, Touch::Number);
                shape.threads = (scale.threads.min(4), scale.threads.min(4));
                shape.options.blocks = Some(scale.blocks.unwrap_or(blocks));
                shape.options.block_threads = threads.min(scale.block_threads);
                shape.options.notes_in_flight = notes;
                let method = format!("stream: {blocks} blocks of {threads} threads, {notes} notes");
                rows("in-flight", &method, &load, scale.runs, out, || {
                    stream(device, &load, &shape)
                })?;
            }
        }
    }
    Ok(())
}
