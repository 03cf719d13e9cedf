//! One version of a stored table.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use crate::column::{Column, Encoding};
use crate::decode::Decoder;
use crate::error::Result;
use crate::layout::ConflictLayout;
use crate::pool::on_pool;
use crate::reencode::Reencoder;
use crate::source::{ColumnSource, LoadHints, ProgressCallback, TableId, TableView, check_columns};
use crate::store::Store;

/// One version of a stored table.
#[derive(Debug)]
pub struct Snapshot {
    store: Arc<Store>,
    name: String,
    schema: SchemaRef,
    /// Identifies this version.
    pub id: TableId,
    /// Rows of each chunk.
    pub chunk_rows: Vec<u32>,
    /// All columns, in schema order.
    pub columns: Vec<Arc<Column>>,
    /// The layout requested for columns, by index. Columns that cannot have it are stored without a layout.
    pub layouts: BTreeMap<usize, ConflictLayout>,
    /// String columns encoded as dictionaries, on first use.
    dictionaries: tokio::sync::Mutex<HashMap<usize, Arc<Column>>>,
}

impl Snapshot {
    /// A new version. `layouts` are the requested layouts; `columns` are not laid out here.
    pub(super) fn new(
        store: &Arc<Store>,
        name: &str,
        schema: &SchemaRef,
        chunk_rows: Vec<u32>,
        columns: Vec<Arc<Column>>,
        layouts: BTreeMap<usize, ConflictLayout>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            name: name.to_owned(),
            schema: Arc::clone(schema),
            id: TableId::next(),
            chunk_rows,
            columns,
            layouts,
            dictionaries: tokio::sync::Mutex::default(),
        }
    }

    /// Rows in all chunks.
    pub fn rows(&self) -> u64 {
        self.chunk_rows.iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All columns.
    pub fn view(&self) -> TableView {
        TableView {
            id: self.id,
            schema: Arc::clone(&self.schema),
            rows: self.rows(),
            chunk_rows: self.chunk_rows.clone(),
            columns: self.columns.clone(),
            loaded: None,
        }
    }

    /// Decodes the whole table.
    pub(crate) fn decode(&self) -> Result<Vec<RecordBatch>> {
        self.decode_chunks(0..self.chunk_rows.len())
    }

    /// Decodes the chunks in a range.
    pub(super) fn decode_chunks(&self, chunks: Range<usize>) -> Result<Vec<RecordBatch>> {
        let decoders = self
            .columns
            .iter()
            .map(Decoder::new)
            .collect::<Result<Vec<_>>>()?;
        let mut batches = Vec::new();
        for chunk in chunks {
            let rows = self.chunk_rows[chunk] as usize;
            let mut start = 0;
            while start < rows {
                let fitting = decoders
                    .iter()
                    .map(|decoder| decoder.batch_rows(chunk, start, rows - start))
                    .min();
                let end = start + fitting.unwrap_or(rows - start);
                let arrays = decoders.iter().map(|decoder| decoder.decode(chunk, start..end));
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(end - start));
                batches.push(RecordBatch::try_new_with_options(
                    Arc::clone(&self.schema),
                    arrays,
                    &options,
                )?);
                start = end;
            }
        }
        Ok(batches)
    }

    /// Lays out the columns that have a requested layout but are stored without one, if possible.
    pub(super) fn with_layouts(mut self) -> Result<Self> {
        for (&index, &layout) in &self.layouts {
            let column = &self.columns[index];
            if column.layout().is_none() {
                let encoder = Reencoder::new(&self.store, &self.name, &self.schema, index)?;
                self.columns[index] = encoder.laid_out_if_possible(Arc::clone(column), layout)?;
            }
        }
        Ok(self)
    }

    /// The column as a dictionary; encoded again if it is not one.
    async fn dictionary(&self, index: usize) -> Result<Arc<Column>> {
        let column = &self.columns[index];
        if !matches!(column.encoding, Encoding::Text { .. }) {
            return Ok(Arc::clone(column));
        }
        let mut dictionaries = self.dictionaries.lock().await;
        if let Some(column) = dictionaries.get(&index) {
            return Ok(Arc::clone(column));
        }
        let encoder = Reencoder::new(&self.store, &self.name, &self.schema, index)?;
        let text = Arc::clone(column);
        let made = on_pool(move || encoder.as_dictionary(&text)).await?;
        dictionaries.insert(index, Arc::clone(&made));
        Ok(made)
    }
}

#[async_trait]
impl ColumnSource for Snapshot {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn identity(&self) -> TableId {
        self.id
    }

    fn kept(&self, columns: &[usize], _hints: &LoadHints) -> Option<Vec<Arc<Column>>> {
        columns
            .iter()
            .map(|index| self.columns.get(*index).cloned())
            .collect()
    }

    async fn load(
        &self,
        columns: &[usize],
        hints: &LoadHints,
        _progress: Option<ProgressCallback>,
    ) -> Result<TableView> {
        check_columns(columns, self.columns.len())?;
        let mut encoded = Vec::with_capacity(columns.len());
        for index in columns {
            encoded.push(match hints.dictionary.contains(index) {
                true => self.dictionary(*index).await?,
                false => Arc::clone(&self.columns[*index]),
            });
        }
        Ok(TableView {
            id: self.id,
            schema: Arc::new(self.schema.project(columns)?),
            rows: self.rows(),
            chunk_rows: self.chunk_rows.clone(),
            columns: encoded,
            loaded: None,
        })
    }
}
