//! Reads column chunks as dictionary indices, if all of their data pages have indices.
//!
//! The parquet crate reads and decompresses the pages; their levels and indices are decoded here. Whatever
//! is unusual is left to the crate, which decodes the values or explains the damage.

use std::sync::Arc;

use ::parquet::basic::{Encoding, Type as PhysicalType};
use ::parquet::column::page::{Page, PageReader};
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::{Buf, Bytes};
use galatea_kernels::{ParquetForm, ParquetOrder};
use galatea_parquet::{ColumnShape, ValueKind};

use super::column_bytes::{ColumnBytes, Piece};
use super::column_reader::{ColumnReader, Readers};
use super::column_shape::only_dictionary_pages;
use super::hybrid::Hybrid;
use crate::damage::contained;
use crate::encode::string::Arena;
use crate::encode::{Indexed, IndexedValues, Validity};

impl Readers {
    /// The shape of a column in all row groups of a chunk. None if it may have other pages than those of
    /// dictionary indices, is encrypted, is read in part, or has other types or several shapes.
    pub(super) fn shape_of_indices(&self, chunk: usize, column: usize) -> Option<ColumnShape> {
        let mut shared = None;
        for run in &self.row_groups.chunks[chunk] {
            let ColumnReader::Stored { leaf, shape, .. } = &self.columns[column][run.file] else {
                return None;
            };
            let shape = (*shape).filter(is_indexed)?;
            let metadata = &self.row_groups.files[run.file].metadata;
            for group in run.row_groups.clone() {
                let pages = metadata.row_group(group).column(*leaf);
                let is_partial = self.row_groups.partial.contains_key(&(run.file, group));
                if is_partial || pages.crypto_metadata().is_some() || !only_dictionary_pages(pages) {
                    return None;
                }
            }
            if shared.is_some_and(|shared| shared != shape) {
                return None;
            }
            shared = Some(shape);
        }
        shared
    }

    /// The rows of a column of a chunk as dictionary indices; none if a column chunk has other pages than its
    /// metadata states, or is damaged.
    pub(super) fn indexed_rows(
        &self,
        (chunk, column): (usize, usize),
        shape: &ColumnShape,
        bytes: &[Vec<Vec<Piece>>],
    ) -> Option<Vec<IndexedRows>> {
        // The parquet crate may panic on damaged pages.
        contained(|| self.read_indices((chunk, column), shape, bytes))
            .ok()
            .flatten()
    }

    fn read_indices(
        &self,
        (chunk, column): (usize, usize),
        shape: &ColumnShape,
        bytes: &[Vec<Vec<Piece>>],
    ) -> Option<Vec<IndexedRows>> {
        let mut groups = Vec::new();
        for (run, bytes) in self.row_groups.chunks[chunk].iter().zip(bytes) {
            let ColumnReader::Stored { leaf, .. } = &self.columns[column][run.file] else {
                return None;
            };
            let file = &self.row_groups.files[run.file];
            for (group, pieces) in run.row_groups.clone().zip(bytes) {
                let source = ColumnBytes {
                    pieces: pieces.clone(),
                    file_size: file.source.meta.size,
                };
                let pages = file.metadata.row_group(group).column(*leaf);
                let rows = self.row_groups.rows_of(run.file, group);
                groups.push(IndexedRows::read(source, pages, shape, rows)?);
            }
        }
        Some(groups)
    }
}

/// A column chunk as dictionary indices.
pub(super) struct IndexedRows {
    values: IndexedValues,
    pages: Vec<IndexPage>,
    rows: usize,
    null_count: usize,
}

/// A data page.
struct IndexPage {
    rows: usize,
    /// The validity of the rows; none if no row is NULL.
    validity: Option<Validity>,
    /// The indices of the rows that are not NULL.
    indices: Bytes,
    /// Bits of an index in a bit-packed run.
    width: u32,
}

impl IndexedRows {
    /// Reads a column chunk that has these `rows`. None if it has other pages, or if it is damaged.
    pub(super) fn read(
        source: ColumnBytes,
        column: &ColumnChunkMetaData,
        shape: &ColumnShape,
        rows: usize,
    ) -> Option<Self> {
        let mut reader = SerializedPageReader::new(Arc::new(source), column, rows, None).ok()?;
        let Page::DictionaryPage {
            buf,
            num_values,
            encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY,
            ..
        } = reader.get_next_page().ok()??
        else {
            return None;
        };
        let mut read = Self {
            values: values(&buf, num_values as usize, shape)?,
            pages: Vec::new(),
            rows: 0,
            null_count: 0,
        };
        while read.rows < rows {
            let page = IndexPage::of(reader.get_next_page().ok()??, shape.nullable, rows - read.rows)?;
            read.rows += page.rows;
            read.null_count += page.rows - page.valid();
            read.pages.push(page);
        }
        (read.rows == rows).then_some(read)
    }
}

