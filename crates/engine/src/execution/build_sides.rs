//! Collects the rows of a build side that CPU operators compute.

use super::error::Failure;
use crate::device::RunError;
use crate::graph::BuildSide;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::execute_stream;
use futures::TryStreamExt;
use galatea_base::reason::Reason;
use galatea_expression::{LookupSide, MAX_INDICES};
use std::sync::Arc;

/// Runs the plan of a build side, and arranges its rows by key, with `columns` of them. `memory` grows by the
/// size of the collected rows.
pub(super) async fn collect(
    source: &BuildSide,
    columns: Vec<usize>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Arc<LookupSide>, Failure> {
    let mut batches = execute_stream(source.plan.instance()?, Arc::clone(context))?;
    // The key first, then the columns.
    let mut parts = vec![Vec::new(); 1 + columns.len()];
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += batch.num_rows() as u64;
        memory
            .try_grow(batch.get_array_memory_size())
            .map_err(Failure::Pool)?;
        if rows > MAX_INDICES {
            return Err(Failure::BuildSide(
                source.shape,
                Reason::Limit {
                    expression: format!("the join on {}", source.key_name()),
                    asked: rows,
                    limit: MAX_INDICES,
                    unit: "rows of the build side",
                },
            ));
        }
        parts[0].push(source.key.evaluate(&batch)?.into_array(batch.num_rows())?);
        for (part, column) in parts[1..].iter_mut().zip(&columns) {
            part.push(Arc::clone(batch.column(*column)));
        }
    }
    let schema = source.plan.plan().schema();
    let mut types = vec![source.key.data_type(&schema)?];
    types.extend(
        columns
            .iter()
            .map(|column| schema.field(*column).data_type().clone()),
    );
    let (name, unique) = (source.key_name(), source.unique);
    let arranged = tokio::task::spawn_blocking(move || {
        let mut arrays = (parts.iter().zip(&types))
            .map(|(part, data_type)| {
                let part: Vec<&dyn Array> = part.iter().map(AsRef::as_ref).collect();
                match part.as_slice() {
                    [] => Ok(arrow::array::new_empty_array(data_type)),
                    part => concat(part).map_err(RunError::Arrow),
                }
            })
            .collect::<Result<Vec<ArrayRef>, RunError>>()?
            .into_iter();
        let key = arrays
            .next()
            .unwrap_or_else(|| arrow::array::new_empty_array(&types[0]));
        let columns: Vec<_> = columns.into_iter().zip(arrays).collect();
        Ok::<_, RunError>(LookupSide::new(&name, &key, &columns, unique))
    });
    let arranged = arranged.await.map_err(|error| {
        let text = format!("the thread that arranged a build side ended early: {error}");
        Failure::Input(DataFusionError::Execution(text))
    })?;
    let build_side = arranged.map_err(Failure::Run)?;
    build_side
        .map(Arc::new)
        .map_err(|reason| Failure::BuildSide(source.shape, reason))
}
