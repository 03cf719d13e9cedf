//! AES-128 (FIPS 197) on the device: one table of 256 words, with a copy in every bank of shared memory, so
//! that the lanes of a warp never conflict. On the CPU, the crate `aes` computes it, with the processor's AES
//! instructions if it has them.

use std::borrow::Cow;
use std::fmt::Write as _;

use aes::Aes128 as Cipher;
use aes::cipher::{Array, BlockCipherEncrypt as _, KeyInit as _};
use galatea_flow::GpuOperator;

/// The mode of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each block independently: electronic code book.
    Ecb,
    /// Blocks are combined with encrypted counters: a nonce of 64 bits, followed by the block's number, both
    /// with the most significant byte first. The same operation encrypts and decrypts.
    Ctr {
        /// The nonce.
        nonce: u64,
    },
}

/// AES-128 encryption of frames. All frames of a topology except the last must be full, because a block's
/// number is computed from its frame's position at the source.
#[derive(Debug, Clone)]
pub struct Aes128 {
    key: [u8; 16],
    mode: Mode,
    frame_bytes: usize,
}

impl Aes128 {
    /// Encryption with a key, in frames of `frame_bytes` bytes.
    #[must_use]
    pub fn new(key: [u8; 16], mode: Mode, frame_bytes: usize) -> Self {
        Self {
            key,
            mode,
            frame_bytes,
        }
    }

    /// The same on the CPU, for the frame at a position at the source. Bytes after the last whole block are
    /// left out.
    pub fn encrypt(&self, frame: u64, input: &[u8], output: &mut [u8]) {
        /// Number of blocks that the processor encrypts together.
        const TOGETHER: usize = 64;
        let cipher = Cipher::new(&Array::from(self.key));
        let first = frame * (self.frame_bytes / 16) as u64;
        let whole = input.len().min(output.len()) / 16 * 16;
        let parts = input[..whole]
            .chunks(16 * TOGETHER)
            .zip(output[..whole].chunks_mut(16 * TOGETHER));
        for (part, (input, output)) in parts.enumerate() {
            let mut blocks = [Array::from([0_u8; 16]); TOGETHER];
            let blocks = &mut blocks[..input.len() / 16];
            for (at, block) in blocks.iter_mut().enumerate() {
                match self.mode {
                    Mode::Ecb => block.copy_from_slice(&input[at * 16..(at + 1) * 16]),
                    Mode::Ctr { nonce } => {
                        block[..8].copy_from_slice(&nonce.to_be_bytes());
                        block[8..].copy_from_slice(&(first + (part * TOGETHER + at) as u64).to_be_bytes());
                    }
                }
            }
            cipher.encrypt_blocks(blocks);
            for (at, block) in blocks.iter().enumerate() {
                let target = &mut output[at * 16..(at + 1) * 16];
                target.copy_from_slice(block);
                if let Mode::Ctr { .. } = self.mode {
                    for (byte, text) in target.iter_mut().zip(&input[at * 16..]) {
                        *byte ^= text;
                    }
                }
            }
        }
    }
}

impl GpuOperator for Aes128 {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self.mode {
            Mode::Ecb => "AES-128 ECB",
            Mode::Ctr { .. } => "AES-128 CTR",
        })
    }

    fn source(&self) -> Cow<'_, str> {
        let mut table = String::from("__device__ const u32 TABLE[256] = {");
        let sbox = sbox();
        for (index, s) in sbox.iter().enumerate() {
            let (s, twice) = (u32::from(*s), u32::from(double(*s)));
            let separator = if index % 12 == 0 { "\n    " } else { " " };
            let _ = write!(
                table,
                "{separator}{:#010x}u,",
                twice | s << 8 | s << 16 | (twice ^ s) << 24
            );
        }
        Cow::Owned(format!("{table}\n}};\n{DEVICE}"))
    }

    fn parameters(&self) -> Vec<u64> {
        let keys = expand_key(self.key);
        let mut words: Vec<u64> = keys
            .chunks_exact(2)
            .map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32)
            .collect();
        let (counted, nonce) = match self.mode {
            Mode::Ecb => (0, 0),
            Mode::Ctr { nonce } => (1, nonce),
        };
        words.extend([counted, nonce, (self.frame_bytes / 16) as u64]);
        words
    }
}

const DEVICE: &str = r"
using Block = Vector<u32, 4>;

GALATEA_INLINE u32* table() {
    __shared__ u32 banks[256 * 32];
    return banks;
}

GALATEA_INLINE u32 rotated(u32 v, u32 bits) { return v << bits | v >> (32 - bits); }
GALATEA_INLINE u32 reversed(u32 v) { return v >> 24 | (v >> 8 & 0xff00u) | (v << 8 & 0xff0000u) | v << 24; }

