//! The no-partitioning join of the thesis' chapter 3 on the device, on the CPU and on both, and its rival on
//! the CPU, the radix join.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, sections 3.4 to 3.6 and
//! figure 4.1. The relations are in host memory; kernels read them in place over the link.
//!
//! | experiment | figure | varies |
//! | --- | --- | --- |
//! | `probe_side` | 3.15 | rows of S |
//! | `build_side` | 3.16 | rows of both; the table in the memory of the device, of the host, or of both |
//! | `ratio` | 3.17 | rows of S per row of R |
//! | `skew` | 3.18 | exponent of S's Zipf distribution, and the share of the table on the device |
//! | `match_rate` | 3.19 | fraction of S with a match |
//! | `cooperation` | 3.20 | workloads A, B and C on the CPU, the device and both |
//! | `tuples` | 4.1 | rows of both: perfect hashing, linear probing and the radix join |
//!
//! | module | contents |
//! | --- | --- |
//! | `workload` | relations, generated with the answer of their join |
//! | `permutation` | permutations of keys, and draws by a Zipf distribution |
//! | `table` | memory of a hash table: of the device, of the host, or of both |
//! | `gpu` | the join on the device |
//! | `cpu`, `radix` | the same join on the CPU, and the radix join |
//! | `het`, `morsels` | joins on both processors, and the sizes of their morsels |
//! | `lab`, `row` | the scale, the measurement of a point, and its row |
//! | `model` | predictions of the rate with a table in both memories |
//!
//! The thesis' largest relations need more host memory than most machines have, and minutes. Relations are
//! therefore a fraction of its sizes ([`Scale::shrink`]), and so is the budget of device memory that stands
//! for the 16 GB of its device ([`Scale::budget`]). Each run has other inputs than the run before, clears the
//! table, and panics if the sum of payloads or the number of matches is wrong.
//!
//! [`run`] runs an experiment of [`EXPERIMENTS`]; [`findings`] compares rows with the thesis.

mod cpu;
mod experiments;
mod findings;
mod gpu;
mod het;
mod lab;
mod model;
mod morsels;
mod permutation;
mod radix;
mod row;
mod table;
mod workload;

pub use cpu::no_partitioning;
pub use experiments::{EXPERIMENTS, run};
pub use findings::findings;
pub use gpu::{GpuJoin, OnDevice, Phases, Run};
pub use het::{Cooperation, Morsels};
pub use lab::{PEER, Scale, figure_of};
pub use model::Predicted;
pub use radix::{RadixJoin, radix_bits};
pub use row::Row;
pub use table::{Placement, TableMemory};
pub use workload::{Answer, Shape, Workload};
