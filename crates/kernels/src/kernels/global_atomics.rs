//! Repeated 64-bit atomics in device memory.

use galatea_device::{Device, DevicePointer, InOut, Result, Stream, kernel_arguments};

use super::{Repetition, power_of_two};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `global_atomics`.
    pub struct GlobalAtomicsArguments in "galatea/args/global_atomics.h" {
        /// The updated words.
        pub words: DevicePointer<u64>,
        /// Their number.
        pub count: u64,
        /// Updates per thread.
        pub updates: u64,
        /// Seed of the random words.
        pub seed: u64,
    }
}

kernel!(GlobalAtomics, "global_atomics", GlobalAtomicsArguments);

/// Adds 1 and 2 in turn to random words.
#[derive(Debug, Clone)]
pub struct GlobalAtomics {
    function: KernelFunction<Self>,
}

impl GlobalAtomics {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            function: KernelFunction::load(device)?,
        })
    }

    /// The sum of all additions of a launch.
    #[must_use]
    pub fn added(repetition: Repetition) -> u64 {
        repetition.lanes() / 2 * 3
    }

    /// Adds a total of [`Self::added`] to random `words`, selected by `seed`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] if the number of words is not a power of two or the threads are
    /// not whole warps; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        repetition: Repetition,
        seed: u64,
        words: InOut<'_, u64>,
    ) -> Result<()> {
        power_of_two("words of global_atomics", words.len() as u64, 1 << 30)?;
        let geometry = repetition.geometry(words.len())?;
        let arguments = GlobalAtomicsArguments {
            words: words.pointer(),
            count: words.len() as u64,
            updates: repetition.updates,
            seed,
        };
        self.function
            .launch(stream, geometry, &arguments, &[words.reference()])
    }
}
