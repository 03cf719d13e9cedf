//! Placed columns of tables: put in place when asked for, and again when rows came that undid it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::{Shared, Snapshot, StoredTable, check_columns};
use crate::column::Column;
use crate::error::{Result, StoreError};
use crate::ingest::{ChunkEncoder, Meter, on_pool};
use crate::placed::ConflictLayout;
use crate::source::TableId;
use crate::store::Store;

/// The column placed as wished; without a wish, as it is stored unplaced.
pub(crate) fn relaid(
    store: &Arc<Store>,
    table: &str,
    schema: &SchemaRef,
    index: usize,
    column: &Arc<Column>,
    wish: Option<ConflictLayout>,
) -> Result<Arc<Column>> {
    let schema = schema.project(&[index])?;
    let dictionary = |_| column.dictionary().is_some();
    let encoder = ChunkEncoder::new(store, table, &schema, dictionary, Meter::new(None, None, 1))?;
    match wish {
        Some(wish) => encoder.place_column(&encoder.encoders[0], column, wish),
        None if column.placed().is_none() => Ok(Arc::clone(column)),
        None => {
            let chunks = encoder.reencode(&encoder.encoders[0], column, column.chunks.len())?;
            encoder.finish_column(&encoder.encoders[0], chunks)
        }
    }
}

/// The column placed as wished where that is possible, and as it is where it is not.
pub(crate) fn relaid_if_possible(
    store: &Arc<Store>,
    table: &str,
    schema: &SchemaRef,
    index: usize,
    column: Arc<Column>,
    wish: ConflictLayout,
) -> Result<Arc<Column>> {
    match relaid(store, table, schema, index, &column, Some(wish)) {
        Err(reason @ (StoreError::NotPlaceable { .. } | StoreError::StoreLimit { .. })) => {
            tracing::warn!(table, %reason, "a column stays as it is");
            Ok(column)
        }
        relaid => relaid,
    }
}

impl Snapshot {
    /// Places the columns that shall be placed and are not, where that is possible.
    pub(super) fn relaid(mut self) -> Result<Self> {
        for (&index, &wish) in &self.layouts {
            let column = &self.columns[index];
            if column.placed().is_none() {
                let (store, name, column) = (&self.store, &self.name, Arc::clone(column));
                self.columns[index] = relaid_if_possible(store, name, &self.schema, index, column, wish)?;
            }
        }
        Ok(self)
    }
}

impl StoredTable {
    /// Places columns, given by their indices, for the banks of shared memory, or has them as they are stored
    /// unplaced: a new snapshot, atomically. Remembered for rows that come later. Rows keep their order.
    ///
    /// # Errors
    /// [`StoreError::NotPlaceable`] for the first that cannot be, [`StoreError::UnknownColumn`], or the
    /// store's memory limit is reached; the table is then unchanged.
    pub async fn set_conflict_layout(&self, columns: &[usize], wish: Option<ConflictLayout>) -> Result<()> {
        check_columns(columns, self.shared.schema.fields().len())?;
        let change = self.lock_changes().await;
        let (table, indices) = (self.clone(), columns.to_vec());
        on_pool(move || {
            let _change = change;
            table.lay_out_now(&indices, wish)
        })
        .await
    }

    fn lay_out_now(&self, indices: &[usize], wish: Option<ConflictLayout>) -> Result<()> {
        let Shared {
            store, name, schema, ..
        } = self.shared.as_ref();
        let before = self.snapshot();
        let (mut columns, mut layouts) = (before.columns.clone(), before.layouts.clone());
        for &index in indices {
            columns[index] = relaid(store, name, schema, index, &columns[index], wish)?;
            match wish {
                Some(wish) => layouts.insert(index, wish),
                None => layouts.remove(&index),
            };
        }
        self.shared.set_current(Snapshot {
            store: Arc::clone(store),
            name: name.clone(),
            schema: Arc::clone(schema),
            id: TableId::next(),
            chunk_rows: before.chunk_rows.clone(),
            columns,
            layouts,
            dictionaries: tokio::sync::Mutex::default(),
        });
        Ok(())
    }
}
