//! The engine: places DataFusion plans on the GPU, generates pipelines and runs them.
#![forbid(unsafe_code)]

pub mod config;
pub mod expression;
pub mod reason;
pub mod report;
