//! The kernels that sort by strings, and that gather strings in an order, compared with the host, on the
//! emulated device and on a GPU if available.

use galatea_device::{Device, DeviceBuffer, In, InOut, Out, testing};
use galatea_kernels::{
    GatherStrings, KeyWidth, PLACE_FIELD_BITS, PlaceField, PrefixSum, RankKeys, StringChunk, StringRanks,
    StringSort, WantedStrings,
};

use crate::emulated;

/// Words before the positions: no slots.
const HEAD: usize = 8;

/// The greatest position.
const PLACE: u64 = (1 << PLACE_FIELD_BITS) - 1;

fn devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [0, 7].map(emulated).into();
    devices.extend(testing::gpu());
    devices
}

/// Distinct strings, in no order: the empty one, some that extend others by zeros, some with long common
/// prefixes.
fn texts(count: usize) -> Vec<Vec<u8>> {
    let text = |number: usize| match number % 4 {
        0 => vec![0; number / 4],
        1 => format!(
            "https://example.org/a/rather/long/path/{:05}",
            number * 7919 % 65_536
        )
        .into_bytes(),
        2 => [
            "\u{e9}".repeat(number % 23).into_bytes(),
            number.to_be_bytes().to_vec(),
        ]
        .concat(),
        _ => format!("{}\0", number * 31 % 1009 + number * 1009).into_bytes(),
    };
    let mut all: Vec<Vec<u8>> = (0..count).map(text).collect();
    all.sort_by_key(|text| {
        let hash = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        text.iter().fold(0x811c_9dc5, hash)
    });
    all
}

/// The memory of strings, and their positions.
fn interned(texts: &[Vec<u8>]) -> (Vec<u64>, Vec<u64>) {
    let mut words = vec![0];
    let mut places = Vec::new();
    for text in texts {
        places.push(words.len() as u64);
        words.push(text.len() as u64);
        let chunks = text.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        words.extend(chunks);
    }
    ([vec![0; HEAD], words].concat(), places)
}

#[test]
fn string_sort_and_string_ranks_match_byte_order() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (sort, ranks_of) = (
            StringSort::new(&device).unwrap(),
            StringRanks::new(&device).unwrap(),
        );
        for count in [1, 2, 7, 8, 9, 16, 17, 31, 33, 255, 2049, 5000] {
            let texts = texts(count);
            let (memory, places) = interned(&texts);
            let len = memory.len() - HEAD;
            let memory = device.upload(&stream, &memory).unwrap();
            // Slots of a table have bits of the hash above the position.
            let tagged: Vec<u64> = places.iter().map(|place| place | 0xab_cdef << 40).collect();
            let mut from = device.upload(&stream, &tagged).unwrap();
            let mut to = device.upload(&stream, &vec![u64::MAX; count]).unwrap();
            let mut width = 0;
            while width == 0 || width < count as u64 {
                sort.launch(&stream, In(&memory), In(&from), Out(&mut to), width)
                    .unwrap();
                std::mem::swap(&mut from, &mut to);
                width = (2 * width).max(StringSort::RUN);
            }
            let mut expected: Vec<(&Vec<u8>, u64)> = texts.iter().zip(places).collect();
            expected.sort_unstable();
            let expected: Vec<u64> = expected.into_iter().map(|(_, place)| place).collect();
            assert_eq!(stream.read(&from, ..).unwrap(), expected, "{count} texts");
            let mut ranks = device.upload(&stream, &vec![u32::MAX; len]).unwrap();
            ranks_of.launch(&stream, In(&from), InOut(&mut ranks)).unwrap();
            let ranks = stream.read(&ranks, ..).unwrap();
            for (rank, place) in expected.iter().enumerate() {
                assert_eq!(ranks[*place as usize], rank as u32 + 1, "{count} texts");
            }
        }
    }
}

