//! Settings whose values are words.

use galatea_base::setting::words;
use galatea_store::Packing;

words! {
    /// Where a session's queries run (`galatea.device`).
    DeviceChoice {
        /// The GPU where it is there and expected to be faster, the CPU otherwise.
        Auto = "auto",
        /// DataFusion's CPU operators only.
        Cpu = "cpu",
        /// The GPU; planning fails when there is none.
        Gpu = "gpu",
        /// The emulated device: the GPU's kernels run on the CPU, for tests.
        Emulated = "emulated",
    }
}

words! {
    /// What happens where a subtree cannot run on the GPU (`galatea.fallback`).
    Fallback {
        /// It runs on the CPU, visibly.
        Allow = "allow",
        /// The query is refused with the reasons.
        Error = "error",
    }
}

words! {
    /// What happens where arithmetic or a sum leaves its type (`galatea.overflow`).
    OverflowMode {
        /// The query fails, and the error names the expression.
        Error = "error",
        /// Integers wrap, as DataFusion's do, and the digits of decimals are not counted.
        Wrap = "wrap",
    }
}

words! {
    /// In which order inner joins run (`galatea.join_order`).
    JoinOrder {
        /// The one with the fewest rows between joins, where statistics tell.
        Auto = "auto",
        /// As the query names the tables.
        Written = "written",
    }
}

words! {
    /// Which codes are packed in host memory (`galatea.pack_codes`).
    PackCodes {
        /// Those of larger chunks, where an eighth is saved.
        Auto = "auto",
        /// None.
        Off = "off",
        /// All that can be.
        On = "on",
    }
}

impl PackCodes {
    /// The setting of the store.
    pub(crate) fn packing(self) -> Packing {
        match self {
            Self::Auto => Packing::Auto,
            Self::Off => Packing::Off,
            Self::On => Packing::On,
        }
    }
}

words! {
    /// Whether one kernel reads chunks while they come (`galatea.persistent_scan`).
    PersistentScan {
        /// Where that was measured to be faster.
        Auto = "auto",
        /// Launches behind the copies of what they read.
        Off = "off",
        /// Always.
        On = "on",
    }
}

words! {
    /// How much effort the compiler makes before a kernel runs (`galatea.compile`).
    CompileEffort {
        /// Little on a GPU, all of it on the emulated device, whose compiler knows no other.
        Auto = "auto",
        /// Little, half of the time; the optimised kernel is compiled behind it, for later runs.
        Quick = "quick",
        /// All of it.
        Optimised = "optimised",
    }
}
