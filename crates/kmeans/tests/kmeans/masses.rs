//! Histograms of labels, with every published replication.

use galatea_device::{In, InOut};
use galatea_kernels::kmeans::LabelWidth;
use galatea_kernels::{KmeansMasses, MassSum};
use galatea_kmeans::{Labels, count_labels};

use crate::device;

#[test]
fn every_mass_sum_counts_every_label() {
    let device = device(16 << 20);
    let stream = device.stream().unwrap();
    for (n, k) in [
        (0, 3),
        (1, 1),
        (15, 2),
        (33, 5),
        (4097, 256),
        (10_000, 257),
        (70_001, 16),
        (300_000, 5),
    ] {
        let width = LabelWidth::of(k).bytes();
        let of = |point: u32| point.wrapping_mul(2_654_435_761) >> 7;
        let labels: Vec<u32> = (0..n).map(|point| of(point) % k).collect();
        let bytes: Vec<u8> = labels
            .iter()
            .flat_map(|label| label.to_ne_bytes()[..width].to_vec())
            .collect();
        let mut expected = vec![0u64; k as usize];
        labels.iter().for_each(|label| expected[*label as usize] += 1);
        let labels = Labels::of_bytes(LabelWidth::of(k), bytes.clone());
        for way in MassSum::ALL {
            assert_eq!(
                count_labels(&labels, k as usize, way),
                expected,
                "CPU {way:?} n {n} k {k}"
            );
        }
        let uploaded = device.upload(&stream, &bytes).unwrap();
        for way in MassSum::ALL {
            let limit = 48 << 10;
            let found = KmeansMasses::new(&device, &stream, way, k, limit).unwrap();
            let Some(mut masses) = found else {
                // 32 threads of more than 384 buckets.
                assert!(way == MassSum::PartitionedPrivate && k > 384, "{way:?} k {k}");
                continue;
            };
            let mut counts = device.zeroed::<u64>(&stream, k as usize).unwrap();
            // Launched twice: histograms in device memory are cleared in between.
            for times in 1..=2 {
                masses.launch(&stream, In(&uploaded), InOut(&mut counts)).unwrap();
                let found = stream.read(&counts, ..).unwrap();
                let expected: Vec<u64> = expected.iter().map(|mass| times * mass).collect();
                assert_eq!(found, expected, "{way:?} n {n} k {k}");
            }
        }
    }
    let too_many = KmeansMasses::new(&device, &stream, MassSum::PartitionedPrivate, 385, 48 << 10);
    assert!(too_many.unwrap().is_none());
}
