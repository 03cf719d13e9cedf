//! Prices of decoding a column chunk on the host and on the device: seconds of a load's thread.
//!
//! All cores load at the same time, so a column chunk costs the time of the thread that loads it. On the
//! host, that is decoding and encoding. On the device, it is copying to pinned memory, waiting for the link,
//! kernels and other column chunks, and encoding of strings. A device in demand thus becomes expensive, and
//! the host takes column chunks again.

use std::time::Duration;

use galatea_base::policy::policy;
use parking_lot::Mutex;

policy! {
    /// Prices of decoding Parquet pages, in nanoseconds of a thread, until they are measured; pairs are for
    /// values of fixed width and for strings.
    pub(crate) struct DecodingPrices {
        /// A byte of uncompressed pages on the host, decoded and encoded (TPC-H 30 with Snappy on 16 cores:
        /// four columns of lineitem in 0.83 s, comments of orders in 0.53 s).
        host_byte: [f64; 2] = [5.3, 3.9],
        /// The same on the device. Eight lanes take 1.22 s for four columns of lineitem on an H100, and the
        /// host of the same machine 1.02 s; half of the threads have no lane. A column chunk alone takes much
        /// longer, so that numbers are not explored. Strings were not measured apart.
        device_byte: [f64; 2] = [11.0, 7.4],
        /// A byte that the host decompresses, on either side: Zstandard at 1 GB/s.
        decompressed_byte: f64 = 1.0,
        /// A column chunk on the device: launches and five waits for the device.
        device_chunk: f64 = 0.3e6,
        /// A column chunk on the host: a reader and its first page.
        host_chunk: f64 = 20e3,
        /// Share of earlier measurements that the latest one replaces.
        latest: f64 = 0.25,
        /// A column chunk among this number takes the more expensive side, so that its price remains known.
        explored: u64 = 32,
        /// Unless that side takes longer by more than this factor.
        bearable: f64 = 2.0,
        /// Parts of free device memory of which a column chunk may use one: eight lanes use half of it at
        /// most.
        memory_parts: u64 = 16,
        /// Uncompressed bytes of the column chunks that the device decodes together, at least 8 per row: a
        /// block decompresses a page, so that the device needs many pages. When a warp did, the same columns
        /// took 1.45 s with 64 MiB.
        batch_bytes: u64 = 256 << 20,
    }
}

const POLICY: DecodingPrices = DecodingPrices::DEFAULT;

/// The side that decodes a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Device,
    Host,
}

/// The properties of a column chunk that determine its price.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnChunkSize {
    pub(crate) rows: u64,
    /// Bytes in the file.
    pub(crate) stored: u64,
    /// Bytes of its pages when they are not compressed.
    pub(crate) plain: u64,
    pub(crate) strings: bool,
    /// Whether the host decompresses the pages even if the device decodes them.
    pub(crate) host_codec: bool,
    /// Whether the host encodes dictionary indices, without their values.
    pub(crate) indexed: bool,
}

impl ColumnChunkSize {
    /// An estimate of the device memory for decoding it: stored and decompressed pages, slots and rows.
    pub(crate) fn device_bytes(&self) -> u64 {
        let of_row = 48;
        (self.stored + self.plain).saturating_add(self.rows.saturating_mul(of_row))
    }

    /// The size of two column chunks of a column.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            stored: self.stored + other.stored,
            plain: self.plain + other.plain,
            strings: self.strings | other.strings,
            host_codec: self.host_codec | other.host_codec,
            indexed: self.indexed & other.indexed,
        }
    }

    /// Number of its class among all classes with a price of their own.
    fn class(&self) -> usize {
        usize::from(self.strings) + 2 * usize::from(self.host_codec)
    }
}

/// Recent measurements of one side. Large column chunks count more than small ones.
#[derive(Debug, Default)]
struct Recent {
    nanoseconds: f64,
    /// Uncompressed bytes.
    bytes: f64,
}

impl Recent {
    fn add(&mut self, nanoseconds: f64, bytes: f64) {
        let kept = 1.0 - POLICY.latest;
        self.nanoseconds = self.nanoseconds * kept + nanoseconds;
        self.bytes = self.bytes * kept + bytes;
    }

    /// Nanoseconds for a byte; none before the first measurement.
    fn byte(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.nanoseconds / self.bytes)
    }
}

/// Measurements of a class of column chunks.
#[derive(Debug, Default)]
struct Measured {
    host: Recent,
    device: Recent,
    /// Number of decisions so far.
    decisions: u64,
}

/// Prices by class of column chunks.
#[derive(Debug)]
pub(super) struct Prices {
    /// Nanoseconds that a thread waits for a byte over the link while all threads use it.
    link_byte: f64,
    measured: [Mutex<Measured>; 4],
}

impl Prices {
    /// `link_rate`: bytes per second.
    pub(super) fn new(link_rate: f64) -> Self {
        Self {
            link_byte: 1e9 / link_rate.max(1.0) * rayon::current_num_threads() as f64,
            measured: Default::default(),
        }
    }

    /// Whether the device takes less time for large column chunks like this one.
    pub(super) fn prefers_device(&self, size: &ColumnChunkSize) -> bool {
        if size.indexed {
            return false;
        }
        let [host, device] = self.byte(size, &self.measured[size.class()].lock());
        device < host
    }

