//! Where a pipeline's columns are when it is planned: reads nothing and opens nothing.

use crate::config::GalateaConfig;
use crate::device::columns::{ColumnPages, away};
use crate::graph::{Pipeline, PipelineSource};
use crate::session::Session;
use arrow::array::Array;
use datafusion::datasource::physical_plan::FileScanConfig;
use galatea_store::{ColumnSource, LoadHints, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is known of a pipeline's columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Residence {
    /// The table that they are of; none of rows that operators make.
    pub(super) table: Option<TableId>,
    /// Each, in the order that was asked for.
    pub(super) columns: Vec<ColumnResidence>,
    /// Whether the device is open.
    pub(super) open: bool,
}

/// What is known of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ColumnResidence {
    /// Its bytes, encoded; none if it would have to be read or encoded first.
    pub(super) encoded: Option<u64>,
    /// What comes over the link for those that are not in device memory; packed codes are fewer.
    pub(super) away: u64,
    /// Values of its dictionary, if it is encoded and has one.
    pub(super) values: usize,
    /// Whether it must be a dictionary, although it is text.
    pub(super) dictionary: bool,
}

impl Residence {
    /// Of the columns of `found`.
    pub(super) fn of(found: &Pipeline, columns: &[usize], session: &Session, config: &GalateaConfig) -> Self {
        let device = session.engine().opened(config);
        let open = device.is_some();
        let dictionary: BTreeSet<usize> = found.plan.dictionary_columns();
        let unknown = |column: &usize| ColumnResidence {
            dictionary: dictionary.contains(column),
            ..ColumnResidence::default()
        };
        let Some(source) = source(found, session) else {
            return Self {
                table: None,
                columns: columns.iter().map(unknown).collect(),
                open,
            };
        };
        let hints = LoadHints {
            dictionary: dictionary.iter().copied().collect(),
        };
        let residence = |column: &usize| {
            let Some(kept) = source
                .kept(&[*column], &hints)
                .and_then(|kept| kept.into_iter().next())
            else {
                return unknown(column);
            };
            let bytes = kept.scan_bytes();
            let here = device
                .as_ref()
                .map_or(0, |device| device.memory().bytes_of(&ColumnPages(&kept)));
            ColumnResidence {
                values: kept.dictionary().map_or(0, Array::len),
                encoded: Some(bytes),
                away: away(kept.chunks.iter(), here),
                ..unknown(column)
            }
        };
        Self {
            table: Some(source.identity()),
            columns: columns.iter().map(residence).collect(),
            open,
        }
    }
}

/// The table whose columns a pipeline reads.
fn source(found: &Pipeline, session: &Session) -> Option<Arc<dyn ColumnSource>> {
    match &found.source {
        PipelineSource::Stored(table) => Some(Arc::clone(table)),
        PipelineSource::Files { scan, .. } => {
            let scan = scan.data_source().downcast_ref::<FileScanConfig>()?;
            let store = session.engine().store();
            Some(store.file_table(scan, session.environment()?).ok()?)
        }
        PipelineSource::Groups(_)
        | PipelineSource::Pairs(_)
        | PipelineSource::Windows(_)
        | PipelineSource::Union(_)
        | PipelineSource::Plan(_) => None,
    }
}
