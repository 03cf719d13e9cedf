//! The folders `key=value` of COPY with PARTITIONED BY, and of INSERT into such a table.
//!
//! DataFusion's writer names folders by values, ignores that a value is NULL, and supports few types. So a
//! projection below the writer replaces each key by the value in the name of its folder: the string of the
//! value, or that of Hive's default partition for NULL. The writer encodes characters that a path cannot
//! have.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{exec_err, plan_err};
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use galatea_engine::hive_table::NULL_FOLDER;
use object_store::path::PathPart;

/// The rows of a writer, with the values of folders in place of its keys.
///
/// # Errors
/// The name of a key, or its type, is not one of a folder.
pub(super) fn named(
    input: Arc<dyn ExecutionPlan>,
    config: &FileSinkConfig,
) -> Result<Arc<dyn ExecutionPlan>> {
    let keys = &config.table_partition_cols;
    if keys.is_empty() {
        return Ok(input);
    }
    for (name, _) in keys {
        if name.contains('=') || PathPart::from(name.as_str()).as_ref() != name {
            return plan_err!(
                "cannot partition files by the column \"{name}\": a folder '{name}=value' has another meaning in paths\n\
                 hint: rename the column: SELECT \"{name}\" AS key"
            );
        }
    }
    let schema = input.schema();
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        let is_key = keys.iter().any(|(key, _)| key == field.name());
        let expr = match is_key {
            false => column,
            true => {
                check_type(field.name(), field.data_type())?;
                Arc::new(FolderName {
                    column,
                    name: field.name().clone(),
                    keeps_column: config.keep_partition_by_columns,
                })
            }
        };
        Ok(ProjectionExpr {
            expr,
            alias: field.name().clone(),
        })
    });
    let columns: Vec<ProjectionExpr> = columns.collect::<Result<_>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
}

fn check_type(name: &str, kind: &DataType) -> Result<()> {
    let kind = match kind {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    };
    match kind.is_nested() || kind.is_binary() {
        true => plan_err!(
            "cannot partition files by the column {name}: its type is {kind}\nhint: partition by a string, for example \
             CAST({name} AS VARCHAR)"
        ),
        false => Ok(()),
    }
}

/// The value of a key in the name of its folder.
#[derive(Debug, Clone, Eq)]
struct FolderName {
    column: Arc<dyn PhysicalExpr>,
    name: String,
    /// Whether the files contain the column, too. Then it stays as it is.
    keeps_column: bool,
}

impl PartialEq for FolderName {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.name == other.name && self.keeps_column == other.keeps_column
    }
}

impl Hash for FolderName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.name.hash(state);
        self.keeps_column.hash(state);
    }
}

impl FolderName {
    fn names(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let strings = cast_with_options(values, &DataType::Utf8, &options)?;
        let strings = strings.as_string::<i32>();
        if strings.iter().flatten().any(|value| value == NULL_FOLDER) {
            return exec_err!(
                "cannot partition files by the column {}: the string '{NULL_FOLDER}' means NULL in the name of a folder",
                self.name
            );
        }
        if !self.keeps_column {
            let names = strings.iter().map(|value| Some(value.unwrap_or(NULL_FOLDER)));
            return Ok(Arc::new(names.collect::<StringArray>()));
        }
        match strings.null_count() {
            0 => Ok(Arc::clone(values)),
            _ => exec_err!(
                "cannot partition files by the column {}: it has a NULL, and the files contain the column, too\n\
                 hint: SET datafusion.execution.keep_partition_by_columns = false",
                self.name
            ),
        }
    }
}

impl Display for FolderName {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "folder({})", self.column)
    }
}

impl PhysicalExpr for FolderName {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        match self.keeps_column {
            true => self.column.data_type(schema),
            false => Ok(DataType::Utf8),
        }
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        self.names(&values).map(ColumnarValue::Array)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            column: children.swap_remove(0),
            ..self.as_ref().clone()
        }))
    }

    fn fmt_sql(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "folder(")?;
        self.column.fmt_sql(to)?;
        write!(to, ")")
    }
}
