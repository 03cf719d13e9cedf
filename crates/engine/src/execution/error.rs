//! Why a pipeline gave no rows.

use crate::device::RunError;
use crate::graph::PlanKey;
use datafusion::error::DataFusionError;
use galatea_base::reason::Reason;
use galatea_codegen::bound::BoundPipeline;
use galatea_expression::ErrorCode;
use galatea_store::StoreError;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Ends a run whose query was cancelled.
///
/// # Errors
/// [`RunError::Cancelled`], if so.
pub(super) fn check(cancelled: &AtomicBool) -> Result<(), RunError> {
    match cancelled.load(Ordering::Relaxed) {
        true => Err(RunError::Cancelled),
        false => Ok(()),
    }
}

/// The error a row raised, if any.
pub(super) fn raise(code: u32, bound: &BoundPipeline) -> Result<(), RunError> {
    if code == 0 {
        return Ok(());
    }
    let text = match ErrorCode::from_code(code) {
        Some(ErrorCode::TextsFull) => return Err(RunError::TextsFull),
        Some(error) => error.to_error(&bound.parameters).to_string(),
        None => format!("a row raised the unknown error {code}"),
    };
    Err(RunError::Raised(text))
}