impl Indexed for IndexedRows {
    fn values(&self) -> &IndexedValues {
        &self.values
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn null_count(&self) -> usize {
        self.null_count
    }

    fn add_validity(&self, validity: &mut Validity) {
        for page in &self.pages {
            match &page.validity {
                Some(of_page) => validity.append(of_page),
                None => validity.push_run(true, page.rows),
            }
        }
    }

    fn for_each_piece(&self, visit: &mut dyn FnMut(&[u32]) -> bool) -> bool {
        let count = self.values.count() as u32;
        let (mut stored, mut indices) = (Vec::new(), Vec::new());
        for page in &self.pages {
            let Some(indices) = page.read(count, &mut stored, &mut indices) else {
                return false;
            };
            if !visit(indices) {
                break;
            }
        }
        true
    }
}

impl IndexPage {
    /// The page, if it has dictionary indices of at most `most` rows.
    fn of(page: Page, nullable: bool, most: usize) -> Option<Self> {
        let (rows, levels, mut rest) = match page {
            Page::DataPage {
                mut buf,
                num_values,
                encoding: Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY,
                def_level_encoding,
                ..
            } => {
                let levels = match nullable {
                    false => Bytes::new(),
                    true if def_level_encoding == Encoding::RLE && buf.len() >= 4 => {
                        let bytes = buf.get_u32_le() as usize;
                        if bytes > buf.len() {
                            return None;
                        }
                        buf.split_to(bytes)
                    }
                    true => return None,
                };
                (num_values as usize, levels, buf)
            }
            Page::DataPageV2 {
                mut buf,
                num_values,
                num_rows,
                encoding: Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY,
                def_levels_byte_len,
                rep_levels_byte_len: 0,
                ..
            } if num_values == num_rows && def_levels_byte_len as usize <= buf.len() => {
                let levels = buf.split_to(def_levels_byte_len as usize);
                (num_values as usize, levels, buf)
            }
            _ => return None,
        };
        if rows > most {
            return None;
        }
        let validity = match nullable {
            false => None,
            true => {
                let mut validity = Validity::default();
                Hybrid::new(&levels, 1)?.read_bits(rows, &mut validity)?;
                (validity.valid() < rows).then_some(validity)
            }
        };
        let valid = validity.as_ref().map_or(rows, Validity::valid);
        // A page without values may have no bytes.
        let width = match valid {
            0 => 0,
            _ => u32::from(rest.try_get_u8().ok()?),
        };
        Some(Self {
            rows,
            validity,
            indices: rest,
            width,
        })
    }

    /// Number of rows that are not NULL.
    fn valid(&self) -> usize {
        self.validity.as_ref().map_or(self.rows, Validity::valid)
    }

