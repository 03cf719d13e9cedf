//! Build sides that several pipelines of a graph read: the first reader computes one, and the last one frees
//! it.
//!
//! Only one reader at a time runs: a run holds the regions of its build sides while it waits for memory, so
//! it could otherwise wait for another reader that waits for these regions. A reader locks its shared build
//! sides in the order of their numbers, before its run is admitted.

use super::error::Failure;
use crate::graph::{PipelineGraph, PipelineId, PipelineRef};
use crate::joins::build_table::SideRows;
use futures::lock::{Mutex, OwnedMutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The shared build sides of a graph, by the pipelines that build them.
#[derive(Debug, Default)]
pub(crate) struct SharedBuilds(BTreeMap<PipelineId, Shared>);

/// A shared build side.
#[derive(Debug)]
pub(super) struct Shared {
    rows: Mutex<Kept>,
    turn: Arc<Mutex<()>>,
}

/// The rows of a shared build side, once a reader has computed them.
#[derive(Debug)]
struct Kept {
    rows: Option<SideRows>,
    /// Readers that do not have them yet.
    left: usize,
}

/// The turn of a reader at its shared build sides.
pub(super) struct Turn(#[expect(dead_code, reason = "released when dropped")] Vec<OwnedMutexGuard<()>>);

impl SharedBuilds {
    /// Those of a graph.
    pub(super) fn of(graph: &PipelineGraph) -> Self {
        let shared = graph.shared().into_iter().map(|(pipeline, left)| {
            let shared = Shared {
                rows: Mutex::new(Kept { rows: None, left }),
                turn: Arc::default(),
            };
            (pipeline, shared)
        });
        Self(shared.collect())
    }

    /// Whether each pipeline has one reader.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The build side that a pipeline builds; `None` if it has one reader.
    pub(super) fn of_pipeline(&self, pipeline: PipelineId) -> Option<&Shared> {
        self.0.get(&pipeline)
    }

    /// Waits until no other reader of the pipeline's shared build sides runs.
    pub(super) async fn turn(&self, pipeline: PipelineRef<'_>) -> Turn {
        let sides = pipeline.get().build_sides.iter();
        let mut own: Vec<PipelineId> = sides
            .filter_map(|side| side.build)
            .map(|build| build.pipeline)
            .collect();
        own.sort_unstable();
        own.dedup();
        let mut turns = Vec::new();
        for shared in own.iter().filter_map(|pipeline| self.0.get(pipeline)) {
            turns.push(Arc::clone(&shared.turn).lock_owned().await);
        }
        Turn(turns)
    }
}

impl Shared {
    /// The rows; the first reader computes them.
    pub(super) async fn rows(
        &self,
        compute: impl Future<Output = Result<SideRows, Failure>>,
    ) -> Result<SideRows, Failure> {
        let mut kept = self.rows.lock().await;
        let rows = match kept.rows.take() {
            Some(rows) => rows,
            None => compute.await?,
        };
        kept.left = kept.left.saturating_sub(1);
        if kept.left > 0 {
            kept.rows = Some(rows.share());
        }
        Ok(rows)
    }
}
