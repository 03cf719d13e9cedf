//! A planned query. It runs each time it is read.

use std::sync::Arc;

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::TryStreamExt;
use galatea::{schema_without_views, sql_name, without_views};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::to_schema_pycapsule;

use crate::batches::Batches;
use crate::errors::{Failure, exception};
use crate::stream::{Rows, Stream, reader_capsule};
use crate::threads::{Progress, Scans, wait};

/// A planned query.
#[pyclass(frozen, module = "galatea._galatea")]
pub(crate) struct Frame {
    ctx: SessionContext,
    frame: DataFrame,
    statement: String,
    affected: Option<u64>,
}

impl Frame {
    /// A frame of `statement`. `affected`: the number of rows that it has changed.
    pub(crate) fn new(
        ctx: SessionContext,
        frame: DataFrame,
        statement: String,
        affected: Option<u64>,
    ) -> Self {
        Self {
            ctx,
            frame,
            statement,
            affected,
        }
    }

    /// The logical plan.
    pub(crate) fn plan(&self) -> LogicalPlan {
        self.frame.logical_plan().clone()
    }

    /// Runs `work` with the frame on the threads of queries. The message of an error shows its position in
    /// the statement.
    fn run<T, F>(
        &self,
        py: Python<'_>,
        display: Option<Py<PyAny>>,
        work: impl FnOnce(DataFrame, Scans) -> F,
    ) -> PyResult<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let reports = galatea::reports(&self.ctx);
        if let Some(reports) = &reports {
            reports.clear();
        }
        let mut progress = Progress::new(reports, display);
        let work = work(self.frame.clone(), progress.scans());
        let (ctx, statement) = (self.ctx.clone(), self.statement.clone());
        let work = async move {
            match work.await {
                Ok(done) => Ok(done),
                Err(error) => Err(Failure::of_statement(&ctx, &statement, error).await),
            }
        };
        Ok(wait(py, &mut progress, work)??)
    }

    /// Starts the query.
    fn start(&self, py: Python<'_>, progress: Option<Py<PyAny>>, views: bool) -> PyResult<Rows> {
        let stream = self.run(py, progress, |frame, _| async move {
            let plan = frame.create_physical_plan().await?;
            execute(&frame, &plan)
        })?;
        Rows::start(stream, self.ctx.clone(), self.statement.clone(), views)
    }
}

/// Executes the plan of a frame.
fn execute(frame: &DataFrame, plan: &Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
    if plan.boundedness().is_unbounded() && plan.pipeline_behavior() == EmissionType::Final {
        return Err(plan_datafusion_err!(
            "the result is complete only when the source ends, and the source has no end"
        ));
    }
    execute_stream(Arc::clone(plan), Arc::new(frame.task_ctx()))
}

#[pymethods]
impl Frame {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.frame.schema().fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// The SQL types of the columns.
    #[getter]
    fn types(&self) -> Vec<String> {
        let fields = self.frame.schema().fields().iter();
        fields.map(|field| sql_name(field.data_type())).collect()
    }

    /// The number of rows that the statement has changed or written; `None` for queries.
    #[getter]
    fn affected(&self) -> Option<u64> {
        self.affected
    }

    /// Runs the query and returns all of its rows. Without `views`, string and binary views are converted to
    /// strings and binaries.
    #[pyo3(signature = (progress=None, views=true))]
    fn collect(&self, py: Python<'_>, progress: Option<Py<PyAny>>, views: bool) -> PyResult<Batches> {
        let (schema, batches) = self.run(py, progress, move |frame, scans| async move {
            let plan = frame.create_physical_plan().await?;
            scans.follow(&plan);
            let mut stream = execute(&frame, &plan)?;
            if views {
                let schema = stream.schema();
                return Ok((schema, stream.try_collect().await?));
            }
            let schema = schema_without_views(&stream.schema());
            let mut batches = Vec::new();
            while let Some(batch) = stream.try_next().await? {
                batches.extend(without_views(batch, &schema)?);
            }
            Ok((schema, batches))
        })?;
        Ok(Batches::new(schema, batches))
    }

    /// The query, limited to its first rows.
    fn head(&self, rows: usize) -> PyResult<Self> {
        let limited = self.frame.clone().limit(0, Some(rows));
        Ok(Self {
            ctx: self.ctx.clone(),
            frame: limited.map_err(exception)?,
            statement: self.statement.clone(),
            affected: None,
        })
    }

    /// Starts the query. Its rows are read while it runs. Without `views`, string and binary views are
    /// converted to strings and binaries.
    #[pyo3(signature = (progress=None, views=true))]
    fn stream(&self, py: Python<'_>, progress: Option<Py<PyAny>>, views: bool) -> PyResult<Stream> {
        self.start(py, progress, views).map(Stream::new)
    }

    /// The outline of the plan. `analyze`: runs the query, and shows the rows and the time of each node.
    #[pyo3(signature = (analyze=false, progress=None))]
    fn explain(&self, py: Python<'_>, analyze: bool, progress: Option<Py<PyAny>>) -> PyResult<String> {
        self.run(py, progress, move |frame, scans| async move {
            let plan = frame.create_physical_plan().await?;
            if analyze {
                scans.follow(&plan);
                let mut rows = execute(&frame, &plan)?;
                while rows.try_next().await?.is_some() {}
            }
            Ok(galatea::outline(&plan, analyze))
        })
    }

    /// The schema, for readers of Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.frame.schema().as_arrow())?)
    }

    /// Runs the query and streams its rows to a reader of Arrow's C data interface. If the reader requests
    /// another schema, columns are converted to it.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        reader_capsule(py, self.start(py, None, true)?, requested_schema)
    }
}
