//! EXPLAIN: plans as text.
//!
//! A GPU subtree is described by named facts (`facts`). DataFusion's own formats show them on one line
//! (`indent`) or in a box (`tree`); an [`outline()`] shows one node and one fact on each line, and gives
//! DataFusion's operators facts with the same names. A [`plan_graph()`] has the same facts as data.

mod graph;
mod interval;
mod operator;
mod outline;

pub use graph::{PlanEdge, PlanEdgeKind, PlanFact, PlanGraph, PlanNode, plan_graph};
pub use outline::outline;
