//! Measurements of the transfer methods across the link between host and device, and of accesses of kernels
//! over it without a copy.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, chapter 3 and section 4.2.4.
//! The methods are implemented in [`galatea_memory::transfer`].
//!
//! | module | figures | measures |
//! | --- | --- | --- |
//! | `measure` | | whole ranges, by method, by chunk, by number of staging threads |
//! | `both` | | both directions at once |
//! | `cpu` | 3.2 | 4-byte reads of the CPU, in order and at random, compared with those of kernels |
//! | `latency` | 3.2, 4.6 | dependent loads, by the extent of the memory |
//! | `join` | 3.11 | the probe side of a hash join |
//! | `peer` | 3.11 | the same, in the memory of another device |
//! | `selection` | 3.14 | TPC-H's query 6, by the fraction of selected rows |
//! | `pieces` | 4.5 | kernels' own accesses, by size and alignment |
//!
//! `galatea bench transfer` runs [`EXPERIMENTS`] by [`run`], and `galatea bench papers` also [`PEER`]. It
//! prints a row of comma-separated values for each measurement, and after each experiment the [`findings`]:
//! the results of the thesis that hold for the rows. With `--out FOLDER` the rows are written to
//! `FOLDER/EXPERIMENT.csv`.
//!
//! Each measurement uses other values in every run, and panics if a kernel read or wrote wrong values.

mod both;
mod cpu;
mod experiments;
mod findings;
mod join;
mod latency;
mod measure;
mod peer;
mod pieces;
mod selection;

pub use both::{Directions, both_directions, two_way_methods};
pub use cpu::cpu_reads;
pub use experiments::{EXPERIMENTS, Extents, Measured, PEER, Scale, run};
pub use findings::findings;
pub use join::{Join, TUPLE_BYTES};
pub use latency::{Reach, latency};
pub use measure::{PeerWay, Rate, SEED, Source, rates};
pub use peer::{WITHOUT_MEANING, peer_reads};
pub use pieces::InPlace;
pub use selection::{by_selectivity, by_selectivity_on_cpu};
