//! Compiles every generated kernel for every target.

use galatea_device::{Architecture, Nvrtc, compile_for, testing};
use galatea_experiments::flow::workload::shapes::{
    CoulombPotential, FourierSamples, Histogram, MatrixProduct, SparseProduct, Stencil,
};
use galatea_experiments::flow::workload::{Aes128, Fma, Mode, Raid6};
use galatea_flow::{Map, Topic, Topology};
use galatea_kernels::Flow;

use crate::{sink, source};

/// A chain of all workloads: one kernel with many bodies.
fn chain() -> Topology {
    let mut topology = Topology::new();
    let topics: Vec<_> = (0..7)
        .map(|number| topology.topic(Topic::new(format!("topic {number}"))))
        .collect();
    topology
        .link(None, source(), Some(topics[0]))
        .link(
            Some(topics[0]),
            Map::new("double", "u32", "u32", "value * 2u"),
            Some(topics[1]),
        )
        .link(Some(topics[1]), Fma { count: 64 }, Some(topics[2]))
        .link(Some(topics[2]), Raid6 { disks: 4 }, Some(topics[3]))
        .link(Some(topics[3]), Raid6 { disks: 8 }, Some(topics[4]))
        .link(
            Some(topics[4]),
            Aes128::new([1; 16], Mode::Ecb, 65536),
            Some(topics[5]),
        )
        .link(
            Some(topics[5]),
            Aes128::new([2; 16], Mode::Ctr { nonce: 3 }, 65536),
            Some(topics[6]),
        )
        .link(Some(topics[6]), sink(), None);
    topology
}

/// A chain of the kernel shapes, with topics of inline frames between them.
fn shapes() -> Topology {
    let mut topology = Topology::new();
    let topics: Vec<_> = (0..7)
        .map(|number| topology.topic(Topic::new(format!("topic {number}")).inline(64)))
        .collect();
    let link = |number: usize| (Some(topics[number]), Some(topics[number + 1]));
    topology.link(None, source(), Some(topics[0]));
    topology.link(link(0).0, CoulombPotential::new(10, 1), link(0).1);
    topology.link(link(1).0, FourierSamples::new(10, 1), link(1).1);
    topology.link(link(2).0, MatrixProduct::new(1), link(2).1);
    topology.link(link(3).0, Histogram, link(3).1);
    topology.link(link(4).0, SparseProduct::new(64, 1), link(4).1);
    topology.link(link(5).0, Stencil, link(5).1);
    topology.link(Some(topics[6]), sink(), None);
    topology
}

fn assert_compiles(nvrtc: &Nvrtc, architecture: Architecture) {
    for topology in [chain(), shapes()] {
        for threads in [128, 1024] {
            let program = Flow::program(&topology.kernel_source(threads).unwrap());
            let image = compile_for(architecture, &program, nvrtc)
                .unwrap_or_else(|error| panic!("{threads} threads for {architecture}: {error}"));
            assert!(!image.is_empty());
        }
    }
}

#[test]
fn nvrtc_compiles_every_workload() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    for architecture in [Architecture::SM_80, Architecture::SM_90] {
        assert_compiles(&nvrtc, architecture);
    }
}

#[test]
fn operators_of_one_source_share_a_body() {
    let source = chain().kernel_source(128).unwrap();
    // Two kernels of RAID-6, one of each other workload; both modes of AES share one.
    assert_eq!(source.matches("struct Operator").count(), 5);
    assert_eq!(Topology::new().kernel_source(128), None);
}
