//! Encodes a column of a table again: as a dictionary, or with another layout.

use std::sync::Arc;

use arrow::datatypes::Schema;

use crate::column::Column;
use crate::error::{Result, StoreError};
use crate::ingest::ChunkEncoder;
use crate::layout::ConflictLayout;
use crate::meter::Meter;
use crate::store::Store;

/// One column of a table, by name and type. The methods accept any encoding of it.
#[derive(Debug)]
pub(crate) struct Reencoder {
    store: Arc<Store>,
    table: String,
    /// A schema of only this column.
    schema: Schema,
}

impl Reencoder {
    /// Creates a re-encoder of the column with this index in the table's schema.
    pub(crate) fn new(store: &Arc<Store>, table: &str, schema: &Schema, index: usize) -> Result<Self> {
        Ok(Self {
            store: Arc::clone(store),
            table: table.to_owned(),
            schema: schema.project(&[index])?,
        })
    }

    /// Encodes strings as a dictionary.
    pub(crate) fn as_dictionary(&self, column: &Arc<Column>) -> Result<Arc<Column>> {
        self.anew(column, true)
    }

    /// The column with this layout; for `None`, in the encoding without a layout.
    pub(crate) fn laid_out(
        &self,
        column: &Arc<Column>,
        layout: Option<ConflictLayout>,
    ) -> Result<Arc<Column>> {
        let dictionary = column.dictionary().is_some();
        match layout {
            Some(layout) => {
                let encoder = self.encoder(dictionary)?;
                encoder.lay_out_column(&encoder.encoders[0], column, layout)
            }
            None if column.layout().is_none() => Ok(Arc::clone(column)),
            None => self.anew(column, dictionary),
        }
    }

    /// The column with this layout if it can have it, else unchanged.
    pub(crate) fn laid_out_if_possible(
        &self,
        column: Arc<Column>,
        layout: ConflictLayout,
    ) -> Result<Arc<Column>> {
        match self.laid_out(&column, Some(layout)) {
            Err(reason @ (StoreError::NoLayout { .. } | StoreError::StoreLimit { .. })) => {
                tracing::warn!(table = self.table, %reason, "a column keeps its encoding");
                Ok(column)
            }
            laid_out => laid_out,
        }
    }

    fn anew(&self, column: &Arc<Column>, dictionary: bool) -> Result<Arc<Column>> {
        let encoder = self.encoder(dictionary)?;
        let chunks = encoder.reencode(&encoder.encoders[0], column, column.chunks.len())?;
        encoder.finish_column(&encoder.encoders[0], chunks)
    }

    fn encoder(&self, dictionary: bool) -> Result<Arc<ChunkEncoder>> {
        let meter = Meter::new(None, None, 1);
        ChunkEncoder::new(&self.store, &self.table, &self.schema, |_| dictionary, meter)
    }
}
