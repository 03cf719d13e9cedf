//! The no-partitioning join of the thesis' chapter 3 on the device, on the CPU and on both, and its rival on
//! the CPU, the radix join.
//!
//! After C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, sections 3.4 to 3.6 and
//! figure 4.1. Unless a row states another memory, the relations are in host memory; kernels read them in
//! place over the link.
//!
//! | experiment | figure | varies |
//! | --- | --- | --- |
//! | `relation_places` | 3.12 | the memory of the relations: of the device, of another one, of the host |
//! | `table_places` | 3.13 | the memory of the table |
//! | `probe_side` | 3.15 | rows of S |
//! | `build_side` | 3.16 | rows of both; the table in the memory of the device, of the host, or of both |
//! | `hybrid` | 3.16 | tables of 1.1 to 2 budgets in both memories |
//! | `shares` | 3.16 | the share of a table on the device, beside models of the rate |
//! | `ratio` | 3.17 | rows of S per row of R |
//! | `skew` | 3.18 | exponent of S's Zipf distribution, and the share of the table on the device |
//! | `match_rate` | 3.19 | fraction of S with a match |
//! | `cooperation` | 3.20 | workloads A, B and C on the CPU, the device and both |
//! | `tuples` | 4.1 | rows of both: perfect hashing, linear probing and the radix join |
//! | `peer_build_side`, `peer_shares` | 3.16 | the same with the memory of another device in the CPU's place |
//! | `peer_skew` | 3.18 | the same |
//! | `peer_tuples` | 4.1 | the same, perfect hashing and linear probing |
//!
//! | module | contents |
//! | --- | --- |
//! | `workload` | relations, generated with the answer of their join |
//! | `permutation` | permutations of keys, and draws by a Zipf distribution |
//! | `table` | memory of a hash table: of the device, of the host, or of both |
//! | `gpu` | the join on the device |
//! | `cpu`, `radix` | the same join on the CPU, and the radix join |
//! | `relations`, `chunks` | relations in the memory of the device, of another one, or of the host |
//! | `het`, `morsels` | joins on both processors, and the sizes of their morsels |
//! | `lab`, `row` | the scale, the measurement of a point, and its row |
//! | `places`, `peer` | experiments with another device |
//! | `model` | predictions of the rate with a table in both memories |
//!
//! The thesis' largest relations need more host memory than most machines have, and minutes. Relations are
//! therefore a fraction of its sizes ([`Scale::shrink`]), and so is the budget of device memory that stands
//! for the 16 GB of its device ([`Scale::budget`]). Each run has other inputs than the run before, clears the
//! table, and panics if the sum of payloads or the number of matches is wrong.
//!
//! [`run`] runs an experiment of [`EXPERIMENTS`] or of [`PEER`]; [`findings`] compares rows with the thesis.

mod chunks;
mod cpu;
mod experiments;
mod findings;
mod gpu;
mod het;
mod lab;
mod model;
mod morsels;
mod peer;
mod permutation;
mod places;
mod radix;
mod relations;
mod row;
mod table;
mod workload;

pub use cpu::no_partitioning;
pub use experiments::{EXPERIMENTS, run};
pub use findings::findings;
pub use gpu::{GpuJoin, Phases, Run};
pub use het::{Cooperation, Morsels};
pub use lab::{PEER, PLACES, Scale, figure_of, uses_peer};
pub use model::Predicted;
pub use radix::{RadixJoin, radix_bits};
pub use relations::{Place, Relations};
pub use row::Row;
pub use table::{Placement, TableMemory};
pub use workload::{Answer, Shape, Workload};