    /// The indices of the rows, in one of two buffers. NULL rows have the index `count`. None if the page is
    /// damaged, or if another index is not below `count`.
    fn read<'b>(&self, count: u32, stored: &'b mut Vec<u32>, target: &'b mut Vec<u32>) -> Option<&'b [u32]> {
        stored.clear();
        Hybrid::new(&self.indices, self.width)?.read(self.valid(), stored)?;
        if stored
            .iter()
            .copied()
            .max()
            .is_some_and(|greatest| greatest >= count)
        {
            return None;
        }
        let Some(validity) = &self.validity else {
            return Some(stored);
        };
        spread(stored, validity, count, target);
        Some(target)
    }
}

/// Writes the indices of valid rows, `stored`, to the places of these rows in `target`, and `null` to the
/// places of other rows.
fn spread(stored: &mut Vec<u32>, validity: &Validity, null: u32, target: &mut Vec<u32>) {
    // The index after the last one is read, and not used.
    stored.push(null);
    target.clear();
    target.reserve(validity.rows());
    let mut rest = stored.as_slice();
    validity.for_each_word(|bits, rows| {
        let valid = bits.count_ones() as usize;
        if valid == rows {
            target.extend_from_slice(&rest[..rows]);
        } else {
            let mut next = 0;
            target.extend((0..rows).map(|row| {
                let (is_valid, index) = (bits >> row & 1, rest[next]);
                next += is_valid as usize;
                if is_valid == 1 { index } else { null }
            }));
        }
        rest = &rest[valid..];
    });
}

/// Whether dictionaries of columns of this shape are read: integers of up to 64 bits that `i64` holds, and
/// strings.
fn is_indexed(shape: &ColumnShape) -> bool {
    match (shape.kind, shape.physical) {
        (ValueKind::Strings { .. }, _) => true,
        (ValueKind::Fixed { form, order }, physical) => matches!(
            (form, order, physical),
            (
                ParquetForm::Signed32 | ParquetForm::Unsigned32,
                ParquetOrder::Signed,
                PhysicalType::INT32
            ) | (ParquetForm::Integer64, ParquetOrder::Signed, PhysicalType::INT64)
        ),
    }
}

/// The values of a dictionary page; none if they are damaged.
fn values(page: &[u8], count: usize, shape: &ColumnShape) -> Option<IndexedValues> {
    // The index of NULL is behind the last value.
    u32::try_from(count).ok()?.checked_add(1)?;
    let (form, order) = match shape.kind {
        ValueKind::Strings { utf8 } => return Some(IndexedValues::Strings(strings(page, count, utf8)?)),
        ValueKind::Fixed { form, order } => (form, order),
    };
    let bytes = shape.value_bytes as usize;
    if bytes == 0 {
        return None;
    }
    let stored = page.get(..count.checked_mul(bytes)?)?.chunks_exact(bytes);
    let four = |stored: &[u8]| stored.try_into().map(u32::from_le_bytes).ok();
    let eight = |stored: &[u8]| stored.try_into().map(u64::from_le_bytes).ok();
    let values: Vec<i64> = match (form, order, shape.physical) {
        (ParquetForm::Signed32, ParquetOrder::Signed, PhysicalType::INT32) => stored
            .map(|value| Some(i64::from(four(value)? as i32)))
            .collect::<Option<_>>()?,
        (ParquetForm::Unsigned32, ParquetOrder::Signed, PhysicalType::INT32) => stored
            .map(|value| four(value).map(i64::from))
            .collect::<Option<_>>()?,
        (ParquetForm::Integer64, ParquetOrder::Signed, PhysicalType::INT64) => stored
            .map(|value| Some(eight(value)? as i64))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let (least, greatest) = shape.limits.unwrap_or((i64::MIN, i64::MAX));
    let within = values.iter().all(|value| (least..=greatest).contains(value));
    within.then_some(IndexedValues::Integers(values))
}

/// The strings of a dictionary page: each follows its length.
fn strings(mut page: &[u8], count: usize, utf8: bool) -> Option<Arena> {
    let mut values = Arena::with_capacity(count.min(page.len() / 4), page.len());
    for _ in 0..count {
        let length = page.try_get_u32_le().ok()? as usize;
        let (value, rest) = page.split_at_checked(length)?;
        if utf8 && simdutf8::basic::from_utf8(value).is_err() {
            return None;
        }
        values.push(value);
        page = rest;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::basic::Compression;
    use ::parquet::file::metadata::ParquetMetaDataReader;
    use ::parquet::file::properties::{WriterProperties, WriterVersion};
    use arrow::array::{
        ArrayRef, AsArray, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
    };
    use arrow::datatypes::{Field, Schema};

    use super::*;

    /// A file with one column.
    fn file(array: &ArrayRef, nullable: bool, properties: WriterProperties) -> Bytes {
        let field = Field::new("v", array.data_type().clone(), nullable);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(array)]).expect("one column");
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties)).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
        bytes.into()
    }

    /// The column chunk of a file, read from `bytes`, which may be damaged.
    fn read(file: &Bytes, bytes: &Bytes) -> Option<IndexedRows> {
        let metadata = ParquetMetaDataReader::new()
            .parse_and_finish(file)
            .expect("a footer");
        let column = metadata.row_group(0).column(0);
        let shape = ColumnShape::of(column.column_descr(), 1).expect("a shape");
        let source = ColumnBytes {
            pieces: vec![Piece {
                start: 0,
                bytes: bytes.clone(),
            }],
            file_size: bytes.len() as u64,
        };
        IndexedRows::read(source, column, &shape, metadata.row_group(0).num_rows() as usize)
    }

    /// The value of each row as a string.
    fn texts(rows: &IndexedRows) -> Option<Vec<Option<String>>> {
        let mut texts = Vec::new();
        let intact = rows.for_each_piece(&mut |indices| {
            texts.extend(indices.iter().map(|index| {
                let index = *index as usize;
                (index < rows.values.count()).then(|| match &rows.values {
                    IndexedValues::Integers(values) => values[index].to_string(),
                    IndexedValues::Strings(values) => String::from_utf8_lossy(values.get(index)).into_owned(),
                })
            }));
            true
        });
        intact.then_some(texts)
    }

    /// Arrays with NULLs in `nulls` of ten rows, at most 300 values, and runs.
    fn arrays(rows: usize, nulls: usize) -> [ArrayRef; 4] {
        let value = |row: usize| match row * 7 % 10 < nulls {
            true => None,
            false => Some(if row % 1000 < 400 { 5 } else { row * row % 300 }),
        };
        let integers = (0..rows).map(|row| value(row).map(|value| value as i64 * 1000));
        let days = (0..rows).map(|row| value(row).map(|value| value as i32 - 100));
        let texts = (0..rows).map(|row| value(row).map(|value| "x".repeat(value % 9) + &value.to_string()));
        let money = (0..rows).map(|row| value(row).map(|value| value as i128 * 25));
        let money = money.collect::<Decimal128Array>().with_precision_and_scale(15, 2);
        [
            Arc::new(integers.collect::<Int64Array>()),
            Arc::new(days.collect::<Int32Array>()),
            Arc::new(texts.collect::<StringArray>()),
            Arc::new(money.expect("a precision")),
        ]
    }

    fn expected(array: &ArrayRef) -> Vec<Option<String>> {
        use arrow::datatypes::{Decimal128Type, Int32Type, Int64Type};
        if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            return array
                .iter()
                .map(|value| value.map(|value| value.to_string()))
                .collect();
        }
        if let Some(array) = array.as_primitive_opt::<Int32Type>() {
            return array
                .iter()
                .map(|value| value.map(|value| value.to_string()))
                .collect();
        }
        if let Some(array) = array.as_primitive_opt::<Decimal128Type>() {
            return array
                .iter()
                .map(|value| value.map(|value| value.to_string()))
                .collect();
        }
        array
            .as_string::<i32>()
            .iter()
            .map(|value| value.map(str::to_owned))
            .collect()
    }

    fn properties(version: WriterVersion, codec: Compression, rows: usize) -> WriterProperties {
        WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(codec)
            .set_data_page_row_count_limit(rows)
            .set_write_batch_size(rows)
            .build()
    }

    #[test]
    fn indices_of_every_kind_of_page_are_read() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for codec in [
                Compression::UNCOMPRESSED,
                Compression::SNAPPY,
                Compression::LZ4_RAW,
            ] {
                for (rows, nulls, page) in [
                    (1, 0, 9),
                    (5000, 0, 700),
                    (5000, 3, 700),
                    (5000, 10, 700),
                    (33, 5, 1),
                ] {
                    for array in arrays(rows, nulls) {
                        for nullable in [true, false] {
                            if nulls > 0 && !nullable {
                                continue;
                            }
                            let file = file(&array, nullable, properties(version, codec, page));
                            let context = format!(
                                "{version:?}, {codec}, {rows} rows, {nulls}, {}",
                                array.data_type()
                            );
                            let Some(read) = read(&file, &file) else {
                                // Writers store no dictionary if there are no values.
                                assert_eq!(nulls, 10, "{context}");
                                continue;
                            };
                            assert_eq!(read.rows(), rows, "{context}");
                            assert_eq!(read.null_count(), array.null_count(), "{context}");
                            assert_eq!(texts(&read), Some(expected(&array)), "{context}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn plain_pages_are_not_read() {
        let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
        let array = &arrays(100, 0)[0];
        let file = file(array, true, properties);
        assert!(read(&file, &file).is_none());
    }

    /// Damaged pages are refused, or have other indices of the dictionary.
    #[test]
    fn damaged_pages_never_change_the_number_of_rows() {
        for array in arrays(400, 2) {
            let file = file(
                &array,
                true,
                properties(WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED, 100),
            );
            let footer = file.len() - 8;
            let mut refused = 0;
            for byte in 4..footer {
                for change in [0x01, 0x80, 0xff] {
                    let mut damaged = file.to_vec();
                    damaged[byte] ^= change;
                    let damaged = Bytes::from(damaged);
                    // Only the parquet crate may panic.
                    let rows = contained(|| read(&file, &damaged)).ok().flatten();
                    match rows.and_then(|rows| texts(&rows)) {
                        Some(texts) => assert_eq!(texts.len(), 400, "byte {byte}"),
                        None => refused += 1,
                    }
                }
            }
            assert!(refused > 100, "{refused}");
        }
    }
}
