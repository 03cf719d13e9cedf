//! Atomics in shared memory again and again: their cost by the number of conflicting lanes.

use galatea_device::{Device, DevicePointer, InOut, Result, Stream, kernel_arguments};

use super::{Repetition, power_of_two};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `shared_updates`.
    pub struct SharedUpdatesArguments in "galatea/args/shared_updates.h" {
        /// Added to it: the sum of all threads' increments.
        pub total: DevicePointer<u64>,
        /// Updates of each thread.
        pub updates: u64,
        /// Conflicting lanes of a bank.
        pub lanes: u64,
        /// 1 where they conflict in one word.
        pub same: u64,
        /// 1 where increments differ.
        pub differ: u64,
        /// 1 where an update waits for the one before.
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
    /// As sums, each after what the one before returned.
    ReturningSum,
}

/// How the lanes of a warp conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictingLanes {
    /// Lanes in a bank: a power of two up to 32.
    pub lanes: u32,
    /// In one word of it, or in different ones.
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
    /// [`galatea_device::DeviceError::Range`] for lanes that are no power of two up to 32, threads that are
    /// no whole warps, and more updates than 32-bit words have room for; the device's.
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
