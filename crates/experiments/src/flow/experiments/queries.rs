//! The Set Query benchmark (figure 15).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use galatea_device::Device;
use galatea_flow::paging::{Answer, PageQuery, PageShape, PagedScan, Paging};
use galatea_flow::{Cpu, CpuWork, FlowError, FlowOptions, Result, Step, Topic, Topology};
use parking_lot::Mutex;

use super::Scale;
use crate::flow::Row;
use crate::flow::batches::Batches;
use crate::flow::copied::copy_kernel_copy;
use crate::flow::load::{Load, Touch};
use crate::flow::workload::set_query::{COLUMNS, SetQuery, column};

const SHAPE: PageShape = PageShape {
    columns: COLUMNS.len(),
    groups: 4,
};

/// All frames of a table, concatenated.
fn written(table: &SetQuery, paging: Paging) -> Vec<u8> {
    let bytes = SHAPE.frame_bytes();
    let mut frames = vec![0_u8; table.frames(SHAPE) * bytes];
    let places = Mutex::new(frames.chunks_mut(bytes).enumerate());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((number, frame)) = places.lock().next() else {
                        return;
                    };
                    table.write(SHAPE, paging, number, bytemuck::cast_slice_mut(frame));
                }
            });
        }
    });
    frames
}

/// The answer of a query by a stream, and its seconds.
fn by_stream(
    device: &Device,
    frames: &Arc<Vec<u8>>,
    scan: &PagedScan,
    threads: usize,
    options: &FlowOptions,
) -> Result<(Answer, f64)> {
    let mut topology = Topology::new();
    let bytes = scan.shape.frame_bytes();
    let there = topology.topic(Topic::new("table").frame_bytes(bytes).depth(256));
    let back = topology.topic(Topic::new("answers").frame_bytes(scan.answer_bytes()).depth(256));
    let next = Arc::new(AtomicUsize::new(0));
    let source = {
        let frames = Arc::clone(frames);
        Cpu::new("table", threads, move |_| {
            let (frames, next) = (Arc::clone(&frames), Arc::clone(&next));
            move |work: &mut CpuWork<'_>| {
                let at = next.fetch_add(1, Ordering::Relaxed) * bytes;
                let Some(frame) = frames.get(at..at + bytes) else {
                    return Ok(Step::End);
                };
                work.output::<u8>().copy_from_slice(frame);
                Ok(Step::Next)
            }
        })
    };
    let answer = Arc::new(Mutex::new(Answer::default()));
    let sink = {
        let (answer, scan) = (Arc::clone(&answer), scan.clone());
        Cpu::new("answers", 1, move |_| {
            let (answer, scan) = (Arc::clone(&answer), scan.clone());
            move |work: &mut CpuWork<'_>| {
                answer.lock().add(&scan, work.input());
                Ok(Step::Next)
            }
        })
    };
    topology
        .link(None, source, Some(there))
        .link(Some(there), scan.clone(), Some(back))
        .link(Some(back), sink, None);
    let outcome = topology.run(device, options)?;
    let answer = std::mem::take(&mut *answer.lock());
    Ok((answer, outcome.elapsed.as_secs_f64()))
}

/// The count and the sum of a query by threads of the CPU over the columns, and its seconds.
fn by_cpu(table: &SetQuery, query: &PageQuery, threads: usize) -> (u64, u64, f64) {
    let begun = Instant::now();
    let share = table.rows().div_ceil(threads);
    let parts: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let part = |thread: usize| {
            let rows = thread * share..table.rows().min((thread + 1) * share);
            let (count, sum, found) = table.answer(query, rows);
            std::hint::black_box(found);
            (count, sum)
        };
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || part(thread)))
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let (count, sum) = parts
        .iter()
        .fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1));
    (count, sum, seconds)
}

/// The seven queries over frames in rows, in columns, and in columns with an index. They are compared with
/// batches that are copied whole, and with the CPU, in place of the paper's two systems.
pub(super) fn set_query(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    const MOST_ROWS: u64 = 10_000_000;
    // A row has 52 bytes.
    let rows = (scale.bytes / 52).min(MOST_ROWS) as usize;
    let table = SetQuery::new(rows, seed);
    let [in_rows, in_columns] =
        [Paging::Rows, Paging::Columns].map(|paging| Arc::new(written(&table, paging)));
    let options = FlowOptions {
        blocks: scale.blocks,
        block_threads: scale.block_threads.min(256),
        timeout: scale.timeout,
        ..FlowOptions::default()
    };
    for (name, query) in table.queries(column("K10K")) {
        let mut row = |method: &str, metric: &'static str, values: Vec<f64>| {
            out(Row {
                experiment: "set-query",
                method: method.to_owned(),
                operator: name.to_owned(),
                frame_bytes: SHAPE.frame_bytes(),
                metric,
                values,
            });
        };
        let mut times = Vec::new();
        let mut expected = (0, 0);
        for _ in 0..scale.runs {
            let (count, sum, seconds) = by_cpu(&table, &query, 2 * scale.threads);
            expected = (count, sum);
            times.push(seconds * 1e3);
        }
        row("CPU", "ms", times);
        for (method, paging, index) in [
            ("stream", Paging::Rows, false),
            ("stream, paging", Paging::Columns, false),
            ("stream, paging and index", Paging::Columns, true),
        ] {
            let scan = PagedScan {
                shape: SHAPE,
                paging,
                index,
                query: query.clone(),
            };
            let frames = if paging == Paging::Rows {
                &in_rows
            } else {
                &in_columns
            };
            let (mut times, mut moved) = (Vec::new(), Vec::new());
            for _ in 0..scale.runs {
                let (answer, seconds) = by_stream(device, frames, &scan, scale.threads, &options)?;
                if (answer.count, answer.sum) != expected {
                    return Err(FlowError::Operator {
                        operator: method.to_owned(),
                        cause: format!("{name} has a wrong answer").into(),
                    });
                }
                times.push(seconds * 1e3);
                moved.push(answer.bytes as f64 / 1e9);
            }
            row(method, "ms", times);
            row(method, "GB moved", moved);
        }
        let scan = PagedScan {
            shape: SHAPE,
            paging: Paging::Columns,
            index: false,
            query,
        };
        let of_batch = table.frames(SHAPE).min(64);
        let batches = (table.frames(SHAPE) / of_batch) as u64;
        let load = Load::paged(scan, in_columns.to_vec(), of_batch);
        let mut times = Vec::new();
        for _ in 0..scale.runs {
            let found = copy_kernel_copy(
                device,
                &load,
                true,
                Batches {
                    workers: 4,
                    touch: Touch::All,
                    batches: (0, batches),
                    stages: 1,
                },
            )?;
            times.push((batches as usize * load.frame_bytes) as f64 / found.rate * 1e3);
        }
        row("CKC pinned HQ4", "ms", times);
        let whole = batches as f64 * load.frame_bytes as f64;
        row("CKC pinned HQ4", "GB moved", vec![whole / 1e9]);
    }
    Ok(())
}
