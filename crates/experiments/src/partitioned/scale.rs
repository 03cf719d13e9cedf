//! The scale of measurements.

/// The scale of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Tuples of a million of the thesis.
    pub million: usize,
    /// Number of runs.
    pub runs: usize,
    /// Millions of tuples of each side of the workloads; all figures use the first two.
    pub sizes: Vec<usize>,
    /// Millions of tuples that are only partitioned.
    pub partitioned: usize,
    /// Fanouts of passes in device memory, as bits.
    pub fanouts: Vec<u32>,
    /// Fanouts of passes across the link, as bits.
    pub link_fanouts: Vec<u32>,
    /// Bits of the first and of the second pass of joins by fanout.
    pub join_fanouts: (Vec<u32>, Vec<u32>),
    /// Bytes of state in device memory: those of the thesis' device.
    pub limit: u64,
    /// Bits of the tuples of a chunk.
    pub chunk_bits: u32,
    /// Bits of the tuples of chunks, for the experiment `chunks`.
    pub chunks: Vec<u32>,
    /// Bits of the rows of a page.
    pub page_bits: u32,
    /// The most entries of a hash table.
    pub entries: u32,
    /// Bits of the tuples that a thread of the CPU partitions at a time.
    pub task_bits: u32,
    /// Millions of tuples of each side of joins that materialise columns.
    pub wide: Vec<usize>,
    /// Numbers of columns.
    pub columns: Vec<usize>,
    /// Seconds after which a slow point has no further runs. Late materialisation that is expected to take
    /// three times as long is left out.
    pub patience: f64,
    /// Bytes of copies that measure the machine.
    pub copied: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            million: 1_000_000,
            runs: 3,
            sizes: vec![128, 512, 1024],
            partitioned: 256,
            fanouts: vec![1, 3, 5, 6, 7, 9, 10, 11],
            link_fanouts: vec![1, 4, 6, 7, 9, 11],
            join_fanouts: (vec![3, 5, 7, 9, 11], vec![7, 9, 11]),
            limit: 16 << 30,
            chunk_bits: 22,
            chunks: vec![20, 21, 22, 23],
            page_bits: 17,
            entries: u32::MAX,
            task_bits: 20,
            wide: vec![16, 128],
            columns: vec![0, 1, 2, 4, 8, 16],
            patience: 2.0,
            copied: 1 << 30,
        }
    }
}

impl Scale {
    /// A small scale, to test that everything works.
    #[must_use]
    pub fn small() -> Self {
        Self {
            million: 20,
            runs: 1,
            sizes: vec![128, 512],
            partitioned: 200,
            fanouts: vec![1, 5, 11],
            link_fanouts: vec![1, 7, 11],
            join_fanouts: (vec![1, 3], vec![2, 4]),
            limit: (16 << 30) / 50_000,
            chunk_bits: 10,
            chunks: vec![9, 11],
            page_bits: 7,
            entries: 256,
            task_bits: 8,
            wide: vec![32, 128],
            columns: vec![0, 1, 5],
            patience: 2.0,
            copied: 1 << 16,
        }
    }
}
