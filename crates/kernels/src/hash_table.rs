//! Maintenance of the group hash table between launches: growing it, and reading it densely.

use crate::headers;
use galatea_device::{Device, DeviceBuffer, Function, Geometry, In, InOut, Out, Program, Result, Stream, kernel_arguments};

/// Source of the kernels.
pub const SOURCE: &str = include_str!("../cuda/hash_table_maintenance.cu");

/// Threads of a block.
const BLOCK: u32 = 256;

kernel_arguments! {
    /// See the header.
    pub struct HashTableArgs in "galatea/args/hash_table.h" {
        /// Table read.
        pub from: u64,
        /// Table or dense slots written.
        pub to: u64,
        /// Slots written.
        pub written: u64,
        /// Slots of `from`.
        pub from_capacity: u64,
        /// Slots of `to`.
        pub to_capacity: u64,
        /// Words of a slot.
        pub slot_words: u32,
        /// Words of a key.
        pub key_words: u32,
        /// 1 when a state word precedes the key.
        pub has_state: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// The shape of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLayout {
    /// Words of a slot.
    pub slot_words: u32,
    /// Words of its key.
    pub key_words: u32,
    /// Whether a state word precedes the key.
    pub has_state: bool,
}

fn program(collide: bool) -> Program {
    let source = if collide { format!("#define GALATEA_COLLIDE 1\n{SOURCE}") } else { SOURCE.to_string() };
    Program::new("hash_table_maintenance", source).headers(headers()).entry("rehash").entry("collect")
}

fn geometry(function: &Function, slots: u64) -> Result<Geometry> {
    Ok(Geometry::grid_stride(slots, u64::from(BLOCK), BLOCK, function.resident_blocks(BLOCK, 0)?))
}

/// Moves a table's slots to a larger one.
#[derive(Debug, Clone)]
pub struct HashRehash {
    function: Function,
}

impl HashRehash {
    /// The kernel; `collide` as the pipeline that fills the table.
    ///
    /// # Errors
    /// As [`Device::compile`].
    pub fn new(device: &Device, collide: bool) -> Result<Self> {
        Ok(Self { function: device.compile(&program(collide))?.module.function("rehash")? })
    }

    /// Moves the slots of `from` to `to`, which is cleared and larger; capacities are the buffers' lengths in slots.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        from: &DeviceBuffer<u64>,
        to: &mut DeviceBuffer<u64>,
        layout: SlotLayout,
    ) -> Result<()> {
        let words = layout.slot_words as usize;
        let (from_capacity, to_capacity) = ((from.len() / words) as u64, (to.len() / words) as u64);
        let (from, to) = (In(from), InOut(to));
        let args = HashTableArgs {
            from: from.pointer().address(),
            to: to.pointer().address(),
            written: 0,
            from_capacity,
            to_capacity,
            slot_words: layout.slot_words,
            key_words: layout.key_words,
            has_state: u32::from(layout.has_state),
            reserved: 0,
        };
        self.function.launch_with(
            stream,
            geometry(&self.function, from_capacity)?,
            &args,
            &[from.reference(), to.reference()],
        )
    }
}

/// Copies a table's used slots next to each other.
#[derive(Debug, Clone)]
pub struct HashCollect {
    function: Function,
}

impl HashCollect {
    /// The kernel.
    ///
    /// # Errors
    /// As [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { function: device.compile(&program(false))?.module.function("collect")? })
    }

    /// Fills `to` with the used slots of `from`; returns how many there are, which may be more than fit.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        device: &Device,
        stream: &Stream,
        from: &DeviceBuffer<u64>,
        to: &mut DeviceBuffer<u64>,
        layout: SlotLayout,
    ) -> Result<u64> {
        let words = layout.slot_words as usize;
        let (from_capacity, to_capacity) = ((from.len() / words) as u64, (to.len() / words) as u64);
        let mut written = device.zeroed::<u64>(stream, 1)?;
        let (from, to) = (In(from), Out(to));
        {
            let count = InOut(&mut written);
            let args = HashTableArgs {
                from: from.pointer().address(),
                to: to.pointer().address(),
                written: count.pointer().address(),
                from_capacity,
                to_capacity,
                slot_words: layout.slot_words,
                key_words: layout.key_words,
                has_state: u32::from(layout.has_state),
                reserved: 0,
            };
            self.function.launch_with(
                stream,
                geometry(&self.function, from_capacity)?,
                &args,
                &[from.reference(), to.reference(), count.reference()],
            )?;
        }
        Ok(stream.read(&written, ..)?[0])
    }
}
