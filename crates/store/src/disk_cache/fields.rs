//! Fields of the metadata as bytes, in little-endian order. A reader returns `None` for missing bytes.

use std::sync::Arc;

use crate::column::{Scalar, Width, Zone};

/// Appends fields to bytes.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn width(&mut self, width: Width) {
        self.u8(width.bytes() as u8);
    }

    pub(super) fn zone(&mut self, zone: &Zone) {
        self.scalar(zone.min.as_ref());
        self.scalar(zone.max.as_ref());
        self.u32(zone.null_count);
        self.u8(u8::from(zone.has_nan));
        self.u8(u8::from(zone.exact));
    }

    fn scalar(&mut self, scalar: Option<&Scalar>) {
        match scalar {
            None => self.u8(0),
            Some(Scalar::Integer(value)) => {
                self.u8(1);
                self.bytes(&value.to_le_bytes());
            }
            Some(Scalar::Float(value)) => {
                self.u8(2);
                self.u64(value.to_bits());
            }
            Some(Scalar::Bytes(bytes)) => {
                self.u8(3);
                self.u64(bytes.len() as u64);
                self.bytes(bytes);
            }
        }
    }
}

/// Takes fields from bytes.
#[derive(Debug)]
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn bytes(&mut self, length: u64) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N as u64)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.array()?))
    }

    pub(super) fn width(&mut self) -> Option<Width> {
        Some(match self.u8()? {
            0 => Width::Zero,
            1 => Width::One,
            2 => Width::Two,
            4 => Width::Four,
            8 => Width::Eight,
            _ => return None,
        })
    }

    /// A list: its length, and each item by `item`.
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.u64()?;
        // Every item has at least one byte.
        if length > self.0.len() as u64 {
            return None;
        }
        (0..length).map(|_| item(self)).collect()
    }

    pub(super) fn zone(&mut self) -> Option<Zone> {
        Some(Zone {
            min: self.scalar()?,
            max: self.scalar()?,
            null_count: self.u32()?,
            has_nan: self.bool()?,
            exact: self.bool()?,
        })
    }

    fn scalar(&mut self) -> Option<Option<Scalar>> {
        Some(match self.u8()? {
            0 => None,
            1 => Some(Scalar::Integer(i128::from_le_bytes(self.array()?))),
            2 => Some(Scalar::Float(f64::from_bits(self.u64()?))),
            3 => {
                let length = self.u64()?;
                Some(Scalar::Bytes(Arc::from(self.bytes(length)?)))
            }
            _ => return None,
        })
    }
}