// Encrypts a block whose columns are words, row 0 in the low byte. `lane` is the bank to look into.
GALATEA_INLINE Block encrypt(Block state, const u32* keys, const u32* t, u32 lane) {
    u32 s0 = state.item[0] ^ keys[0], s1 = state.item[1] ^ keys[1];
    u32 s2 = state.item[2] ^ keys[2], s3 = state.item[3] ^ keys[3];
    const auto at = [&](u32 word, u32 row) { return t[(word >> (8 * row) & 0xffu) * 32 + lane]; };
    // Rows shift: row r of a column comes from r columns on.
    const auto mixed = [&](u32 a, u32 b, u32 c, u32 d) {
        return at(a, 0) ^ rotated(at(b, 1), 8) ^ rotated(at(c, 2), 16) ^ rotated(at(d, 3), 24);
    };
#pragma unroll 1
    for (u32 round = 1; round < 10; ++round) {
        const u32* key = keys + 4 * round;
        const u32 n0 = mixed(s0, s1, s2, s3) ^ key[0], n1 = mixed(s1, s2, s3, s0) ^ key[1];
        const u32 n2 = mixed(s2, s3, s0, s1) ^ key[2], n3 = mixed(s3, s0, s1, s2) ^ key[3];
        s0 = n0, s1 = n1, s2 = n2, s3 = n3;
    }
    // Without mixing: the second byte of an entry is the S-box's.
    const auto last = [&](u32 a, u32 b, u32 c, u32 d) {
        return (at(a, 0) >> 8 & 0xffu) | (at(b, 1) & 0xff00u) | (at(c, 2) << 8 & 0xff0000u) | (at(d, 3) << 16 & 0xff000000u);
    };
    Block result;
    result.item[0] = last(s0, s1, s2, s3) ^ keys[40], result.item[1] = last(s1, s2, s3, s0) ^ keys[41];
    result.item[2] = last(s2, s3, s0, s1) ^ keys[42], result.item[3] = last(s3, s0, s1, s2) ^ keys[43];
    return result;
}

struct Operator {
    GALATEA_INLINE static void begin() {
        for (u32 i = threadIdx.x; i < 256 * 32; i += blockDim.x) table()[i] = TABLE[i / 32];
    }
    GALATEA_INLINE static void compute(Work& work) {
        const u32* keys = work.parameters<u32>();
        const u64* mode = work.parameters<u64>() + 22;
        const u32* t = table();
        const u32 lane = threadIdx.x % 32;
        if (mode[0] == 0) {
            map<Block, Block>(work, [&](Block block, u32) { return encrypt(block, keys, t, lane); });
            return;
        }
        const u64 nonce = mode[1];
        const u64 first = work.source() * mode[2];
        map<Block, Block>(work, [&](Block block, u32 index) {
            const u64 number = first + index;
            Block counter;
            counter.item[0] = reversed(u32(nonce >> 32)), counter.item[1] = reversed(u32(nonce));
            counter.item[2] = reversed(u32(number >> 32)), counter.item[3] = reversed(u32(number));
            const Block stream = encrypt(counter, keys, t, lane);
#pragma unroll
            for (u32 n = 0; n < 4; ++n) block.item[n] ^= stream.item[n];
            return block;
        });
    }
};
";

/// Twice an element of GF(2^8) modulo 0x11b.
const fn double(value: u8) -> u8 {
    (value << 1) ^ (if value & 0x80 != 0 { 0x1b } else { 0 })
}

/// The S-box: the inverse in GF(2^8), then an affine map (FIPS 197, section 5.1.1).
fn sbox() -> [u8; 256] {
    let mut sbox = [0; 256];
    // 3 generates the field: `power` takes the values of all elements except 0, `inverse` in reverse order.
    let (mut power, mut inverse) = (1_u8, 1_u8);
    loop {
        power ^= double(power);
        // Division by 3.
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        if inverse & 0x80 != 0 {
            inverse ^= 0x09;
        }
        let spread = inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4);
        sbox[power as usize] = spread ^ 0x63;
        if power == 1 {
            break;
        }
    }
    sbox[0] = 0x63;
    sbox
}

/// The round keys of a key, as words with row 0 in the low byte (FIPS 197, section 5.2).
#[must_use]
pub fn expand_key(key: [u8; 16]) -> [u32; 44] {
    let sbox = sbox();
    let substituted = |word: u32| u32::from_le_bytes(word.to_le_bytes().map(|byte| sbox[byte as usize]));
    let mut keys = [0; 44];
    for (word, bytes) in keys.iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mut round = 1_u8;
    for at in 4..44 {
        let mut word = keys[at - 1];
        if at % 4 == 0 {
            word = substituted(word.rotate_right(8)) ^ u32::from(round);
            round = double(round);
        }
        keys[at] = keys[at - 4] ^ word;
    }
    keys
}