#[test]
fn rank_keys_replaces_string_positions_by_ranks() {
    const TEXTS: u64 = 1000;
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = RankKeys::new(&device).unwrap();
        // Ranks with bits that differ from those of their positions.
        let rank = |place: u64| (place * 7919 % TEXTS + 1) as u32;
        let ranks: Vec<u32> = (0..TEXTS).map(rank).collect();
        let ranks = device.upload(&stream, &ranks).unwrap();
        let widths = KeyWidth::ALL.into_iter();
        let cases = widths.flat_map(|width| [0, 1, 31, 32, 33, 34, 40, 63].map(|bit| (width, bit)));
        for (width, bit) in cases {
            for (descending, rows) in [(false, 33), (true, 33), (true, 2), (false, 700)] {
                let places: Vec<u64> = (0..rows).map(|row| row * 31 % TEXTS).collect();
                // Row 0 is NULL; other bits must not be changed.
                let keys = |value: &dyn Fn(u64) -> u64| -> Vec<u128> {
                    let fields = places
                        .iter()
                        .map(|place| if *place == 0 { 0 } else { value(*place) });
                    let around = |row: usize| 0x5a5a_a5a5_0ff0_1234_8765_cba9_1357_9bdf_u128 ^ row as u128;
                    fields
                        .enumerate()
                        .map(|(row, field)| {
                            let key = around(row) & !(u128::from(PLACE) << bit) | u128::from(field) << bit;
                            match width {
                                KeyWidth::Four => key & ((1 << 96) - 1),
                                KeyWidth::Eight => key,
                            }
                        })
                        .collect()
                };
                let before = keys(&|place| if descending { PLACE - place } else { place });
                let of_rank = |place: u64| {
                    let rank = u64::from(rank(place));
                    if descending { TEXTS + 1 - rank } else { rank }
                };
                let expected = keys(&of_rank);
                let low: Vec<u8> = before
                    .iter()
                    .flat_map(|key| (*key as u64).to_le_bytes())
                    .collect();
                let high = |keys: &[u128]| -> Vec<u8> {
                    let bytes = |key: &u128| ((key >> 64) as u64).to_le_bytes();
                    keys.iter()
                        .flat_map(|key| bytes(key).into_iter().take(width.bytes()))
                        .collect()
                };
                let mut low = device.upload(&stream, &low).unwrap();
                let mut upper = device.upload(&stream, &high(&before)).unwrap();
                let field = PlaceField {
                    low: (KeyWidth::Eight, InOut(&mut low)),
                    high: PlaceField::begins_before(bit).then(|| (width, InOut(&mut upper))),
                    bit,
                    descending,
                };
                kernel
                    .launch(&stream, field, In(&ranks), TEXTS, rows as usize)
                    .unwrap();
                let named = format!("{width:?}, bit {bit}, descending: {descending}, {rows} rows");
                let lows: Vec<u8> = expected
                    .iter()
                    .flat_map(|key| (*key as u64).to_le_bytes())
                    .collect();
                assert_eq!(stream.read(&low, ..).unwrap(), lows, "{named}");
                assert_eq!(stream.read(&upper, ..).unwrap(), high(&expected), "{named}");
            }
        }
    }
}

/// A field in 32-bit keys.
fn narrow(words: &mut DeviceBuffer<u8>, bit: u32, descending: bool) -> PlaceField<'_> {
    PlaceField {
        low: (KeyWidth::Four, InOut(words)),
        high: None,
        bit,
        descending,
    }
}

#[test]
fn rank_keys_supports_fields_in_32_bit_keys() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = RankKeys::new(&device).unwrap();
        let ranks = device.upload(&stream, &[0u32, 3, 1, 2]).unwrap();
        for (bit, descending) in [(0, false), (1, false), (0, true), (1, true)] {
            let key = |field: u64| ((field << bit) as u32 | bit).to_le_bytes();
            let keys = |fields: [u64; 4]| fields.map(key).concat();
            let (places, expected) = match descending {
                false => ([0, 1, 2, 3], [0, 3, 1, 2]),
                true => ([0, PLACE - 1, PLACE - 2, PLACE - 3], [0, 1, 3, 2]),
            };
            let mut words = device.upload(&stream, &keys(places)).unwrap();
            kernel
                .launch(&stream, narrow(&mut words, bit, descending), In(&ranks), 3, 4)
                .unwrap();
            assert_eq!(stream.read(&words, ..).unwrap(), keys(expected), "bit {bit}");
            let beyond = narrow(&mut words, 2, descending);
            let refused = kernel.launch(&stream, beyond, In(&ranks), 3, 4);
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("the field of a place"), "{text}");
        }
    }
}

/// A chunk of a string column.
struct Chunk {
    texts: Vec<Option<Vec<u8>>>,
    bytes: Vec<u8>,
    validity: Vec<u8>,
    offsets: Vec<u8>,
}

