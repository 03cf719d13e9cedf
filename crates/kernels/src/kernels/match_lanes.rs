//! Repeatedly finding the lanes of a warp with the same value.

use galatea_device::{Device, DevicePointer, InOut, Result, Stream, kernel_arguments};

use super::{Repetition, power_of_two};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `match_lanes`.
    pub struct MatchLanesArguments in "galatea/args/match_lanes.h" {
        /// Added to it: the number of lanes with this lane's value, over all threads and matches.
        pub total: DevicePointer<u64>,
        /// Matches per warp.
        pub matches: u64,
        /// Distinct values in a warp.
        pub values: u64,
    }
}

kernel!(MatchLanes, "match_lanes", MatchLanesArguments);

/// Matches lanes by value.
#[derive(Debug, Clone)]
pub struct MatchLanes {
    function: KernelFunction<Self>,
}

impl MatchLanes {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            function: KernelFunction::load(device)?,
        })
    }

    /// The amount that a launch adds to its total.
    #[must_use]
    pub fn added(repetition: Repetition, values: u32) -> u64 {
        repetition.lanes() * u64::from(32 / values.clamp(1, 32))
    }

    /// Adds [`Self::added`] to the first word of `total`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] if the number of values is not a power of two up to 32 or the
    /// threads are not whole warps; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        repetition: Repetition,
        values: u32,
        total: InOut<'_, u64>,
    ) -> Result<()> {
        power_of_two("values in a warp", values.into(), 32)?;
        let geometry = repetition.geometry(total.len())?;
        let arguments = MatchLanesArguments {
            total: total.pointer(),
            matches: repetition.updates,
            values: values.into(),
        };
        self.function
            .launch(stream, geometry, &arguments, &[total.reference()])
    }
}
