//! Published experiments on parts of the engine that need no query: the workloads, baselines and figures of
//! the papers, and findings that state which published results hold here.
//!
//! | module | paper | run by | rows |
//! | --- | --- | --- | --- |
//! | [`flow`] | Z. Li et al., *XeFlow* (IEEE TC 2020), section 6 | `galatea bench flow`; the example `measure`, which needs no DataFusion | `bench/results/*/flow*`, `bench/results/*/streams` |
//! | [`transfer`] | C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects* (2022), chapter 3 and section 4.2.4 | `galatea bench transfer` | `bench/results/*/transfer` |
//! | [`joins`] | the same thesis, sections 3.4 to 3.6 and figure 4.1 | `galatea bench papers`; the example `joins` | `bench/results/*/papers` |
//! | [`partitioned`] | the same, chapter 4 | the example `partitions`, which needs no DataFusion | |
//! | [`heap`] | M. Pham et al., *Dynamic Memory Management in Massively Parallel Systems* (ICS 2022), sections 3.2 and 4.1 | `galatea bench allocator` | `bench/results/*/allocator*` |
//!
//! [`papers`] runs the experiments of the thesis' figures by name, for `galatea bench papers`. The list of all
//! papers' figures is `galatea_bench::papers`.
//!
//! The commands run all experiments, or those of `--experiment`, on a GPU or with `--emulated` on the
//! emulated device. Times of the emulated device are meaningless. The commands print each row once it is
//! measured, then the findings, and write the rows to the folder of `--out`.
//!
//! The measured code is in `galatea_flow` and `galatea_memory`, which contain no experiments. Experiments
//! with queries are in `galatea_bench`, which depends on this crate.
#![forbid(unsafe_code)]

mod finding;
pub mod flow;
pub mod heap;
pub mod joins;
pub mod papers;
pub mod partitioned;
mod runs;
mod threads;
pub mod transfer;
