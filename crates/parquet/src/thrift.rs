//! Thrift's compact protocol, read from bytes that may be damaged.

use crate::error::Problem;

/// Maximum depth of nested fields. Page headers have 3.
const DEPTH: usize = 16;

/// Types of fields, as numbered by the protocol.
mod types {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
}

/// A field's number and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) id: i16,
    kind: u8,
}

impl Field {
    /// The value of a boolean field, which is in its type.
    pub(crate) fn boolean(self) -> Result<bool, Problem> {
        match self.kind {
            types::TRUE => Ok(true),
            types::FALSE => Ok(false),
            number => Err(Problem::FieldType { number }),
        }
    }
}

/// A reader of fields.
#[derive(Debug)]
pub(crate) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8, Problem> {
        let byte = *self.bytes.get(self.at).ok_or(Problem::HeaderEnds)?;
        self.at += 1;
        Ok(byte)
    }

    fn advance(&mut self, bytes: u64) -> Result<(), Problem> {
        let left = (self.bytes.len() - self.at) as u64;
        if bytes > left {
            return Err(Problem::HeaderEnds);
        }
        self.at += bytes as usize;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Problem::HeaderEnds)
    }

    fn zigzag(&mut self) -> Result<i64, Problem> {
        let code = self.varint()?;
        Ok((code >> 1) as i64 ^ -((code & 1) as i64))
    }

    /// The next field of a struct, after `last`; none at its end.
    pub(crate) fn field(&mut self, last: i16) -> Result<Option<Field>, Problem> {
        let byte = self.byte()?;
        let kind = byte & 0x0f;
        if kind == types::STOP {
            return Ok(None);
        }
        let id = match byte >> 4 {
            0 => self.zigzag()? as i16,
            delta => last.wrapping_add(i16::from(delta)),
        };
        Ok(Some(Field { id, kind }))
    }

    /// The 32-bit integer of a field.
    pub(crate) fn i32(&mut self, field: Field) -> Result<i32, Problem> {
        if field.kind != types::I32 {
            return Err(Problem::FieldType { number: field.kind });
        }
        let number = self.zigzag()?;
        i32::try_from(number).map_err(|_| Problem::OutOfRange {
            name: "integer of a page header",
            number,
            least: i32::MIN.into(),
            greatest: i32::MAX.into(),
        })
    }

    /// Reads the struct of a field: calls `visit` with each of its fields; `visit` reads or skips it.
    pub(crate) fn structure(
        &mut self,
        field: Field,
        visit: impl FnMut(&mut Self, Field) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if field.kind != types::STRUCT {
            return Err(Problem::FieldType { number: field.kind });
        }
        self.fields(visit)
    }

    /// Calls `visit` with each field up to the end of a struct; `visit` reads or skips it.
    pub(crate) fn fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, Field) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut last = 0;
        while let Some(field) = self.field(last)? {
            visit(self, field)?;
            last = field.id;
        }
        Ok(())
    }

    /// Skips the value of a field.
    pub(crate) fn skip(&mut self, field: Field) -> Result<(), Problem> {
        match field.kind {
            // The value of a boolean field is in its type.
            types::TRUE | types::FALSE => Ok(()),
            kind => self.skip_value(kind, 0),
        }
    }

    fn skip_value(&mut self, kind: u8, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH {
            return Err(Problem::Depth { limit: DEPTH });
        }
        match kind {
            types::TRUE | types::FALSE | types::BYTE => self.advance(1),
            types::I16 | types::I32 | types::I64 => self.varint().map(drop),
            types::DOUBLE => self.advance(8),
            types::BINARY => {
                let length = self.varint()?;
                self.advance(length)
            }
            types::LIST | types::SET => {
                let head = self.byte()?;
                let length = match head >> 4 {
                    15 => self.varint()?,
                    length => length.into(),
                };
                // Every element has at least one byte, so a lying length ends at the end of the bytes.
                (0..length).try_for_each(|_| self.skip_value(head & 0x0f, depth + 1))
            }
            types::MAP => {
                let length = self.varint()?;
                if length == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                (0..length).try_for_each(|_| {
                    self.skip_value(kinds >> 4, depth + 1)?;
                    self.skip_value(kinds & 0x0f, depth + 1)
                })
            }
            types::STRUCT => {
                let mut last = 0;
                while let Some(field) = self.field(last)? {
                    if !matches!(field.kind, types::TRUE | types::FALSE) {
                        self.skip_value(field.kind, depth + 1)?;
                    }
                    last = field.id;
                }
                Ok(())
            }
            number => Err(Problem::FieldType { number }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one field and skips its value; the number of bytes.
    fn skipped(bytes: &[u8]) -> Result<usize, Problem> {
        let mut thrift = Thrift::new(bytes);
        let field = thrift.field(0)?.ok_or(Problem::HeaderEnds)?;
        thrift.skip(field)?;
        Ok(thrift.position())
    }

    #[test]
    fn values_of_every_type_are_skipped() {
        for (bytes, length) in [
            (&[0x11][..], 1),
            (&[0x13, 7], 2),
            (&[0x15, 0x80, 1], 3),
            (&[0x17, 0, 0, 0, 0, 0, 0, 0, 0], 9),
            (&[0x18, 2, b'a', b'b'], 4),
            (&[0x19, 0x25, 1, 2], 4),
            (&[0x19, 0xf3, 3, 1, 2, 3], 6),
            (&[0x1b, 1, 0x85, 1, b'a', 5], 6),
            (&[0x1b, 0], 2),
            (&[0x1c, 0x15, 1, 0x11, 0], 5),
        ] {
            assert_eq!(skipped(bytes), Ok(length), "{bytes:?}");
            for cut in 0..length {
                assert_eq!(
                    skipped(&bytes[..cut]),
                    Err(Problem::HeaderEnds),
                    "{bytes:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn lying_lengths_and_depths_are_refused() {
        let lengths = [0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(
            skipped(&[&[0x18], &lengths[..]].concat()),
            Err(Problem::HeaderEnds)
        );
        assert_eq!(
            skipped(&[&[0x19, 0xf3], &lengths[..]].concat()),
            Err(Problem::HeaderEnds)
        );
        assert_eq!(skipped(&[0x1c; 100]), Err(Problem::Depth { limit: DEPTH }));
        assert_eq!(skipped(&[0x1e]), Err(Problem::FieldType { number: 14 }));
        assert_eq!(skipped(&[0x15]), Err(Problem::HeaderEnds));
        assert_eq!(
            skipped(&[&[0x15], &[0x80; 20][..]].concat()),
            Err(Problem::HeaderEnds)
        );
    }

    #[test]
    fn fields_have_short_and_long_numbers() {
        let mut thrift = Thrift::new(&[0x25, 3, 0x05, 0x50, 5, 0x00]);
        let short = thrift.field(1).expect("intact").expect("a field");
        assert_eq!((short.id, thrift.i32(short)), (3, Ok(-2)));
        let long = thrift.field(3).expect("intact").expect("a field");
        assert_eq!((long.id, thrift.i32(long)), (40, Ok(-3)));
        assert_eq!(thrift.field(40), Ok(None));
    }
}
