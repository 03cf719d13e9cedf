//! RAID-6: two parities of the blocks of some disks. Any two lost blocks can be reconstructed from them.
//!
//! The field is GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), the generator 2: P = Σ D_i, Q = Σ 2^i D_i.
//! A frame contains the disks' chunks, concatenated. The output contains P, followed by Q.

use std::borrow::Cow;

use galatea_flow::GpuOperator;

/// P and Q of `disks` data disks, in theory 2 to 255. Device code is compiled for this number.
#[derive(Debug, Clone, Copy)]
pub struct Raid6 {
    /// Number of data disks.
    pub disks: u32,
}

impl GpuOperator for Raid6 {
    fn name(&self) -> Cow<'_, str> {
        Cow::Owned(format!("RAID-6 of {} + 2", self.disks))
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Owned(format!("constexpr u32 DISKS = {};\n{DEVICE}", self.disks))
    }
}

/// Bytes of a frame that do not fill a whole vector of every disk are left out.
const DEVICE: &str = r"
// Doubles four elements of the field.
GALATEA_INLINE u32 twice(u32 v) { return (v << 1 & 0xfefefefeu) ^ ((v >> 7 & 0x01010101u) * 0x1du); }

struct Operator {
    GALATEA_INLINE static void begin() {}
    GALATEA_INLINE static void compute(Work& work) {
        const u32 vectors = work.bytes_in / DISKS / 16;
        const u32* in = work.input<u32>();
        u32* out = work.output<u32>();
        for (u32 i = work.thread(); i < vectors; i += work.threads()) {
            Vector<u32, 4> data[DISKS];
#pragma unroll
            for (u32 disk = 0; disk < DISKS; ++disk) data[disk] = load_vector<4>(in, disk * vectors + i);
            Vector<u32, 4> p = data[DISKS - 1], q = p;
#pragma unroll
            for (u32 back = 1; back < DISKS; ++back) {
#pragma unroll
                for (u32 n = 0; n < 4; ++n) {
                    p.item[n] ^= data[DISKS - 1 - back].item[n];
                    q.item[n] = twice(q.item[n]) ^ data[DISKS - 1 - back].item[n];
                }
            }
            store_vector<4>(out, i, p);
            store_vector<4>(out, vectors + i, q);
        }
        work.set_output_bytes(vectors * 32);
    }
};
";

impl Raid6 {
    /// Bytes of each disk's chunk in a frame of `bytes` bytes.
    #[must_use]
    pub fn chunk(self, bytes: usize) -> usize {
        bytes / self.disks as usize / 16 * 16
    }

    /// P and Q of a frame, on the CPU: eight elements per word; the compiler vectorises the words.
    ///
    /// `parities` contains P, followed by Q, of [`Raid6::chunk`] bytes each.
    pub fn encode(self, data: &[u8], parities: &mut [u8]) {
        let chunk = self.chunk(data.len());
        let (p, q) = parities[..2 * chunk].split_at_mut(chunk);
        let disks = self.disks as usize;
        let disk =
            |number: usize| -> &[u64] { bytemuck::cast_slice(&data[number * chunk..(number + 1) * chunk]) };
        let p: &mut [u64] = bytemuck::cast_slice_mut(p);
        let q: &mut [u64] = bytemuck::cast_slice_mut(q);
        // Bytes that fit the first-level cache.
        const PART: usize = 512;
        for start in (0..p.len()).step_by(PART) {
            let part = start..p.len().min(start + PART);
            p[part.clone()].copy_from_slice(&disk(disks - 1)[part.clone()]);
            q[part.clone()].copy_from_slice(&disk(disks - 1)[part.clone()]);
            for number in (0..disks - 1).rev() {
                let data = &disk(number)[part.clone()];
                for ((p, q), d) in p[part.clone()].iter_mut().zip(&mut q[part.clone()]).zip(data) {
                    *p ^= d;
                    let high = (*q >> 7) & 0x0101_0101_0101_0101;
                    *q = ((*q << 1) & 0xfefe_fefe_fefe_fefe) ^ (high * 0x1d) ^ d;
                }
            }
        }
    }

    /// Reconstructs two lost disks from the others and the parities, by tables of the field, not by the code
    /// that computed the parities. The lost chunks in `data` may contain anything.
    pub fn reconstruct(self, data: &mut [u8], parities: &[u8], lost: (usize, usize)) {
        let chunk = self.chunk(data.len());
        let field = Field::new();
        let (x, y) = (lost.0.min(lost.1), lost.0.max(lost.1));
        let denominator = field.power(y - x) ^ 1;
        for at in 0..chunk {
            let (mut a, mut b) = (parities[at], parities[chunk + at]);
            for disk in (0..self.disks as usize).filter(|disk| *disk != x && *disk != y) {
                let d = data[disk * chunk + at];
                a ^= d;
                b ^= field.multiply(field.power(disk), d);
            }
            // a = D_x + D_y, b = 2^x D_x + 2^y D_y.
            let scaled = field.divide(b, field.power(x));
            let found = field.divide(field.multiply(field.power(y - x), a) ^ scaled, denominator);
            data[x * chunk + at] = found;
            data[y * chunk + at] = a ^ found;
        }
    }
}

/// The field, as logarithms.
struct Field {
    exponential: [u8; 255],
    logarithm: [u8; 256],
}

impl Field {
    fn new() -> Self {
        let mut field = Self {
            exponential: [0; 255],
            logarithm: [0; 256],
        };
        let mut value = 1_u16;
        for power in 0..255 {
            field.exponential[power] = value as u8;
            field.logarithm[value as usize] = power as u8;
            value <<= 1;
            if value & 0x100 != 0 {
                value ^= 0x11d;
            }
        }
        field
    }

    /// 2 to this power.
    fn power(&self, power: usize) -> u8 {
        self.exponential[power % 255]
    }

    fn multiply(&self, a: u8, b: u8) -> u8 {
        if a == 0 || b == 0 {
            return 0;
        }
        let (a, b) = (
            self.logarithm[a as usize] as usize,
            self.logarithm[b as usize] as usize,
        );
        self.power(a + b)
    }

    fn divide(&self, a: u8, b: u8) -> u8 {
        if a == 0 {
            return 0;
        }
        let (a, b) = (
            self.logarithm[a as usize] as usize,
            self.logarithm[b as usize] as usize,
        );
        self.power(a + 255 - b)
    }
}
