//! The keys of small build sides that pipelines build on the device, found by CPU operators before the
//! device has built them.
//!
//! A load of a file leaves out the row groups and pages without a key of a build side. A pipeline finds the
//! keys of a build side on the device, but loads begin earlier, so that kernels are compiled meanwhile. CPU
//! operators read the keys of small files within milliseconds.

use super::copy::{local_files, reads_subquery};
use super::same_plan::gives_same_rows;
use arrow::array::{Array, ArrayRef};
use arrow::compute::{cast, max, min};
use arrow::datatypes::DataType;
use datafusion::common::cast::as_int64_array;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use galatea_store::{FileStamp, parquet_source};
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of rows of the files: CPU operators read them within some milliseconds.
const MAX_ROWS: usize = 1 << 18;

/// Finds the least and the greatest key of the rows of a small plan over Parquet files. Copies share the
/// result.
#[derive(Debug, Clone)]
pub struct KeyScan {
    files: Vec<PathBuf>,
    found: Arc<Mutex<Option<Found>>>,
}

/// The range of keys while the files have these stamps; `None` without rows.
type Found = (Vec<FileStamp>, Option<RangeInclusive<i128>>);

impl KeyScan {
    /// The scan of the keys of a plan's rows. `None` unless the plan filters or projects one table in local
    /// Parquet files with at most [`MAX_ROWS`] rows, returns the same rows in every run, and the keys are
    /// integers or dates.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>, key: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let data_type = key.data_type(&plan.schema()).ok()?;
        let is_known = data_type.is_integer() || data_type == DataType::Date32;
        if !is_known || is_volatile(key) || !gives_same_rows(plan) {
            return None;
        }
        Some(Self {
            files: files_below(plan)?,
            found: Arc::default(),
        })
    }

    /// The current stamps of the files; `None` if one is missing, or was changed a moment ago.
    pub(crate) fn stamps(&self) -> Option<Vec<FileStamp>> {
        self.files.iter().map(|file| FileStamp::of(file)).collect()
    }

    /// The range of the keys that an earlier scan of files with these stamps has found.
    pub(crate) fn found(&self, stamps: &[FileStamp]) -> Option<RangeInclusive<i128>> {
        let found = self.found.lock();
        let (of, range) = found.as_ref()?;
        (of == stamps).then(|| range.clone())?
    }

    /// Whether a scan has found a range of keys, whatever the files are now.
    pub(crate) fn has_range(&self) -> bool {
        self.found
            .lock()
            .as_ref()
            .is_some_and(|(_, range)| range.is_some())
    }

    /// Whether a scan of files with these stamps has run.
    pub(crate) fn has_run(&self, stamps: &[FileStamp]) -> bool {
        self.found.lock().as_ref().is_some_and(|(of, _)| of == stamps)
    }

    /// Scans the keys of `plan`, an instance of the plan. Its files had these `stamps` before. If the files
    /// change during the scan, the range is dropped.
    ///
    /// # Errors
    /// DataFusion's.
    pub(crate) async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
        stamps: Vec<FileStamp>,
        context: &Arc<TaskContext>,
    ) -> Result<()> {
        let mut batches = execute_stream(plan, Arc::clone(context))?;
        let mut range = None;
        while let Some(batch) = batches.try_next().await? {
            let keys = key.evaluate(&batch)?.into_array(batch.num_rows())?;
            range = union(range, range_of(&keys)?);
        }
        if self.stamps().as_ref() == Some(&stamps) {
            *self.found.lock() = Some((stamps, range));
        }
        Ok(())
    }
}

fn union(a: Option<RangeInclusive<i128>>, b: Option<RangeInclusive<i128>>) -> Option<RangeInclusive<i128>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(*a.start().min(b.start())..=*a.end().max(b.end())),
        (a, b) => a.or(b),
    }
}

/// The least and the greatest of these keys; `None` without keys.
///
/// # Errors
/// A key exceeds 64 bits with a sign.
fn range_of(keys: &ArrayRef) -> Result<Option<RangeInclusive<i128>>> {
    // A key that does not fit becomes NULL.
    let wide = cast(keys, &DataType::Int64)?;
    if wide.null_count() != keys.null_count() {
        return exec_err!("a key exceeds 64 bits");
    }
    let wide = as_int64_array(&wide)?;
    let (least, greatest) = (min(wide), max(wide));
    Ok(least
        .zip(greatest)
        .map(|(least, greatest)| least.into()..=greatest.into()))
}

/// The local Parquet files of a plan with one small table.
fn files_below(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<PathBuf>> {
    if reads_subquery(plan).unwrap_or(true) {
        return None;
    }
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
        parquet_source(config.file_source().as_ref())?;
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        let rows = statistics.ok()?.num_rows;
        let is_small = rows.get_value().is_some_and(|rows| *rows <= MAX_ROWS);
        return Some(local_files(config).filter(|_| is_small)?.collect());
    }
    let passes_rows = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>();
    match plan.children().as_slice() {
        [input] if passes_rows => files_below(input),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Date32Array, Int8Array, Int64Array, UInt64Array};

    #[test]
    fn range_spans_keys_without_nulls() {
        let range = |keys: ArrayRef| range_of(&keys).expect("keys of 64 bits");
        let keys = Int8Array::from(vec![None, Some(7), Some(-3), None]);
        assert_eq!(range(Arc::new(keys)), Some(-3..=7));
        assert_eq!(
            range(Arc::new(Date32Array::from(vec![Some(11), None]))),
            Some(11..=11)
        );
        let extremes = Int64Array::from(vec![i64::MAX, 0, i64::MIN]);
        assert_eq!(range(Arc::new(extremes)), Some(i64::MIN.into()..=i64::MAX.into()));
        assert_eq!(range(Arc::new(Int64Array::from(vec![None, None]))), None);
        assert_eq!(range(Arc::new(Int64Array::from(Vec::<i64>::new()))), None);
        let too_large: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
        assert!(range_of(&too_large).is_err());
    }

    #[test]
    fn union_spans_both_ranges() {
        assert_eq!(union(None, None), None);
        assert_eq!(union(Some(1..=2), None), Some(1..=2));
        assert_eq!(union(Some(5..=9), Some(-1..=6)), Some(-1..=9));
    }
}
