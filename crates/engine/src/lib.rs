//! The engine: places DataFusion plans on the GPU, generates pipelines and runs them.

pub mod expression;
pub mod reason;
