//! The kernels of windows, compared with the host, on the emulated device and on a GPU if available.

use galatea_device::{Device, In, InOut, Out, testing};
use galatea_kernels::{
    Entry, Fold, KeyWidth, PrefixSum, WindowBounds, WindowColumn, WindowKeys, WindowStarts, WindowTree,
    WindowValue, WindowValues,
};

use crate::emulated;

/// Lengths around the boundaries of warps, blocks, nodes of trees and grids.
const LENGTHS: [usize; 13] = [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 4097, 20_000];

fn devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [0, 5].map(emulated).into();
    devices.extend(testing::gpu());
    devices
}

/// A permutation of the rows.
fn shuffled(len: usize) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..len as u32).collect();
    ids.sort_by_key(|id| id.wrapping_mul(0x9e37_79b9));
    ids
}

#[test]
fn partition_and_peer_bounds_follow_key_changes() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (bounds, starts) = (
            WindowBounds::new(&device).unwrap(),
            WindowStarts::new(&device).unwrap(),
        );
        let sums = PrefixSum::new(&device).unwrap();
        for len in LENGTHS {
            // By position: runs of 7 and of 3, by keys of both widths; by row according to the ids.
            let ids = shuffled(len);
            let (mut narrow, mut wide) = (vec![0u32; len], vec![0u64; len]);
            for (place, id) in ids.iter().enumerate() {
                (narrow[*id as usize], wide[*id as usize]) =
                    (place as u32 / 7, (1 << 40) | (place as u64 / 3));
            }
            let narrow = device
                .upload(&stream, bytemuck::cast_slice::<_, u8>(&narrow))
                .unwrap();
            let wide = device
                .upload(&stream, bytemuck::cast_slice::<_, u8>(&wide))
                .unwrap();
            let ids = device.upload(&stream, &ids).unwrap();
            let mut marks = [0, 1].map(|_| device.upload(&stream, &vec![u32::MAX; len + 1]).unwrap());
            let [partitions, peers] = &mut marks;
            let keys = WindowKeys {
                words: vec![
                    (KeyWidth::Four, narrow.as_slice()),
                    (KeyWidth::Eight, wide.as_slice()),
                ],
                partition_words: 1,
            };
            let places = ..len;
            let (one, other) = (
                partitions.slice_mut(places).unwrap(),
                peers.slice_mut(places).unwrap(),
            );
            bounds
                .launch(&stream, &keys, Some(In(&ids)), Out(one), Out(other))
                .unwrap();
            let mut totals = device.zeroed::<u64>(&stream, sums.totals()).unwrap();
            for (marks, begins) in marks.iter_mut().zip([
                (|place: usize| place.is_multiple_of(7)) as fn(usize) -> bool,
                |place| place.is_multiple_of(7) || place.is_multiple_of(3),
            ]) {
                let expected: Vec<u32> = (0..len).map(|place| begins(place).into()).collect();
                assert_eq!(stream.read(marks, ..len).unwrap(), expected, "{len} places");
                sums.replace(&stream, InOut(&mut *marks), Out(&mut totals))
                    .unwrap();
                let mut first = device.upload(&stream, &vec![u32::MAX; len + 1]).unwrap();
                starts.launch(&stream, In(&*marks), Out(&mut first)).unwrap();
                let mut expected: Vec<u32> = (0..len)
                    .filter(|place| begins(*place))
                    .map(|p| p as u32)
                    .collect();
                expected.push(len as u32);
                assert_eq!(
                    stream.read(&first, ..expected.len()).unwrap(),
                    expected,
                    "{len} places"
                );
            }
        }
    }
}

#[test]
fn window_values_are_summed_and_aggregated_in_order() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (values, tree) = (
            WindowValues::new(&device).unwrap(),
            WindowTree::new(&device).unwrap(),
        );
        let sums = PrefixSum::new(&device).unwrap();
        for len in LENGTHS {
            let ids = shuffled(len);
            // Every fifth row is NULL.
            let entries: Vec<i64> = (0..len as i64)
                .map(|row| (row * 7919 % 1000 - 500) << 50)
                .collect();
            let mut nulls = vec![0u32; len.div_ceil(32)];
            (0..len)
                .step_by(5)
                .for_each(|row| nulls[row / 32] |= 1 << (row % 32));
            let of = |id: &u32| (!id.is_multiple_of(5)).then(|| entries[*id as usize]);
            let on_device = device
                .upload(&stream, bytemuck::cast_slice::<_, u8>(&entries))
                .unwrap();
            let (bits, order) = (
                device.upload(&stream, &nulls).unwrap(),
                device.upload(&stream, &ids).unwrap(),
            );
            let column = WindowColumn {
                entry: Entry::I64,
                entries: In(&on_device),
                nulls: Some(In(&bits)),
            };
            // 128-bit sums; the last element is irrelevant before.
            let mut wide = device.upload(&stream, &vec![u64::MAX; 2 * (len + 1)]).unwrap();
            let target = wide.slice_mut(..2 * len).unwrap().into_bytes();
            let made = WindowValue::WideInteger;
            values
                .launch(&stream, &column, Some(In(&order)), made, Out(target))
                .unwrap();
            let mut totals = device.zeroed::<u64>(&stream, 2 * sums.totals()).unwrap();
            sums.replace_wide(&stream, InOut(&mut wide), 2, Out(&mut totals))
                .unwrap();
            let mut expected = vec![0i128];
            for id in &ids {
                expected.push(expected.last().unwrap() + i128::from(of(id).unwrap_or(0)));
            }
            let found = stream.read(&wide, ..).unwrap();
            let found: Vec<i128> = found
                .chunks(2)
                .map(|words| (u128::from(words[1]) << 64 | u128::from(words[0])) as i128)
                .collect();
            assert_eq!(found, expected, "{len} values");
            // A tree of maxima.
            let nodes = WindowTree::nodes(len as u64) as usize;
            let mut folded = device.upload(&stream, &vec![0xffu8; 8 * nodes]).unwrap();
            let lowest = folded.slice_mut(..8 * len).unwrap();
            values
                .launch(&stream, &column, Some(In(&order)), WindowValue::Rank, Out(lowest))
                .unwrap();
            tree.launch(&stream, InOut(&mut folded), len as u64, Fold::Max64)
                .unwrap();
            let rank = |id: &u32| of(id).map_or(0, |value| value as u64 ^ 1 << 63);
            let mut level: Vec<u64> = ids.iter().map(rank).collect();
            let mut expected = level.clone();
            while level.len() >= 16 {
                level = level
                    .chunks(16)
                    .map(|nodes| *nodes.iter().max().unwrap())
                    .collect();
                expected.extend(&level);
            }
            let found = stream.read(&folded, ..).unwrap();
            let words = found
                .chunks(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            let found: Vec<u64> = words.collect();
            assert_eq!(found, expected, "{len} values");
        }
    }
}