    /// The side that takes less time, or once in a while the other one. The host always encodes dictionary
    /// indices: three such columns of lineitem take 0.17 s on 16 cores, 0.33 s on the device, and two columns
    /// of strings 0.20 and 0.58 s (TPC-H 30, `bench/results/2026-11-29-nvidia-h200`).
    pub(super) fn cheaper_side(&self, size: &ColumnChunkSize) -> Side {
        if size.indexed {
            return Side::Host;
        }
        let mut measured = self.measured[size.class()].lock();
        measured.decisions += 1;
        let plain = size.plain as f64;
        let [host, device] = self.byte(size, &measured);
        let (host, device) = (
            plain * host + POLICY.host_chunk,
            plain * device + POLICY.device_chunk,
        );
        let is_bearable = host.max(device) <= POLICY.bearable * host.min(device);
        let is_explored = is_bearable && measured.decisions.is_multiple_of(POLICY.explored);
        match (device < host) != is_explored {
            true => Side::Device,
            false => Side::Host,
        }
    }

    /// Time of large column chunks on the cheaper side, relative to the host's.
    pub(super) fn relative_time(&self, strings: bool) -> f64 {
        let size = ColumnChunkSize {
            rows: 0,
            stored: 1,
            plain: 2,
            strings,
            host_codec: false,
            indexed: false,
        };
        let [host, device] = self.byte(&size, &self.measured[size.class()].lock());
        (device / host.max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// Nanoseconds for an uncompressed byte, on the host and on the device.
    fn byte(&self, size: &ColumnChunkSize, measured: &Measured) -> [f64; 2] {
        let decompressed = f64::from(u8::from(size.host_codec)) * POLICY.decompressed_byte;
        let kind = usize::from(size.strings);
        let over_link = size.stored as f64 / size.plain.max(1) as f64 * self.link_byte;
        let host = POLICY.host_byte[kind] + decompressed;
        let device = POLICY.device_byte[kind] + decompressed + over_link;
        [
            measured.host.byte().unwrap_or(host),
            measured.device.byte().unwrap_or(device),
        ]
    }

    /// Records the time that a thread has taken. The time of dictionary indices depends on their number of
    /// rows, and is no price of a byte of other pages.
    pub(super) fn measured(&self, side: Side, size: &ColumnChunkSize, time: Duration) {
        if size.indexed {
            return;
        }
        let mut measured = self.measured[size.class()].lock();
        let (recent, fixed) = match side {
            Side::Device => (&mut measured.device, POLICY.device_chunk),
            Side::Host => (&mut measured.host, POLICY.host_chunk),
        };
        recent.add((time.as_nanos() as f64 - fixed).max(0.0), size.plain as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(plain: u64) -> ColumnChunkSize {
        ColumnChunkSize {
            rows: plain / 8,
            stored: plain / 2,
            plain,
            strings: false,
            host_codec: false,
            indexed: false,
        }
    }

    /// Sides of the next decisions.
    fn sides(prices: &Prices, size: ColumnChunkSize, count: u64) -> Vec<Side> {
        (0..count).map(|_| prices.cheaper_side(&size)).collect()
    }

    #[test]
    fn unmeasured_prices_prefer_the_host() {
        let prices = Prices::new(50e9);
        assert_eq!(sides(&prices, numbers(1 << 10), 64), [Side::Host; 64]);
        assert_eq!(sides(&prices, numbers(8 << 20), 16), [Side::Host; 16]);
        assert_eq!(prices.relative_time(false), 1.0);
    }

    #[test]
    fn the_host_encodes_dictionary_indices() {
        let prices = Prices::new(50e9);
        let indexed = ColumnChunkSize {
            indexed: true,
            ..numbers(1 << 10)
        };
        // A million rows of a few bytes are no price of other bytes.
        (0..20).for_each(|_| prices.measured(Side::Host, &indexed, Duration::from_millis(4)));
        assert_eq!(sides(&prices, indexed, 64), [Side::Host; 64]);
        assert_eq!(sides(&prices, numbers(8 << 20), 64), [Side::Host; 64]);
        assert!(!prices.prefers_device(&indexed));
    }

    #[test]
    fn measured_times_replace_the_constants_of_their_class() {
        let prices = Prices::new(50e9);
        let size = numbers(8 << 20);
        let strings = ColumnChunkSize {
            strings: true,
            ..size
        };
        prices.measured(Side::Device, &size, Duration::from_millis(2));
        prices.measured(Side::Host, &size, Duration::from_millis(10));
        assert_eq!(sides(&prices, size, 4), [Side::Device; 4]);
        assert_eq!(sides(&prices, strings, 4), [Side::Host; 4]);
        assert!(prices.relative_time(false) < 0.5);
        // The device becomes busy, and takes somewhat longer than the host.
        (0..20).for_each(|_| prices.measured(Side::Device, &size, Duration::from_millis(15)));
        assert_eq!(sides(&prices, size, 4), [Side::Host; 4]);
        // A small column chunk changes little.
        let small = numbers(1 << 10);
        prices.measured(Side::Host, &small, Duration::from_millis(1));
        assert_eq!(sides(&prices, size, 4), [Side::Host; 4]);
        // It becomes idle again, which exploration finds.
        let all = sides(&prices, size, 2 * POLICY.explored);
        assert_eq!(all.iter().filter(|side| **side == Side::Device).count(), 2);
        (0..20).for_each(|_| prices.measured(Side::Device, &size, Duration::from_millis(2)));
        assert_eq!(sides(&prices, size, 4), [Side::Device; 4]);
        // A side that takes much longer is not explored.
        (0..20).for_each(|_| prices.measured(Side::Device, &size, Duration::from_millis(100)));
        let all = sides(&prices, size, 2 * POLICY.explored);
        assert!(all.iter().all(|side| *side == Side::Host));
    }
}
