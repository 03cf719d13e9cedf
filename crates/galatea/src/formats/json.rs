//! JSON files as tables: consecutive objects in any layout, or one array of objects.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::JsonOptions;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::{JsonFormat, JsonFormatFactory};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::error::Result;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use futures::stream::{self, StreamExt, TryStreamExt};
use galatea_store::{JsonFiles, Objects, StoreError, file_head};
use object_store::{ObjectMeta, ObjectStore};

use super::folders;
use super::json_types::JsonType;
use super::look::{AT_ONCE, Found, bytes_of_each, known, name_of, rows_of_each};
use super::merge::{Seen, merged, without_nulls};

/// Creates [`JsonTables`] with the options of a statement.
#[derive(Debug)]
pub(crate) struct JsonTablesFactory;

impl FileFormatFactory for JsonTablesFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let format = JsonFormatFactory::new().create(state, options)?;
        match format.downcast_ref::<JsonFormat>() {
            Some(json) => Ok(Arc::new(JsonTables::new(json.options().clone()))),
            None => Ok(format),
        }
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(JsonTables::new(JsonOptions::default()))
    }
}

impl GetExt for JsonTablesFactory {
    fn get_ext(&self) -> String {
        JsonFormatFactory::new().get_ext()
    }
}

/// The format of JSON files.
#[derive(Debug)]
pub(crate) struct JsonTables {
    plain: JsonFormat,
}

impl JsonTables {
    pub(crate) fn new(options: JsonOptions) -> Self {
        Self {
            plain: JsonFormat::default().with_options(options),
        }
    }

    pub(super) fn options(&self) -> &JsonOptions {
        self.plain.options()
    }

    /// The columns of the objects of a file.
    async fn look(
        &self,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
        rows: usize,
        name: &str,
    ) -> Result<Schema> {
        let compression = FileCompressionType::from(self.options().compression);
        let mut bytes = bytes_of_each(self.options().schema_infer_max_rec);
        loop {
            let (head, whole) = file_head(store, object, compression, bytes).await?;
            if let Some(schema) = columns(head, whole, rows, name)? {
                return Ok(schema);
            }
            // No object ends within these bytes.
            bytes = bytes.saturating_mul(16);
        }
    }
}

/// The columns of the first objects; `None` if the bytes contain no complete object.
fn columns(mut head: Vec<u8>, whole: bool, rows: usize, name: &str) -> Result<Option<Schema>> {
    let bad =
        |place: String, column: Option<String>, reason: String, hint: Option<&str>| StoreError::BadRow {
            file: name.to_owned(),
            place,
            column,
            reason,
            hint: hint.map(ToOwned::to_owned),
        };
    let not_objects = |reason| bad(String::new(), None, format!("not JSON objects: {reason}"), None);
    let mut objects = Objects::default();
    objects.feed(&mut head).map_err(not_objects)?;
    if whole {
        objects.finish().map_err(not_objects)?;
    }
    let mut all = JsonType::Null;
    let mut count = 0;
    for object in serde_json::Deserializer::from_slice(&head).into_iter::<JsonType>() {
        match object {
            Ok(JsonType::Object(keys)) => all = all.and(JsonType::Object(keys)),
            Ok(_) => {
                let text = "not a JSON object".to_owned();
                return Err(bad(format!("object {}", count + 1), None, text, None).into());
            }
            Err(error) if error.is_eof() && !whole => break,
            Err(error) => {
                let line = format!("line {}", error.line());
                return Err(bad(line, None, format!("not valid JSON: {error}"), None).into());
            }
        }
        count += 1;
        if count >= rows.max(1) {
            break;
        }
    }
    let JsonType::Object(keys) = all else {
        return Ok(whole.then(Schema::empty));
    };
    let fields = keys.fields().map_err(|column| {
        let reason =
            "it has objects or lists in some rows and other values in others, and no type holds both";
        bad(
            String::new(),
            Some(column),
            reason.to_owned(),
            Some("make the values of the column all of one kind"),
        )
    })?;
    Ok(Some(Schema::new(fields)))
}

#[async_trait]
impl FileFormat for JsonTables {
    fn get_ext(&self) -> String {
        self.plain.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.plain.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.plain.compression_type()
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let rows = rows_of_each(objects.len(), self.options().schema_infer_max_rec);
        let store_name = store.to_string();
        let looks: Vec<_> = objects
            .iter()
            .cloned()
            .map(|object| {
                let name = name_of(&object, &store_name);
                async move {
                    let how = format!("json {rows} {:?}", self.options());
                    let look = async {
                        let schema = Arc::new(self.look(store, &object, rows, &name).await?);
                        Ok(Found { schema, header: None })
                    };
                    let schema = known(&object, how, look).await?.schema.as_ref().clone();
                    Ok::<_, datafusion::error::DataFusionError>(Seen { file: name, schema })
                }
            })
            .collect();
        let seen: Vec<Seen> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        let seen: Vec<Seen> = seen
            .into_iter()
            .filter(|seen| !seen.schema.fields().is_empty())
            .collect();
        Ok(Arc::new(without_nulls(&merged(seen)?)))
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plain.create_physical_plan(state, conf).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = folders::named(input, &conf)?;
        self.plain
            .create_writer_physical_plan(input, state, conf, order)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(JsonFiles::new(table_schema))
    }
}
