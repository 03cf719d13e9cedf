//! Collects points from the rows of a plan.

use std::sync::Arc;

use arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::exec_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use galatea_kmeans::{Points, PointsBuilder};

/// The rows of a plan in the order of its partitions, and their memory reservation.
pub(super) struct Rows {
    pub(super) batches: Vec<RecordBatch>,
    reservations: Vec<MemoryReservation>,
}

impl Rows {
    /// Reserves `bytes` more.
    pub(super) fn grow(&self, bytes: u64) -> Result<()> {
        match self.reservations.first() {
            Some(reservation) => reservation.try_grow(bytes as usize),
            None => Ok(()),
        }
    }
}

/// Reads all partitions concurrently, and only the columns of `keep`, if it is given.
pub(super) async fn rows(
    input: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    keep: Option<Vec<usize>>,
) -> Result<Rows> {
    let partitions = input.properties().output_partitioning().partition_count();
    let mut tasks = Vec::with_capacity(partitions);
    for partition in 0..partitions {
        let mut stream = input.execute(partition, Arc::clone(context))?;
        let consumer = MemoryConsumer::new(format!("KMeansExec[{partition}]"));
        let reservation = consumer.register(context.memory_pool());
        let keep = keep.clone();
        tasks.push(SpawnedTask::spawn(async move {
            let mut batches = Vec::new();
            while let Some(batch) = stream.next().await {
                let batch = match &keep {
                    Some(keep) => batch?.project(keep)?,
                    None => batch?,
                };
                reservation.try_grow(batch.get_array_memory_size())?;
                batches.push(batch);
            }
            Ok::<_, DataFusionError>((batches, reservation))
        }));
    }
    let (mut batches, mut reservations) = (Vec::new(), Vec::new());
    for task in tasks {
        let (some, reservation) = task
            .join_unwind()
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))??;
        batches.extend(some);
        reservations.push(reservation);
    }
    Ok(Rows {
        batches,
        reservations,
    })
}

/// The points in the columns of batches. `goes_on` is called after each batch; its error ends the work.
///
/// # Errors
/// NULL, NaN and infinite values, with column and number; host memory.
pub(super) fn points(
    name: &str,
    batches: &[RecordBatch],
    columns: &[usize],
    goes_on: &dyn Fn() -> Result<()>,
) -> Result<Option<Points>> {
    let Some(first) = batches.first() else {
        return Ok(None);
    };
    let schema = first.schema();
    let names: Vec<String> = columns.iter().map(|c| schema.field(*c).name().clone()).collect();
    let narrow = columns
        .iter()
        .all(|c| *schema.field(*c).data_type() == DataType::Float32);
    let mut builder = PointsBuilder::new(names.clone()).map_err(|error| failed(name, &error))?;
    let mut nulls = vec![0u64; columns.len()];
    for batch in batches {
        goes_on()?;
        let appended = if narrow {
            builder.append(&values::<Float32Type>(batch, columns, &mut nulls)?)
        } else {
            builder.append_wide(&values::<Float64Type>(batch, columns, &mut nulls)?)
        };
        appended.map_err(|error| failed(name, &error))?;
    }
    let bad = names.iter().zip(&nulls).zip(builder.not_finite());
    let bad: Vec<String> = bad
        .filter_map(|((column, nulls), not_finite)| match (nulls, not_finite) {
            (0, 0) => None,
            (nulls, 0) => Some(format!("column {column} is NULL in {nulls} rows")),
            (0, not_finite) => Some(format!("column {column} is NaN or infinite in {not_finite} rows")),
            (nulls, not_finite) => Some(format!(
                "column {column} is NULL in {nulls} rows, NaN or infinite in {not_finite}"
            )),
        })
        .collect();
    if !bad.is_empty() {
        return exec_err!(
            "{name}: {}\nhint: leave these rows out: WHERE x IS NOT NULL AND NOT isnan(x)",
            bad.join("; ")
        );
    }
    builder.finish().map(Some).map_err(|error| failed(name, &error))
}

/// The values of columns. NULL becomes 0 and is counted.
fn values<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    columns: &[usize],
    nulls: &mut [u64],
) -> Result<Vec<Vec<T::Native>>> {
    let convert = |(column, nulls): (&usize, &mut u64)| {
        let array = cast(batch.column(*column), &T::DATA_TYPE)?;
        let array: &PrimitiveArray<T> = array.as_primitive();
        if array.null_count() == 0 {
            return Ok(array.values().to_vec());
        }
        *nulls += array.null_count() as u64;
        Ok(array.iter().map(Option::unwrap_or_default).collect())
    };
    columns.iter().zip(nulls).map(convert).collect()
}

/// Converts an error of k-means to DataFusion's.
pub(super) fn failed(name: &str, error: &galatea_kmeans::KMeansError) -> DataFusionError {
    DataFusionError::Execution(format!("{name}: {error}"))
}
