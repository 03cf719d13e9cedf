//! Residence of a pipeline's columns at planning time: reads nothing and opens nothing.

use super::Estimator;
use crate::config::GalateaConfig;
use crate::device::DeviceRuntime;
use crate::device::columns::away;
use crate::graph::{Pipeline, PipelineSource};
use crate::session::Session;
use arrow::array::Array;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use galatea_store::{ColumnSource, LoadHints, TableId};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Residence of a pipeline's columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Residence {
    /// The table of the columns; `None` for rows of operators.
    pub(super) table: Option<TableId>,
    /// Each column, in the requested order.
    pub(super) columns: Vec<ColumnResidence>,
    /// Whether the device is open.
    pub(super) open: bool,
}

/// Residence of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ColumnResidence {
    /// Its encoded bytes; `None` if it would have to be read or encoded first.
    pub(super) encoded: Option<u64>,
    /// Bytes to transfer for the pages that are not in device memory; packed codes are smaller.
    pub(super) away: u64,
    /// Its encoded bytes in the column cache on disk, if it is cached there and not in memory.
    pub(super) on_disk: Option<u64>,
    /// Values of its dictionary, if it is encoded and has one.
    pub(super) values: usize,
    /// Whether it must have a dictionary, although it is a string.
    pub(super) dictionary: bool,
}

/// Columns of a scan that were looked up, by number and whether they must have a dictionary.
#[derive(Default)]
pub(super) struct KnownColumns(RefCell<HashMap<(usize, bool), ColumnResidence>>);

impl KnownColumns {
    fn get_or(&self, column: (usize, bool), find: impl FnOnce() -> ColumnResidence) -> ColumnResidence {
        if let Some(known) = self.0.borrow().get(&column) {
            return *known;
        }
        let found = find();
        self.0.borrow_mut().insert(column, found);
        found
    }
}

impl Estimator {
    /// Residence of these columns of `found`.
    pub(super) fn residence(
        &self,
        found: &Pipeline,
        columns: &[usize],
        session: &Session,
        config: &GalateaConfig,
    ) -> Residence {
        let device = session.engine().opened(config);
        let dictionary: BTreeSet<usize> = found.plan.dictionary_columns();
        let source = self.source(found, session);
        let known = match &found.source {
            PipelineSource::Files { scan, .. } => {
                let scan = Arc::clone(scan) as Arc<dyn ExecutionPlan>;
                self.known.columns.get_or(&scan, Rc::default)
            }
            _ => Rc::default(),
        };
        let pruning = OnceCell::new();
        let residence = |column: usize| {
            let dictionary = dictionary.contains(&column);
            let find = || {
                let predicates = pruning.get_or_init(|| expected_pruning(found, session));
                residence(
                    source.as_deref(),
                    (column, dictionary),
                    predicates,
                    device.as_deref(),
                )
            };
            known.get_or((column, dictionary), find)
        };
        Residence {
            table: source.as_ref().map(|source| source.identity()),
            columns: columns.iter().map(|column| residence(*column)).collect(),
            open: device.is_some(),
        }
    }

    /// The table that a pipeline reads.
    fn source(&self, found: &Pipeline, session: &Session) -> Option<Arc<dyn ColumnSource>> {
        match &found.source {
            PipelineSource::Stored(table) => Some(Arc::clone(table)),
            PipelineSource::Files { scan, .. } => {
                let plan = Arc::clone(scan) as Arc<dyn ExecutionPlan>;
                self.known.tables.get_or(&plan, || file_table(scan, session))
            }
            PipelineSource::Groups(_)
            | PipelineSource::Pairs(_)
            | PipelineSource::Windows(_)
            | PipelineSource::Union(_)
            | PipelineSource::Plan(_) => None,
        }
    }
}

fn file_table(scan: &DataSourceExec, session: &Session) -> Option<Arc<dyn ColumnSource>> {
    let scan = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let store = session.engine().store();
    Some(store.file_table(scan, session.environment()?).ok()?)
}

/// The predicates that choose the rows to load, if build sides have the keys of their last run.
fn expected_pruning(found: &Pipeline, session: &Session) -> Vec<Arc<dyn PhysicalExpr>> {
    let history = session.engine().history();
    let keys = |number: usize| history.keys(found.build_sides[number].rows_key?);
    found.pruning_by(&found.match_bounds(&found.plan, keys))
}

/// Residence of a column of a table, which may have to have a dictionary.
fn residence(
    source: Option<&dyn ColumnSource>,
    (column, dictionary): (usize, bool),
    predicates: &[Arc<dyn PhysicalExpr>],
    device: Option<&DeviceRuntime>,
) -> ColumnResidence {
    let unknown = ColumnResidence {
        dictionary,
        ..ColumnResidence::default()
    };
    let hints = LoadHints {
        predicates: predicates.to_vec(),
        ..LoadHints::with_dictionaries(dictionary.then_some(column).into_iter().collect())
    };
    let kept = source.and_then(|source| source.kept(&[column], &hints));
    let Some(kept) = kept.and_then(|kept| kept.into_iter().next()) else {
        let on_disk = source.and_then(|source| source.on_disk(column, &hints));
        return ColumnResidence {
            on_disk: on_disk.map(|found| found.bytes),
            ..unknown
        };
    };
    let here = device.map_or(0, |device| device.memory().bytes_of(&*kept));
    ColumnResidence {
        values: kept.dictionary().map_or(0, Array::len),
        encoded: Some(kept.scan_bytes()),
        away: away(kept.chunks.iter(), here),
        ..unknown
    }
}
