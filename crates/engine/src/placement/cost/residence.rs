//! Where a pipeline's columns are when it is planned: reads nothing and opens nothing.

use crate::config::GalateaConfig;
use crate::execution::columns::ColumnPages;
use crate::placement::{PipelineSource, Subtree};
use crate::runtime::Runtime;
use datafusion::datasource::physical_plan::FileScanConfig;
use galatea_store::{Column, ColumnSource, LoadHints};
use std::sync::Arc;

/// What is known of a pipeline's columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Residence {
    /// Bytes of all of them, encoded; none if some would have to be read first.
    pub(super) encoded: Option<u64>,
    /// Bytes of those that are not in device memory.
    pub(super) away: Option<u64>,
    /// Whether the device is open.
    pub(super) open: bool,
}

impl Residence {
    /// Of the columns of `found`, ascending.
    pub(super) fn of(found: &Subtree, columns: &[usize], runtime: &Runtime, config: &GalateaConfig) -> Self {
        let device = runtime.opened(config);
        let open = device.is_some();
        let Some(kept) = kept(found, columns, runtime, config) else {
            return Self {
                open,
                ..Self::default()
            };
        };
        let bytes = |column: &Arc<Column>| column.scan_bytes();
        let here = |column: &Arc<Column>| {
            let device = device.as_ref();
            device.map_or(0, |device| device.memory().bytes_of(&ColumnPages(column)))
        };
        let away = |column: &Arc<Column>| bytes(column).saturating_sub(here(column));
        Self {
            encoded: Some(kept.iter().map(bytes).sum()),
            away: Some(kept.iter().map(away).sum()),
            open,
        }
    }
}

/// The columns, if all are encoded.
fn kept(
    found: &Subtree,
    columns: &[usize],
    runtime: &Runtime,
    config: &GalateaConfig,
) -> Option<Vec<Arc<Column>>> {
    let hints = LoadHints {
        dictionary: found.plan.dictionary_columns().into_iter().collect(),
    };
    match &found.source {
        PipelineSource::Stored(table) => table.kept(columns, &hints),
        PipelineSource::Files { scan } => {
            let scan = scan.data_source().downcast_ref::<FileScanConfig>()?;
            let table = runtime
                .store(config)
                .file_table(scan, runtime.environment()?)
                .ok()?;
            table.kept(columns, &hints)
        }
        // There are none.
        PipelineSource::Groups(_) | PipelineSource::Pairs(_) | PipelineSource::Windows(_) => Some(Vec::new()),
        PipelineSource::Plan(_) => None,
    }
}
