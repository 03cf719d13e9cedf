//! Page headers.

use crate::error::Problem;
use crate::thrift::{Field, Thrift};

/// A page header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Bytes of the header.
    pub(crate) bytes: usize,
    /// Bytes of the page in the file.
    pub(crate) stored: u32,
    /// Decompressed bytes.
    pub(crate) plain: u32,
    pub(crate) kind: PageKind,
}

/// The kind of a page, with its own part of the header. Encodings are numbered as in the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageKind {
    Data {
        values: u32,
        encoding: i32,
        level_encoding: i32,
    },
    DataV2 {
        values: u32,
        nulls: u32,
        rows: u32,
        encoding: i32,
        definition_bytes: u32,
        repetition_bytes: u32,
        compressed: bool,
    },
    Dictionary {
        values: u32,
        encoding: i32,
    },
    /// An index page, or an unknown kind.
    Other,
}

/// The fields of a part of a header, by number. The longest part has 7 numbers.
#[derive(Debug, Default)]
struct Numbers {
    numbers: [Option<i32>; 8],
    /// Field 7 of data pages of version 2.
    compressed: Option<bool>,
}

impl Numbers {
    fn read(thrift: &mut Thrift<'_>, field: Field, count: i16) -> Result<Self, Problem> {
        let mut part = Self::default();
        thrift.structure(field, |thrift, field| {
            if (1..=count).contains(&field.id) {
                part.numbers[field.id as usize] = Some(thrift.i32(field)?);
                Ok(())
            } else if field.id == 7 {
                part.compressed = field.boolean().ok();
                thrift.skip(field)
            } else {
                thrift.skip(field)
            }
        })?;
        Ok(part)
    }

    fn number(&self, id: usize, field: &'static str) -> Result<i32, Problem> {
        self.numbers[id].ok_or(Problem::Missing { field })
    }

    fn count(&self, id: usize, name: &'static str) -> Result<u32, Problem> {
        count(self.number(id, name)?, name)
    }
}

/// A number that cannot be negative.
fn count(number: i32, name: &'static str) -> Result<u32, Problem> {
    u32::try_from(number).map_err(|_| Problem::OutOfRange {
        name,
        number: number.into(),
        least: 0,
        greatest: i32::MAX.into(),
    })
}

impl PageHeader {
    /// Reads the header at the start of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut thrift = Thrift::new(bytes);
        let (mut kind, mut plain, mut stored) = (None, None, None);
        let (mut data, mut dictionary, mut data_v2) = (None, None, None);
        thrift.fields(|thrift, field| {
            match field.id {
                1 => kind = Some(thrift.i32(field)?),
                2 => plain = Some(thrift.i32(field)?),
                3 => stored = Some(thrift.i32(field)?),
                5 => data = Some(Numbers::read(thrift, field, 4)?),
                7 => dictionary = Some(Numbers::read(thrift, field, 2)?),
                8 => data_v2 = Some(Numbers::read(thrift, field, 6)?),
                _ => thrift.skip(field)?,
            }
            Ok(())
        })?;
        let missing = |field| Problem::Missing { field };
        let kind = match kind.ok_or(missing("type"))? {
            0 => {
                let data = data.ok_or(missing("header of a data page"))?;
                PageKind::Data {
                    values: data.count(1, "number of values")?,
                    encoding: data.number(2, "encoding")?,
                    level_encoding: data.number(3, "encoding of definition levels")?,
                }
            }
            2 => {
                let dictionary = dictionary.ok_or(missing("header of a dictionary page"))?;
                PageKind::Dictionary {
                    values: dictionary.count(1, "number of values")?,
                    encoding: dictionary.number(2, "encoding")?,
                }
            }
            3 => {
                let data = data_v2.ok_or(missing("header of a data page of version 2"))?;
                PageKind::DataV2 {
                    values: data.count(1, "number of values")?,
                    nulls: data.count(2, "number of NULLs")?,
                    rows: data.count(3, "number of rows")?,
                    encoding: data.number(4, "encoding")?,
                    definition_bytes: data.count(5, "bytes of definition levels")?,
                    repetition_bytes: data.count(6, "bytes of repetition levels")?,
                    compressed: data.compressed.unwrap_or(true),
                }
            }
            _ => PageKind::Other,
        };
        Ok(Self {
            bytes: thrift.position(),
            stored: count(stored.ok_or(missing("compressed size"))?, "compressed size")?,
            plain: count(plain.ok_or(missing("uncompressed size"))?, "uncompressed size")?,
            kind,
        })
    }
}
