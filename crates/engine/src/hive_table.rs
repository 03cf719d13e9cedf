//! Tables of files in folders `key=value`. Hive's default partition is a NULL.
//!
//! DataFusion's [`ListingTable`] reads the folder `key=__HIVE_DEFAULT_PARTITION__` as that string, cannot
//! convert it to another type, and declares partition columns as not nullable. [`HiveTable`] lists the
//! folders as strings, converts their names, and then prunes files by the values.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Column, ColumnStatistics, Constraints, DFSchema, Result, ScalarValue, SchemaExt, Statistics, plan_err,
    project_schema,
};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::datasource::listing::{ListingTable, ListingTableConfig, ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{
    FileGroup, FileOutputMode, FileScanConfigBuilder, FileSinkConfig,
};
use datafusion::datasource::table_schema::TableSchemaBuilder;
use datafusion::execution::cache::TableScopedPath;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use galatea_store::is_of_row;

/// The value of a NULL in the name of a folder.
pub const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// A table of files in folders `key=value`.
#[derive(Debug)]
pub struct HiveTable {
    /// The table as it was declared.
    declared: ListingTable,
    /// The same table with strings as the values of folders.
    raw: ListingTable,
    schema: SchemaRef,
    /// The partition columns: the last of the schema.
    keys: Vec<FieldRef>,
}

/// The table of files behind a provider.
#[must_use]
pub fn listing(provider: &dyn TableProvider) -> Option<&ListingTable> {
    match provider.downcast_ref::<HiveTable>() {
        Some(table) => Some(&table.declared),
        None => provider.downcast_ref::<ListingTable>(),
    }
}

/// The provider of a table of files: a [`HiveTable`], if it has partition columns.
///
/// # Errors
/// Those of [`ListingTable::try_new`].
pub fn provider(table: ListingTable, state: &dyn Session) -> Result<Arc<dyn TableProvider>> {
    let options = table.options();
    if options.table_partition_cols.is_empty() || options.output_partitioning.is_some() {
        return Ok(Arc::new(table));
    }
    Ok(Arc::new(HiveTable::new(table, state)?))
}

fn is_string(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_string(values),
        _ => false,
    }
}

impl HiveTable {
    fn new(declared: ListingTable, state: &dyn Session) -> Result<Self> {
        let options = declared.options().clone();
        let keys = options
            .table_partition_cols
            .iter()
            .map(|(name, kind)| Arc::new(Field::new(name, kind.clone(), true)));
        let keys: Vec<FieldRef> = keys.collect();
        let table = declared.schema();
        let in_files = table.fields().len() - keys.len();
        let in_files = table.fields()[..in_files].to_vec();
        let fields: Vec<FieldRef> = in_files.iter().chain(&keys).cloned().collect();
        let schema = Schema::new_with_metadata(fields, table.metadata().clone());
        let strings = keys.iter().map(|key| {
            let is_string = is_string(key.data_type());
            let kind = if is_string {
                key.data_type().clone()
            } else {
                DataType::Utf8
            };
            (key.name().clone(), kind)
        });
        let options = options.with_table_partition_cols(strings.collect());
        let in_files = Schema::new_with_metadata(in_files, table.metadata().clone());
        let config = ListingTableConfig::new_with_multi_paths(declared.table_paths().clone())
            .with_listing_options(options)
            .with_schema(Arc::new(in_files));
        let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
        Ok(Self {
            raw: ListingTable::try_new(config)?.with_cache(cache),
            declared,
            schema: Arc::new(schema),
            keys,
        })
    }

    fn key_names(&self) -> Vec<&str> {
        self.keys.iter().map(|key| key.name().as_str()).collect()
    }

    /// Whether a filter can be evaluated on the values of folders.
    fn is_of_folders(&self, filter: &Expr) -> bool {
        let has_query = filter.exists(|part| {
            Ok(matches!(
                part,
                Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
            ))
        });
        !has_query.unwrap_or(true) && expr_applicable_for_cols(&self.key_names(), filter)
    }

