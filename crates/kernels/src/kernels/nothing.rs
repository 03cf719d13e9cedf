//! An empty kernel, to measure launches.

use galatea_device::{Device, Geometry, Result, Stream, kernel_arguments};

use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `nothing`.
    #[derive(Default)]
    pub struct NothingArguments in "galatea/args/nothing.h" {
        /// A struct has at least one field.
        pub unused: u64,
    }
}

kernel!(Nothing, "nothing", NothingArguments);

/// Does nothing, with one thread.
#[derive(Debug, Clone)]
pub struct Nothing {
    function: KernelFunction<Self>,
}

impl Nothing {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            function: KernelFunction::load(device)?,
        })
    }

    /// Launches it.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.function.launch(
            stream,
            Geometry::new(1u32, 1u32),
            &NothingArguments::default(),
            &[],
        )
    }
}