/// A chunk of strings, some of them NULL, in the format of the store.
fn chunk(rows: usize, seed: usize, wide: bool) -> Chunk {
    let text = |row: usize| match (row + seed) * 7919 % 13 {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(vec![b'x'; (row * 31 + seed) % 700]),
        other => Some(format!("{seed}/{row}/{}", "-".repeat(other)).into_bytes()),
    };
    let texts: Vec<_> = (0..rows).map(text).collect();
    let (mut bytes, mut validity, mut ends) = (Vec::new(), vec![0; rows.div_ceil(8)], vec![0u64]);
    for (row, text) in texts.iter().enumerate() {
        bytes.extend(text.iter().flatten());
        validity[row / 8] |= u8::from(text.is_some()) << (row % 8);
        ends.push(bytes.len() as u64);
    }
    let offsets = match wide {
        true => ends.iter().flat_map(|end| end.to_le_bytes()).collect(),
        false => ends.iter().flat_map(|end| (*end as u32).to_le_bytes()).collect(),
    };
    Chunk {
        texts,
        bytes,
        validity,
        offsets,
    }
}

#[test]
fn strings_are_gathered_in_the_order_of_rows() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (gather, sums) = (
            GatherStrings::new(&device).unwrap(),
            PrefixSum::new(&device).unwrap(),
        );
        for (count, wide) in [
            (0, false),
            (1, true),
            (31, false),
            (33, true),
            (255, true),
            (1000, false),
            (3001, true),
        ] {
            let chunks: Vec<Chunk> = [1, 40, 1025, 300]
                .iter()
                .enumerate()
                .map(|(k, rows)| chunk(*rows, k, wide))
                .collect();
            let all: Vec<_> = (chunks.iter())
                .map(|chunk| {
                    let upload = |bytes: &[u8]| device.upload(&stream, bytes).unwrap();
                    (
                        upload(&chunk.bytes),
                        upload(&chunk.validity),
                        upload(&chunk.offsets),
                    )
                })
                .collect();
            // The last chunk has no validity bitmap: no string is NULL.
            let told: Vec<StringChunk> = (all.iter().zip(&chunks).enumerate())
                .map(|(k, ((bytes, validity, offsets), chunk))| StringChunk {
                    rows: chunk.texts.len() as u64,
                    bytes: bytes.address(),
                    validity: if k == 3 { 0 } else { validity.address() },
                    offsets: offsets.address(),
                })
                .collect();
            let rows_of = |position: u64| chunks[position as usize].texts.len() as u64;
            let wanted: Vec<u64> = (0..count as u64)
                .map(|at| match (at * 2_654_435_761 % 5, at * 7919) {
                    // Invalid rows: beyond a chunk, and beyond all chunks.
                    (4, number) => [1 << 32 | 40, 4 << 32, u64::MAX][number as usize % 3],
                    (position, number) => (position << 32) | (number % rows_of(position)),
                })
                .collect();
            let expected: Vec<Option<&[u8]>> = (wanted.iter())
                .map(|row| {
                    let chunk = chunks.get((row >> 32) as usize)?;
                    let text = chunk.texts.get(*row as u32 as usize)?.as_deref();
                    match row >> 32 {
                        3 => Some(text.unwrap_or_default()),
                        _ => text,
                    }
                })
                .collect();
            let rows: Vec<u8> = wanted.iter().flat_map(|row| row.to_le_bytes()).collect();
            let (told, rows) = (
                device.upload(&stream, &told).unwrap(),
                device.upload(&stream, &rows).unwrap(),
            );
            let wanted = WantedStrings {
                chunks: In(&told),
                rows: In(&rows),
                offset_width: if wide { 8 } else { 4 },
            };
            let mut starts = device.upload(&stream, &vec![u64::MAX; count + 1]).unwrap();
            let mut valid = device.upload(&stream, &vec![7u8; count]).unwrap();
            let lengths = Out(starts.slice_mut(..count).unwrap());
            gather
                .lengths(&stream, &wanted, lengths, Some(Out(&mut valid)))
                .unwrap();
            let mut totals = device.upload(&stream, &vec![0u64; sums.totals()]).unwrap();
            sums.replace_wide(&stream, InOut(&mut starts), 1, Out(&mut totals))
                .unwrap();
            let starts_read = stream.read(&starts, ..).unwrap();
            let total = starts_read[count] as usize;
            let mut bytes = device.upload(&stream, &vec![0xaa; total + 1]).unwrap();
            let starts = In(starts.slice(..count).unwrap());
            gather.copy(&stream, &wanted, starts, Out(&mut bytes)).unwrap();
            let (bytes, valid) = (stream.read(&bytes, ..).unwrap(), stream.read(&valid, ..).unwrap());
            let found: Vec<Option<&[u8]>> = (starts_read.windows(2).zip(valid))
                .map(|(ends, valid)| (valid == 1).then_some(&bytes[ends[0] as usize..ends[1] as usize]))
                .collect();
            assert_eq!(found, expected, "{count} texts, wide: {wide}");
            assert_eq!(bytes[total], 0xaa, "{count} texts: one byte behind the last");
        }
    }
}
