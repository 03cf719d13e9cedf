//! Settings that accept one of several words.

use galatea_base::setting::words;
use galatea_memory::transfer::Method;
use galatea_store::Packing;

words! {
    /// Where a session's queries run (`galatea.device`).
    DeviceChoice {
        /// The GPU if it exists and is expected to be faster, the CPU otherwise.
        Auto = "auto",
        /// DataFusion's CPU operators only.
        Cpu = "cpu",
        /// The GPU; planning fails if none exists.
        Gpu = "gpu",
        /// The emulated device: the GPU's kernels run on the CPU, for tests.
        Emulated = "emulated",
    }
}

words! {
    /// How a subtree that cannot run on the GPU is handled (`galatea.fallback`).
    Fallback {
        /// It runs on the CPU, visibly.
        Allow = "allow",
        /// The query is refused with the reasons, unless the CPU only sorts rows.
        Error = "error",
    }
}

words! {
    /// The algorithm of joins with build sides on the device (`galatea.join.algorithm`).
    JoinAlgorithm {
        /// The algorithm with the least predicted time, among those that fit device memory.
        Auto = "auto",
        /// One table for all rows of the build side. Rows probe it in the order of the scan.
        Hash = "hash",
        /// One table for all rows of the build side. Rows are partitioned in device memory before, so that
        /// those of a partition access memory of the size of the cache.
        Radix = "radix",
        /// A table for each partition of the build side. Both sides are read once per partition.
        Multipass = "multipass",
        /// A table for each partition of the build side. Both sides are read once and partitioned. Partitions
        /// that exceed device memory are spilled (Lutz 2022, §4.4).
        Triton = "triton",
    }
}

words! {
    /// Behaviour if arithmetic or a sum overflows its type (`galatea.overflow`).
    OverflowMode {
        /// The query fails, and the error names the expression.
        Error = "error",
        /// Integers wrap, as DataFusion's do, and the digits of decimals are not checked.
        Wrap = "wrap",
    }
}

words! {
    /// Order of inner joins (`galatea.join.order`).
    JoinOrder {
        /// The order with the fewest intermediate rows, if statistics are available.
        Auto = "auto",
        /// The order of the tables in the query.
        Written = "written",
    }
}

words! {
    /// Which codes are packed in host memory (`galatea.tuning.transfer_compression`).
    PackCodes {
        /// Codes of larger chunks, if packing saves an eighth.
        Auto = "auto",
        /// No codes.
        Off = "off",
        /// All codes that can be packed.
        On = "on",
    }
}

impl PackCodes {
    /// The corresponding setting of the store.
    pub(crate) fn packing(self) -> Packing {
        match self {
            Self::Auto => Packing::Auto,
            Self::Off => Packing::Off,
            Self::On => Packing::On,
        }
    }
}

words! {
    /// Where pages of Parquet files are decoded (`galatea.tuning.parquet_decoding`).
    ParquetDecoding {
        /// Where it takes less time, for each column chunk.
        Auto = "auto",
        /// On the device, if it can.
        Device = "device",
        /// On the host.
        Host = "host",
    }
}

words! {
    /// Whether one kernel reads chunks during their transfer (`galatea.tuning.persistent_scan`).
    PersistentScan {
        /// If it was measured to be faster.
        Auto = "auto",
        /// Each launch waits for the copies of its input.
        Off = "off",
        /// Always.
        On = "on",
    }
}

words! {
    /// Effort of the compiler before a kernel runs (`galatea.tuning.compile`).
    CompileEffort {
        /// Quick on a GPU, optimised on the emulated device, because its compiler has no quick mode.
        Auto = "auto",
        /// Low effort, in half of the time; the optimised kernel is compiled in the background, for later
        /// runs.
        Quick = "quick",
        /// Full effort.
        Optimised = "optimised",
    }
}

words! {
    /// How chunks of columns are transferred to the device (`galatea.tuning.transfer`). The methods of
    /// managed memory are not among them: the store's memory is not managed.
    TransferChoice {
        /// The fastest of pinned, staged and pageable copies, by calibration.
        Auto = "auto",
        /// [`Method::Pinned`].
        Pinned = "pinned",
        /// [`Method::PinnedPieces`].
        Pieces = "pieces",
        /// [`Method::Staged`].
        Staged = "staged",
        /// [`Method::Pageable`].
        Pageable = "pageable",
        /// [`Method::DynamicPinning`].
        DynamicPinning = "dynamic-pinning",
        /// [`Method::ZeroCopy`].
        ZeroCopy = "zero-copy",
    }
}

impl TransferChoice {
    /// The forced method.
    #[must_use]
    pub fn forced(self) -> Option<Method> {
        match self {
            Self::Auto => None,
            Self::Pinned => Some(Method::Pinned),
            Self::Pieces => Some(Method::PinnedPieces),
            Self::Staged => Some(Method::Staged),
            Self::Pageable => Some(Method::Pageable),
            Self::DynamicPinning => Some(Method::DynamicPinning),
            Self::ZeroCopy => Some(Method::ZeroCopy),
        }
    }
}
