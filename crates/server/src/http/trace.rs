//! One statement in the Trace Event format, which Perfetto and `chrome://tracing` open.
//!
//! Each kind of work has a track: the statement, pipelines, loads, compilations, transfers and kernels. Work
//! of one kind at the same time has further tracks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::feed::{PipelineRun, StatementDetail};

/// A slice of a track.
struct Slice {
    name: String,
    /// Seconds from the start of the statement.
    begin: f64,
    seconds: f64,
    arguments: Value,
}

/// The kinds of work, in the order of their tracks.
const KINDS: [&str; 6] = [
    "statement",
    "pipelines",
    "loads",
    "compilations",
    "transfers",
    "kernels",
];

/// The tracks between those of two kinds.
const LANES: usize = 1000;

/// The trace of a statement.
pub(super) fn trace(detail: &StatementDetail) -> Value {
    let mut kinds: BTreeMap<usize, Vec<Slice>> = BTreeMap::new();
    let summary = &detail.summary;
    kinds.entry(0).or_default().push(Slice {
        name: format!("statement {}", summary.id),
        begin: 0.0,
        seconds: summary.elapsed,
        arguments: json!({
            "statement": detail.statement,
            "user": summary.user,
            "outcome": summary.outcome,
            "rows": summary.rows,
        }),
    });
    let nodes = detail.plan.iter().flat_map(|plan| &plan.nodes);
    for (node, run) in nodes.filter_map(|node| Some((node, node.run.as_ref()?))) {
        if let (Some(begin), Some(end)) = (run.begin, run.end) {
            kinds.entry(1).or_default().push(Slice {
                name: format!("{} {}", node.name, run.strategy),
                begin,
                seconds: end - begin,
                arguments: figures(run, node.rows),
            });
        }
        for span in &run.spans {
            let kind = match span.phase.as_str() {
                "load" => 2,
                "compile" => 3,
                "transfer" => 4,
                _ => 5,
            };
            kinds.entry(kind).or_default().push(Slice {
                name: format!("{} {}", node.name, span.phase),
                begin: span.begin,
                seconds: span.seconds,
                arguments: json!({}),
            });
        }
    }
    let mut events = vec![json!({
        "ph": "M", "pid": 1, "name": "process_name", "args": { "name": format!("galatea statement {}", summary.id) },
    })];
    for (kind, slices) in kinds {
        add_kind(&mut events, kind, slices);
    }
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": { "version": detail.version, "statement": summary.id, "began": summary.began },
    })
}

fn figures(run: &PipelineRun, rows: Option<u64>) -> Value {
    json!({
        "rows_scanned": run.rows_scanned,
        "rows_passed": run.rows_passed,
        "rows": rows,
        "chunks": run.chunks,
        "chunks_skipped": run.chunks_skipped,
        "device_bytes": run.device_bytes,
        "link_bytes": run.link_bytes,
        "launches": run.launches,
    })
}

/// Adds the slices of one kind: each on the first track that is free at its start.
fn add_kind(events: &mut Vec<Value>, kind: usize, mut slices: Vec<Slice>) {
    slices.sort_by(|a, b| a.begin.total_cmp(&b.begin));
    let mut ends: Vec<f64> = Vec::new();
    for slice in slices {
        let end = slice.begin + slice.seconds;
        let free = ends.iter().position(|taken| *taken <= slice.begin);
        let lane = free.unwrap_or(ends.len());
        let track = kind * LANES + lane + 1;
        match ends.get_mut(lane) {
            Some(taken) => *taken = end,
            None => {
                ends.push(end);
                events.push(json!({
                    "ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": { "name": KINDS[kind] },
                }));
                events.push(json!({
                    "ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": { "sort_index": track },
                }));
            }
        }
        events.push(json!({
            "ph": "X", "pid": 1, "tid": track, "cat": KINDS[kind], "name": slice.name,
            "ts": slice.begin * 1e6, "dur": slice.seconds * 1e6, "args": slice.arguments,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::{Ended, Plan, PlanNode, Span};

    #[test]
    fn overlapping_work_has_separate_tracks() {
        let span = |phase: &str, begin, seconds| Span {
            phase: phase.to_string(),
            begin,
            seconds,
        };
        let node = |name: &str, begin| PlanNode {
            name: name.to_string(),
            pipeline: true,
            run: Some(PipelineRun {
                strategy: "dense".to_string(),
                begin: Some(begin),
                end: Some(begin + 2.0),
                spans: vec![span("compile", begin, 0.5), span("kernel", begin + 1.0, 0.5)],
                ..PipelineRun::default()
            }),
            ..PlanNode::default()
        };
        let detail = StatementDetail {
            summary: Ended {
                id: 7,
                elapsed: 4.0,
                ..Ended::default()
            },
            statement: "SELECT '<script>'".to_string(),
            plan: Some(Plan {
                nodes: vec![PlanNode::default(), node("p1", 1.0), node("p0", 0.0)],
                ..Plan::default()
            }),
            ..StatementDetail::default()
        };
        let trace = trace(&detail);
        let events = trace["traceEvents"].as_array().expect("events");
        let slices: Vec<_> = (events.iter().filter(|event| event["ph"] == "X"))
            .map(|event| {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_string();
                let number = |key: &str| event[key].as_f64().unwrap_or(-1.0);
                (
                    text("cat"),
                    text("name"),
                    number("tid"),
                    number("ts"),
                    number("dur"),
                )
            })
            .collect();
        let slice = |kind: &str, name: &str, track: f64, ts: f64, dur: f64| {
            (kind.to_string(), name.to_string(), track, ts, dur)
        };
        let expected = [
            slice("statement", "statement 7", 1.0, 0.0, 4e6),
            slice("pipelines", "p0 dense", 1001.0, 0.0, 2e6),
            slice("pipelines", "p1 dense", 1002.0, 1e6, 2e6),
            slice("compilations", "p0 compile", 3001.0, 0.0, 5e5),
            slice("compilations", "p1 compile", 3001.0, 1e6, 5e5),
            slice("kernels", "p0 kernel", 5001.0, 1e6, 5e5),
            slice("kernels", "p1 kernel", 5001.0, 2e6, 5e5),
        ];
        assert_eq!(slices, expected);
    }
}
