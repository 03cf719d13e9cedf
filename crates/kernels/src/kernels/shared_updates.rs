//! Repeated atomics in shared memory: their cost by the number of conflicting lanes.

use galatea_device::{Device, DevicePointer, InOut, Result, Stream, kernel_arguments};

use super::{Repetition, power_of_two};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `shared_updates`.
    pub struct SharedUpdatesArguments in "galatea/args/shared_updates.h" {
        /// Added to it: the sum of all threads' increments.
        pub total: DevicePointer<u64>,
        /// Updates per thread.
        pub updates: u64,
        /// Conflicting lanes of a bank.
        pub lanes: u64,
        /// 1: they conflict in one word.
        pub same: u64,
        /// 1: increments differ.
        pub differ: u64,
        /// 1: an update depends on the one before.
        pub waits: u64,
    }
}

kernel!(SharedUpdates, "shared_updates", SharedUpdatesArguments);

/// The increments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// The constant 1.
    Count,
    /// 1 and 2 in turn, so that lanes of one word differ.
    Sum,
    /// Like `Sum`, and each update depends on the result of the one before.
    ReturningSum,
}

/// How the lanes of a warp conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictingLanes {
    /// Lanes per bank: a power of two up to 32.
    pub lanes: u32,
    /// Whether they conflict in one word of the bank, or use different ones.
    pub same_word: bool,
}

/// Adds to words of shared memory.
#[derive(Debug, Clone)]
pub struct SharedUpdates {
    function: KernelFunction<Self>,
}

impl SharedUpdates {
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
    pub fn added(repetition: Repetition, update: Update) -> u64 {
        let lanes = repetition.lanes();
        match update {
            Update::Count => lanes,
            Update::Sum | Update::ReturningSum => lanes / 2 * 3,
        }
    }

    /// Adds [`Self::added`] to the first word of `total`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] if the number of lanes is not a power of two up to 32, if the
    /// threads are not whole warps, and for more updates than 32-bit words can count; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        repetition: Repetition,
        update: Update,
        conflicting: ConflictingLanes,
        total: InOut<'_, u64>,
    ) -> Result<()> {
        power_of_two("conflicting lanes of a bank", conflicting.lanes.into(), 32)?;
        let geometry = repetition.geometry(total.len())?;
        let arguments = SharedUpdatesArguments {
            total: total.pointer(),
            updates: repetition.updates,
            lanes: conflicting.lanes.into(),
            same: conflicting.same_word.into(),
            differ: (update != Update::Count).into(),
            waits: (update == Update::ReturningSum).into(),
        };
        self.function
            .launch(stream, geometry, &arguments, &[total.reference()])
    }
}
