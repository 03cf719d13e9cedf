//! Unpacking codes, compared with a packing implemented here from the description of the format.

use galatea_device::{DeviceError, In, Out};
use galatea_kernels::{PACKED_BLOCK_CODES, PackedColumn, UNPACK_COLUMNS, UnpackCodes};

use crate::stressed_devices as devices;

/// Codes as a directory of (least, position in units of 16 bytes, bits), bits block by block, and a unit of
/// 0.
fn packed(codes: &[u64]) -> Vec<u8> {
    let blocks: Vec<_> = codes.chunks(PACKED_BLOCK_CODES).collect();
    let (mut directory, mut bytes) = (Vec::new(), Vec::new());
    for block in &blocks {
        let least = *block.iter().min().unwrap();
        let bits = u64::BITS - (block.iter().max().unwrap() - least).leading_zeros();
        let place = blocks.len() + bytes.len() / 16;
        directory.extend(least.to_le_bytes());
        directory.extend((place as u32).to_le_bytes());
        directory.extend(bits.to_le_bytes());
        let mut of_block = vec![0u8; (block.len() * bits as usize).div_ceil(128) * 16];
        for (at, code) in block.iter().enumerate() {
            for bit in 0..bits as usize {
                let place = at * bits as usize + bit;
                of_block[place / 8] |= (((code - least) >> bit & 1) as u8) << (place % 8);
            }
        }
        bytes.extend(of_block);
    }
    [directory, bytes, vec![0; 16]].concat()
}

/// Codes of `bits` bits above a least one; some blocks have fewer bits.
fn codes(rows: usize, bits: u32, least: u64, seed: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let number = |row: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bits = bits.saturating_sub((row / PACKED_BLOCK_CODES % 3) as u32);
        least + state.checked_shr(64 - bits).unwrap_or(0)
    };
    (0..rows).map(number).collect()
}

#[test]
fn codes_are_unpacked() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = UnpackCodes::new(&device).unwrap();
        for (seed, rows) in [1usize, 2, 15, 31, 33, 511, 512, 513, 1025, 40_001]
            .into_iter()
            .enumerate()
        {
            // For each width, columns with few bits and with the maximum; more columns than one launch
            // processes.
            let shapes = [
                (1, 0, 5),
                (1, 1, 0),
                (1, 7, 9),
                (1, 8, 0),
                (2, 3, 60_000),
                (2, 13, 1),
                (2, 16, 0),
                (4, 5, u64::from(u32::MAX) - 40),
                (4, 17, 3),
                (4, 31, 1 << 30),
                (4, 32, 0),
                (8, 32, u64::MAX - u64::from(u32::MAX)),
                (8, 9, 1 << 40),
                (8, 20, 0),
                (1, 2, 0),
                (2, 9, 0),
                (4, 24, 7),
                (1, 4, 0),
            ];
            assert!(shapes.len() > UNPACK_COLUMNS);
            let (mut source, mut columns, mut expected, mut end) = (Vec::new(), Vec::new(), Vec::new(), 0u64);
            for (width, bits, least) in shapes {
                let codes = codes(rows, bits, least, seed as u64 * 100 + u64::from(bits) + 1);
                let packed = packed(&codes);
                columns.push(PackedColumn {
                    packed: source.len() as u64,
                    packed_bytes: packed.len() as u64,
                    codes: end,
                    width,
                });
                source.extend(packed);
                expected.push(codes);
                end = (end + rows as u64 * u64::from(width)).next_multiple_of(256);
            }
            let source = device.upload(&stream, &source).unwrap();
            let mut target = device.upload(&stream, &vec![0xa5u8; end as usize]).unwrap();
            kernel
                .launch(&stream, In(&source), Out(&mut target), rows as u64, &columns)
                .unwrap();
            let found = stream.read(&target, ..).unwrap();
            for (column, expected) in columns.iter().zip(&expected) {
                let width = column.width as usize;
                for (row, expected) in expected.iter().enumerate() {
                    let at = column.codes as usize + row * width;
                    let mut code = [0; 8];
                    code[..width].copy_from_slice(&found[at..at + width]);
                    assert_eq!(
                        u64::from_le_bytes(code),
                        *expected,
                        "{rows} rows, {column:?}, row {row}"
                    );
                }
            }
        }
    }
}

#[test]
fn columns_outside_their_buffers_are_refused() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = UnpackCodes::new(&device).unwrap();
        let source = device.upload(&stream, &packed(&[1, 2, 3])).unwrap();
        let good = PackedColumn {
            packed: 0,
            packed_bytes: source.len() as u64,
            codes: 0,
            width: 4,
        };
        for wrong in [
            PackedColumn { packed: 16, ..good },
            PackedColumn { codes: 16, ..good },
            PackedColumn { codes: 4, ..good },
            PackedColumn { width: 8, ..good },
            PackedColumn {
                packed: u64::MAX,
                ..good
            },
        ] {
            let mut target = device.zeroed::<u8>(&stream, 16).unwrap();
            let refused = kernel.launch(&stream, In(&source), Out(&mut target), 3, &[wrong]);
            assert!(matches!(refused, Err(DeviceError::Range { .. })), "{wrong:?}");
        }
    }
}
