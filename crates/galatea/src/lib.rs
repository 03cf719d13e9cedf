//! Galatea: a GPU analytical query engine on Apache DataFusion.
