//! Figures of C. Lutz' thesis, chapter 3: the link, and joins without partitions.

use galatea_experiments::papers::Module::{Joins, Transfer};

use super::{Entry, drawing_of_thesis as drawing, of_thesis as figure};

/// The figures on two devices have the paper's outcomes with the second device in the place of the host.
const PEER: &str = "the same with the memory of a second device instead of the host's";

pub(super) const FIGURES: &[Entry] = &[
    figure(
        "3.1",
        "bandwidth of the link",
        "NVLink 2.0 has the bandwidth of the CPU's memory, PCIe 3.0 a fraction of it",
        Transfer,
        "rates",
    ),
    figure(
        "3.2",
        "reads by CPU and kernels",
        "the CPU reads its memory in order at 1.38 to 2 times the rate of NVLink 2.0, and 16 to 22 % faster at random",
        Transfer,
        "cpu",
    ),
    figure(
        "3.2",
        "latency of loads",
        "a load over NVLink 2.0 takes 1.54 times as long as one of device memory, and 6 to 7 times as long as the CPU's",
        Transfer,
        "latency",
    ),
    drawing("3.3", "paths of data accesses"),
    drawing("3.4", "push and pull"),
    drawing("3.5", "scaling the probe side"),
    drawing("3.6", "scaling the build side"),
    drawing("3.7", "allocating the hybrid hash table"),
    drawing("3.8", "joins by both processors"),
    drawing("3.9", "scheduling of tasks"),
    drawing("3.10", "placement of the hash table"),
    figure(
        "3.11",
        "transfer methods",
        "the full rate of PCIe 3.0 needs pinned memory; staged copies are within 8 % of it, unified memory loses 45 to 72 %",
        Transfer,
        "probe",
    ),
    figure(
        "3.11",
        "transfer methods between devices",
        "NVLink 2.0 has up to 5 times the rate of PCIe 3.0, and reading in place is within 8 % of the best method",
        Transfer,
        "peer_probe",
    ),
    figure(
        "3.12",
        "memory of the relations",
        "workload A loses 16 to 53 % with 1 to 3 hops to the relations; B is 4 times as fast with relations on the device",
        Joins,
        "relation_places",
    ),
    figure(
        "3.13",
        "memory of the table",
        "one hop to the table costs workloads A and C 78 to 83 %, the next one another 50 %",
        Joins,
        "table_places",
    ),
    figure(
        "3.14",
        "selection and aggregation",
        "TPC-H Q6: the CPU is fastest, by up to 20 % over NVLink 2.0 and 16.2 times PCIe 3.0; branches beat predication",
        Transfer,
        "selectivity",
    ),
    figure(
        "3.15",
        "probe side",
        "over NVLink 2.0 the device has 3.3 to 6.4 times the rate over PCIe 3.0 and 2.4 to 4.2 times that of the CPU",
        Joins,
        "probe_side",
    ),
    figure(
        "3.16",
        "build side",
        "within the budget 2.4 to 3.2 times the CPU's radix join; a table in host memory loses 85 % over NVLink 2.0 and 97 % over \
         PCIe 3.0",
        Joins,
        "build_side",
    ),
    figure(
        "3.16",
        "tables in both memories",
        "a hybrid table has 1 to 3 times the rate of one in host memory, as the mean of both rates weighted by share",
        Joins,
        "hybrid",
    ),
    figure(
        "3.16",
        "share on the device",
        "the rate is the mean of the rates of both memories, weighted by share",
        Joins,
        "shares",
    ),
    figure("3.16", "two devices", PEER, Joins, "peer_build_side"),
    figure("3.16", "share on two devices", PEER, Joins, "peer_shares"),
    figure(
        "3.17",
        "build-to-probe ratio",
        "the build takes 70 % of the time at 1:1 and is 56 % slower than the probe",
        Joins,
        "ratio",
    ),
    figure(
        "3.18",
        "data skew",
        "skew has no effect with the table on the device; with it in host memory it raises the rate 4.4 times (NVLink 2.0) and \
         9.4 times (PCIe 3.0)",
        Joins,
        "skew",
    ),
    figure("3.18", "data skew, two devices", PEER, Joins, "peer_skew"),
    figure(
        "3.19",
        "join selectivity",
        "the rate falls by up to 28 % with more matches; with the table on the device it is 6.1 to 7.4 times that of the CPU",
        Joins,
        "match_rate",
    ),
    figure(
        "3.20",
        "CPU and GPU together",
        "beside the CPU, GPU+Het has 4.7, 1.8 and 2.4 times its rate for workloads A, B and C, the GPU 5.8, 1.4 and 4.6 times",
        Joins,
        "cooperation",
    ),
];
