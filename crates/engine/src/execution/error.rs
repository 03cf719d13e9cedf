//! Why a pipeline gave no rows.

use crate::device::RunError;
use crate::graph::PlanKey;
use datafusion::error::DataFusionError;
use galatea_base::reason::Reason;
use galatea_codegen::PipelinePlan;
use galatea_codegen::bound::BoundPipeline;
use galatea_expression::{Number, Signal};
use galatea_store::StoreError;

/// Why a pipeline gave no rows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Run(RunError),
    /// The rows of a build side are not what a pipeline can look up, which is remembered by its shape.
    #[error("{1}")]
    Dimension(Option<PlanKey>, Reason),
    /// The session's memory pool refuses a result or a build side. The CPU's operators may need less,
    /// or spill.
    #[error(transparent)]
    Pool(DataFusionError),
    /// A child of the node.
    #[error(transparent)]
    Input(DataFusionError),
}

impl Failure {
    /// Whether something did not fit in device memory.
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

/// The error that a row of the pipeline raised, if any, by the number that the kernel left.
///
/// # Errors
/// [`RunError::Raised`], or the kernel's signal to the host.
pub(super) fn raise(number: u32, bound: &BoundPipeline, plan: &PipelinePlan) -> Result<(), RunError> {
    if number == 0 {
        return Ok(());
    }
    match Number::meaning(number) {
        Some(Number::Signal(Signal::TextsFull)) => Err(RunError::TextsFull),
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
