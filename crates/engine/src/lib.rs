//! The engine: places DataFusion plans on the GPU, generates pipelines and runs them.
