//! Measurements of the ways across the link between host and device, and of accesses of kernels over it
//! without a copy.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, chapter 3 and section 4.2.4.
//! The ways themselves are [`galatea_memory::transfer`].
//!
//! | module | figures | measures |
//! | --- | --- | --- |
//! | `measure` | | whole ranges, by way, by chunk, by threads that stage |
//! | `both` | | both directions at once |
//! | `cpu` | 3.2 | 4-byte reads of the CPU, in order and at random, beside those of kernels |
//! | `latency` | 3.2, 4.6 | loads that wait for the last, by the extent of the memory |
//! | `join` | 3.11 | the probe side of a hash join |
//! | `selection` | 3.14 | TPC-H's query 6, by the part of the rows that it selects |
//! | `pieces` | 4.5 | kernels' own accesses, by size and alignment |
//!
//! `galatea bench transfer` runs [`EXPERIMENTS`] by [`run`], prints a row of comma-separated values for each
//! measurement, and after each experiment [`findings`], which say of the rows which results of the thesis
//! hold. With `--out FOLDER` the rows are kept in `FOLDER/EXPERIMENT.csv`.
//!
//! Each measurement has other values in every run, and panics where a kernel read or wrote something else
//! than it should.

mod both;
mod cpu;
mod experiments;
mod findings;
mod join;
mod latency;
mod measure;
mod pieces;
mod selection;

pub use both::{Directions, both_directions, two_way_methods};
pub use cpu::cpu_reads;
pub use experiments::{EXPERIMENTS, Extents, Measured, Scale, run};
pub use findings::findings;
pub use join::{Join, TUPLE_BYTES};
pub use latency::{Reach, latency};
pub use measure::{Rate, SEED, Source, rates};
pub use pieces::InPlace;
pub use selection::{by_selectivity, by_selectivity_on_cpu};