    /// Whether a filter selects one folder by its string. DataFusion then lists that folder alone.
    fn is_of_one_folder(&self, filter: &Expr) -> bool {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = filter
        else {
            return false;
        };
        let (Expr::Column(column), Expr::Literal(value, _)) = (left.as_ref(), right.as_ref()) else {
            return false;
        };
        let key = self.keys.iter().find(|key| *key.name() == column.name);
        key.is_some_and(|key| is_string(key.data_type()) && *key.data_type() == value.data_type())
            && matches!(value.try_as_str(), Some(Some(text)) if text != NULL_FOLDER)
    }

    /// A listed file, with values of the declared types.
    fn typed(&self, file: &PartitionedFile) -> Result<PartitionedFile> {
        let mut file = file.clone();
        let values = file.partition_values.iter().zip(&self.keys);
        let values = values.map(|(value, key)| {
            let text: Cow<'_, str> = match value.try_as_str() {
                Some(Some(text)) => Cow::Borrowed(text),
                _ => return ScalarValue::try_new_null(key.data_type()),
            };
            if text == NULL_FOLDER {
                return ScalarValue::try_new_null(key.data_type());
            }
            if is_string(key.data_type()) {
                return Ok(value.clone());
            }
            match ScalarValue::try_from_string(text.to_string(), key.data_type()) {
                Ok(value) if !value.is_null() => Ok(value),
                _ => plan_err!(
                    "cannot read '{}': the folder '{}={text}' is no {}, the type of the column\nhint: declare the \
                     column as VARCHAR",
                    file.object_meta.location,
                    key.name(),
                    key.data_type()
                ),
            }
        });
        file.partition_values = values.collect::<Result<_>>()?;
        if let Some(known) = file.statistics.take() {
            let mut known = Arc::unwrap_or_clone(known);
            known
                .column_statistics
                .truncate(self.schema.fields().len() - self.keys.len());
            let rows = known.num_rows;
            let values = file.partition_values.iter();
            known
                .column_statistics
                .extend(values.map(|value| of_value(value, rows)));
            file.statistics = Some(Arc::new(known));
        }
        Ok(file)
    }

    /// The files, without those that the filters on folders exclude.
    async fn files(
        &self,
        state: &dyn Session,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Vec<PartitionedFile>> {
        let listed = filters.iter().filter(|filter| self.is_of_one_folder(filter));
        let listed: Vec<Expr> = listed.cloned().collect();
        let listed = self.raw.list_files_for_scan(state, &listed, limit).await?;
        let schema = DFSchema::from_unqualified_fields(self.keys.clone().into(), Default::default())?;
        let filters = filters.iter().map(|filter| {
            let filter = unqualified(filter.clone())?;
            create_physical_expr(
                &filter,
                &schema,
                state.execution_props(),
                &PhysicalPlanningContext::default(),
            )
        });
        let filters = filters.collect::<Result<Vec<_>>>()?;
        let mut files = Vec::new();
        for file in listed.file_groups.iter().flat_map(FileGroup::iter) {
            let file = self.typed(file)?;
            if is_selected(&file, &filters, schema.inner())? {
                files.push(file);
            }
        }
        Ok(files)
    }

    fn statistics(&self, files: &[PartitionedFile]) -> Result<Statistics> {
        let known: Option<Vec<&Statistics>> = files.iter().map(|file| file.statistics.as_deref()).collect();
        match known {
            Some(known) => Statistics::try_merge_iter(known, &self.schema),
            None => Ok(Statistics::new_unknown(&self.schema)),
        }
    }
}

/// A filter with columns that have no table.
fn unqualified(filter: Expr) -> Result<Expr> {
    let filter = filter.transform_up(|part| {
        Ok(match part {
            Expr::Column(column) if column.relation.is_some() => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            part => Transformed::no(part),
        })
    });
    Ok(filter?.data)
}

/// The statistics of a column with one value in all rows of a file.
fn of_value(value: &ScalarValue, rows: Precision<usize>) -> ColumnStatistics {
    if value.is_null() {
        return ColumnStatistics {
            null_count: rows,
            ..ColumnStatistics::new_unknown()
        };
    }
    ColumnStatistics {
        null_count: Precision::Exact(0),
        max_value: Precision::Exact(value.clone()),
        min_value: Precision::Exact(value.clone()),
        distinct_count: Precision::Exact(1),
        ..ColumnStatistics::new_unknown()
    }
}

