//! Strings: located in pages, then copied one after the other.

use galatea_device::{Device, DeviceBuffer, DeviceSlice, In, InOut, Out, Result as DeviceResult, Stream};
use galatea_kernels::{ParquetCopyStrings, ParquetSlots, PrefixSum};

/// The offsets of strings: one more than strings.
#[derive(Debug)]
pub enum Offsets {
    /// For less than 4 GiB of bytes.
    Narrow(DeviceBuffer<u32>),
    /// For 4 GiB of bytes and more.
    Wide(DeviceBuffer<u64>),
}

/// Strings on the device, one after the other.
#[derive(Debug)]
pub struct DecodedStrings {
    /// First byte of each string, and the end of the last.
    pub offsets: Offsets,
    /// The bytes of all strings. NULL rows have an empty string.
    pub bytes: DeviceBuffer<u8>,
}

/// The kernels that copy strings.
#[derive(Debug)]
pub(crate) struct StringCopier {
    prefix_sum: PrefixSum,
    copy: ParquetCopyStrings,
}

impl StringCopier {
    pub(crate) fn new(device: &Device) -> DeviceResult<Self> {
        Ok(Self {
            prefix_sum: PrefixSum::new(device)?,
            copy: ParquetCopyStrings::new(device)?,
        })
    }

    /// Copies located strings. Returns the number of the first string that is not UTF-8, if `utf8` is set.
    pub(crate) fn copy(
        &self,
        device: &Device,
        stream: &Stream,
        slots: &ParquetSlots,
        (starts, lengths): (DeviceSlice<'_, u64>, DeviceSlice<'_, u32>),
        utf8: bool,
    ) -> DeviceResult<(DecodedStrings, Option<u64>)> {
        let count = starts.len();
        let mut offsets = device.alloc::<u64>(stream, count + 1)?;
        let mut totals = device.alloc::<u64>(stream, self.prefix_sum.totals())?;
        self.prefix_sum
            .sum(stream, In(lengths), Out(&mut offsets), Out(&mut totals))?;
        let offsets = offsets.assume_written();
        let total = stream.read(&offsets, count..)?.first().copied().unwrap_or(0);
        let mut bytes = device.alloc::<u8>(stream, total as usize)?.assume_written();
        let is_narrow = u32::try_from(total).is_ok();
        let mut narrow = device
            .alloc::<u32>(stream, if is_narrow { count + 1 } else { 0 })?
            .assume_written();
        let mut invalid = device.upload(stream, &[u64::MAX])?;
        let sources = [&slots.stored, &slots.bodies, &slots.heap].map(DeviceBuffer::as_slice);
        self.copy.launch(
            stream,
            (In(starts), &sources),
            In(&offsets),
            InOut(&mut bytes),
            Out(&mut narrow),
            utf8.then(|| InOut(&mut invalid)),
        )?;
        let invalid = match utf8 {
            true => stream.read(&invalid, ..)?.first().copied(),
            false => None,
        };
        let offsets = match is_narrow {
            true => Offsets::Narrow(narrow),
            false => Offsets::Wide(offsets),
        };
        Ok((
            DecodedStrings { offsets, bytes },
            invalid.filter(|string| *string != u64::MAX),
        ))
    }
}
