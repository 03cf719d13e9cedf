//! Managed memory: moved before it is used, or when it is accessed.

use std::ops::Range;

use galatea_device::{Device, DeviceError, ManagedMemory, Side, Stream};

use super::{Absent, Method, Result, Transfer};

/// Managed memory.
pub(super) struct Unified {
    memory: ManagedMemory,
    method: Method,
}

impl Unified {
    pub(super) fn new(device: &Device, method: Method, bytes: usize) -> Result<Self> {
        let memory = device.managed(bytes)?.ok_or_else(|| Absent {
            method,
            reason: "the driver gives no managed memory".to_owned(),
        })?;
        Ok(Self { memory, method })
    }

    fn place(&self, range: &Range<usize>) -> Result<u64> {
        if range.end > self.memory.len() || range.start > range.end {
            return Err(DeviceError::Range {
                what: "range of managed memory",
                start: range.start as u64,
                end: range.end as u64,
                len: self.memory.len() as u64,
            }
            .into());
        }
        Ok(self.memory.address() + range.start as u64)
    }
}

impl Transfer for Unified {
    fn method(&self) -> Method {
        self.method
    }

    fn host(&mut self) -> Result<&mut [u8]> {
        Ok(self.memory.bytes_mut()?)
    }

    fn bring(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64> {
        let place = self.place(&range)?;
        if self.method == Method::UnifiedPrefetch {
            self.memory.prefetch(stream, range, Side::Device)?;
        }
        Ok(place)
    }

    fn room(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64> {
        self.bring(stream, range)
    }

    fn collect(&mut self, stream: &Stream, range: Range<usize>) -> Result<()> {
        self.place(&range)?;
        if self.method == Method::UnifiedPrefetch {
            self.memory.prefetch(stream, range.clone(), Side::Host)?;
        }
        stream.synchronize()?;
        if self.method == Method::UnifiedMigration {
            // The host's access migrates the pages: one byte of each is read.
            let bytes = &self.memory.bytes_mut()?[range];
            std::hint::black_box(
                bytes
                    .iter()
                    .step_by(4096)
                    .fold(0, |sum: u8, byte| sum.wrapping_add(*byte)),
            );
        }
        Ok(())
    }
}
