//! The relation of a call: a table that clusters a query when it is scanned.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{self, TableProvider};
use datafusion::common::{internal_datafusion_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use galatea_engine::session::Session;

use super::Function;
use super::exec::{KMeansExec, Task};
use super::settings::Settings;
use crate::install::with_rules;

/// The column with the number of the cluster.
const LABEL: &str = "label";
/// The columns after the features of `kmeans`.
const SIZE: &str = "size";
const INERTIA: &str = "inertia";
const ITERATIONS: &str = "iterations";

/// A call as a table.
#[derive(Debug)]
pub(super) struct KMeansTable {
    function: Function,
    input: LogicalPlan,
    settings: Settings,
    /// The indices of the feature columns in the input.
    features: Vec<usize>,
    schema: SchemaRef,
    session: Arc<Session>,
}

impl KMeansTable {
    /// # Errors
    /// Features that do not exist, are not numeric, or have the names of other columns.
    pub(super) fn new(
        function: Function,
        input: LogicalPlan,
        settings: Settings,
        session: Arc<Session>,
    ) -> Result<Self> {
        let from = input.schema().as_arrow().clone();
        let features = features(function, &from, &settings)?;
        let schema = schema(function, &from, &features)?;
        Ok(Self {
            function,
            input,
            settings,
            features,
            schema: Arc::new(schema),
            session,
        })
    }
}

/// The indices of the feature columns.
fn features(function: Function, from: &Schema, settings: &Settings) -> Result<Vec<usize>> {
    let of = function.name();
    let all = || {
        let names: Vec<&str> = from.fields().iter().map(|field| field.name().as_str()).collect();
        names.join(", ")
    };
    let chosen: Vec<usize> = match &settings.features {
        None => (0..from.fields().len()).collect(),
        Some(names) => {
            let mut chosen = Vec::with_capacity(names.len());
            for name in names {
                match from.fields().iter().position(|field| field.name() == name) {
                    Some(column) if chosen.contains(&column) => {
                        return plan_err!("{of}: features names column {name} twice");
                    }
                    Some(column) => chosen.push(column),
                    None => {
                        return plan_err!(
                            "{of}: features names {name}, which is none of the query's columns: {}",
                            all()
                        );
                    }
                }
            }
            chosen
        }
    };
    for column in &chosen {
        let field = from.field(*column);
        if !field.data_type().is_numeric() {
            return plan_err!(
                "{of}: column {} is of type {}, and features are numbers\nhint: leave it out of the query, cast it, or name the features: features => 'x, y'",
                field.name(),
                field.data_type()
            );
        }
    }
    Ok(chosen)
}

fn schema(function: Function, from: &Schema, features: &[usize]) -> Result<Schema> {
    let fields: Vec<Field> = match function {
        Function::Clusters => {
            let centroid = |column: &usize| Field::new(from.field(*column).name(), DataType::Float64, false);
            std::iter::once(Field::new(LABEL, DataType::UInt32, false))
                .chain(features.iter().map(centroid))
                .chain([
                    Field::new(SIZE, DataType::UInt64, false),
                    Field::new(INERTIA, DataType::Float64, false),
                    Field::new(ITERATIONS, DataType::UInt32, false),
                ])
                .collect()
        }
        Function::Labels => (from.fields().iter().map(|field| field.as_ref().clone()))
            .chain([Field::new(LABEL, DataType::UInt32, false)])
            .collect(),
    };
    let mut names = HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !names.insert(field.name())) {
        return plan_err!(
            "{}: its result would have two columns {}\nhint: give the query's column another name",
            function.name(),
            twice.name()
        );
    }
    Ok(Schema::new(fields))
}

#[async_trait]
impl TableProvider for KMeansTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn catalog::Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let session = state.as_any().downcast_ref::<SessionState>();
        let session =
            session.ok_or_else(|| internal_datafusion_err!("kmeans needs DataFusion's session state"))?;
        // The rules run once, over the enclosing plan.
        let plain = with_rules(session, session.config().clone(), Vec::new());
        let input = plain.create_physical_plan(&self.input).await?;
        let task = Task {
            function: self.function,
            settings: self.settings.kmeans.clone(),
            features: self.features.clone(),
            schema: Arc::clone(&self.schema),
            engine: Arc::clone(self.session.engine()),
        };
        let plan: Arc<dyn ExecutionPlan> = Arc::new(KMeansExec::new(task, input));
        let Some(projection) = projection else {
            return Ok(plan);
        };
        let columns = projection.iter().map(|column| {
            let name = self.schema.field(*column).name();
            (Arc::new(Column::new(name, *column)) as _, name.clone())
        });
        let columns: Vec<(Arc<dyn datafusion::physical_expr::PhysicalExpr>, String)> = columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
    }
}