/// Whether the values of a file fulfil all filters, in their order.
fn is_selected(
    file: &PartitionedFile,
    filters: &[Arc<dyn PhysicalExpr>],
    schema: &SchemaRef,
) -> Result<bool> {
    if filters.is_empty() {
        return Ok(true);
    }
    let values = file.partition_values.iter().map(ScalarValue::to_array);
    let row = RecordBatch::try_new(Arc::clone(schema), values.collect::<Result<_>>()?)?;
    for filter in filters {
        let fulfilled = filter.evaluate(&row)?.into_array(1)?;
        let is_true = fulfilled
            .as_boolean_opt()
            .is_some_and(|fulfilled| fulfilled.is_valid(0) && fulfilled.value(0));
        if !is_true {
            return Ok(false);
        }
    }
    Ok(true)
}

#[async_trait]
impl TableProvider for HiveTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.declared.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.declared.get_table_definition()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.declared.get_column_default(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let kind = |filter: &&Expr| match (is_of_row(filter), self.is_of_folders(filter)) {
            (false, _) => TableProviderFilterPushDown::Unsupported,
            (true, true) => TableProviderFilterPushDown::Exact,
            (true, false) => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(kind).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let of_folders: Vec<Expr> = filters
            .iter()
            .filter(|filter| self.is_of_folders(filter))
            .cloned()
            .collect();
        let files_limit = limit.filter(|_| filters.is_empty());
        let files = self.files(state, &of_folders, files_limit).await?;
        let Some(url) = self.raw.table_paths().first().filter(|_| !files.is_empty()) else {
            let schema = project_schema(&self.schema, projection)?;
            return Ok(Arc::new(EmptyExec::new(schema)));
        };
        let statistics = self.statistics(&files)?;
        let groups = FileGroup::new(files).split_files(state.config().target_partitions().max(1));
        let order = self
            .declared
            .try_create_output_ordering(state.execution_props(), &groups)?;
        let in_files = self.schema.fields().len() - self.keys.len();
        let in_files = Schema::new_with_metadata(
            self.schema.fields()[..in_files].to_vec(),
            self.schema.metadata().clone(),
        );
        let columns = TableSchemaBuilder::from(&Arc::new(in_files))
            .with_table_partition_cols(self.keys.clone())
            .build();
        let format = &self.declared.options().format;
        let config = FileScanConfigBuilder::new(url.object_store(), format.file_source(columns))
            .with_file_groups(groups)
            .with_constraints(self.constraints().cloned().unwrap_or_default())
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_output_ordering(order)
            .build();
        format.create_physical_plan(state, config).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.schema
            .logically_equivalent_names_and_types(&input.schema())?;
        let paths = self.declared.table_paths();
        let Some(folder) = paths.first().filter(|path| path.is_collection()) else {
            return plan_err!(
                "cannot insert into a table of one file\nhint: a location that ends with / is a folder of files"
            );
        };
        forget_list(state, folder);
        let format = &self.declared.options().format;
        let config = FileSinkConfig {
            original_url: String::new(),
            object_store_url: folder.object_store(),
            table_paths: paths.clone(),
            file_group: FileGroup::default(),
            output_schema: self.schema(),
            table_partition_cols: self.declared.options().table_partition_cols.clone(),
            insert_op,
            keep_partition_by_columns: state.config_options().execution.keep_partition_by_columns,
            file_extension: format.get_ext(),
            file_output_mode: FileOutputMode::Automatic,
        };
        let order = self
            .declared
            .try_create_output_ordering(state.execution_props(), &[])?;
        let order = order.into_iter().next().map(Into::into);
        format
            .create_writer_physical_plan(input, state, config, order)
            .await
    }
}

/// Removes a location from the session's cached lists of files.
fn forget_list(state: &dyn Session, folder: &ListingTableUrl) {
    if let Some(lists) = state.runtime_env().cache_manager.get_list_files_cache() {
        let _ = lists.remove(&TableScopedPath {
            table: folder.get_table_ref().clone(),
            path: folder.prefix().clone(),
        });
    }
}
