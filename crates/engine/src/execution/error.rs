//! Failures of a pipeline.

use crate::device::RunError;
use crate::graph::PlanKey;
use datafusion::error::DataFusionError;
use galatea_base::reason::Reason;
use galatea_codegen::PipelinePlan;
use galatea_codegen::bound::BoundPipeline;
use galatea_expression::{Number, Signal};
use galatea_store::StoreError;

/// The reason why a pipeline returned no rows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Run(RunError),
    /// The rows of a build side do not support lookups by a pipeline. The history records this by the shape.
    #[error("{1}")]
    BuildSide(Option<PlanKey>, Reason),
    /// The session's memory pool refuses a result or a build side. The CPU's operators may need less memory,
    /// or spill.
    #[error(transparent)]
    Pool(DataFusionError),
    /// An error of a child of the node.
    #[error(transparent)]
    Input(DataFusionError),
}

impl Failure {
    /// Whether device memory was insufficient.
    pub(super) fn wants_memory(&self) -> bool {
        matches!(self, Self::Run(error) if error.wants_memory())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Pool(error) => Self::Pool(error),
            error => Self::Run(error),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Input(error)
    }
}

/// The error that a row of the pipeline raised, if any.
///
/// A kernel writes the number of the first error to `PipelineArguments::error` (`galatea_raise` in
/// `arithmetic.cuh`). [`Number::meaning`] decodes it: a signal to the host, or an index into
/// `Parameters::errors`, with the fault and the expression that the failing code was compiled from.
///
/// # Errors
/// [`RunError::Raised`], or the kernel's signal to the host.
pub(super) fn raise(number: u32, bound: &BoundPipeline, plan: &PipelinePlan) -> Result<(), RunError> {
    if number == 0 {
        return Ok(());
    }
    match Number::meaning(number) {
        Some(Number::Signal(Signal::StringsFull)) => Err(RunError::StringsFull),
        Some(Number::Signal(Signal::KeysFull)) => Err(RunError::KeysFull),
        meaning => match meaning.and_then(|number| number.error(&bound.parameters.errors)) {
            Some(error) => {
                let raised = error.raised(&plan.expressions());
                Err(RunError::Raised(Box::new(raised)))
            }
            None => Err(RunError::Defect(format!(
                "a kernel raised the unknown error {number}"
            ))),
        },
    }
}
