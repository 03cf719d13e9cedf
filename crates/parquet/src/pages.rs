//! The pages of a column chunk.

use galatea_kernels::{ParquetEncoding, ParquetLevelsKind};

use crate::chunk::ColumnChunk;
use crate::decompress::Route;
use crate::error::{Problem, Result, Unsupported};
use crate::header::{PageHeader, PageKind};
use crate::shape::ColumnShape;

/// A data or dictionary page whose header has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Page number in the column chunk. Index pages and other pages without values count.
    pub(crate) number: usize,
    /// First byte after its header, in the column chunk.
    pub(crate) start: usize,
    /// Bytes in the file.
    pub(crate) stored: u32,
    /// Decompressed bytes.
    pub(crate) plain: u32,
    /// Rows; values of a dictionary page.
    pub(crate) rows: u32,
    /// NULL rows, if the header has their number.
    pub(crate) nulls: Option<u32>,
    pub(crate) encoding: ParquetEncoding,
    pub(crate) levels: ParquetLevelsKind,
    /// Bytes of levels before the compressed bytes.
    pub(crate) level_bytes: u32,
    pub(crate) compressed: bool,
    pub(crate) is_dictionary: bool,
}

impl Page {
    /// Its bytes in the file.
    pub(crate) fn bytes<'a>(&self, chunk: &ColumnChunk<'a>) -> &'a [u8] {
        &chunk.bytes[self.start..self.start + self.stored as usize]
    }
}

/// The values of a data page's header, of both versions.
struct DataHeader {
    rows: u32,
    nulls: Option<u32>,
    encoding: i32,
    levels: ParquetLevelsKind,
    level_bytes: u32,
    compressed: bool,
}

/// Reads the page headers of a column chunk.
pub(crate) fn pages(chunk: &ColumnChunk<'_>, shape: &ColumnShape, route: Route) -> Result<Vec<Page>> {
    let mut pages: Vec<Page> = Vec::new();
    let (mut at, mut rows) = (0, 0);
    let mut number = 0;
    while rows < chunk.rows {
        let damaged = |problem| chunk.damaged(Some(number), at as u64 + chunk.start, problem);
        if at >= chunk.bytes.len() {
            return Err(damaged(differs(
                "rows of all pages",
                rows as u64,
                chunk.rows as u64,
            )));
        }
        let header = PageHeader::read(&chunk.bytes[at..]).map_err(damaged)?;
        let start = at + header.bytes;
        within("compressed size", header.stored, chunk.bytes.len() - start).map_err(damaged)?;
        let page = match header.kind {
            PageKind::Other => None,
            PageKind::Dictionary { values, encoding } => {
                if !pages.is_empty() {
                    return Err(damaged(Problem::LateDictionary));
                }
                if !matches!(encoding, 0 | 2) {
                    return Err(chunk.unsupported(Unsupported::Encoding(encoding)));
                }
                within(
                    "values of a dictionary page",
                    values,
                    (header.plain / shape.least_bytes()) as usize,
                )
                .map_err(damaged)?;
                Some(Page {
                    number,
                    start,
                    stored: header.stored,
                    plain: header.plain,
                    rows: values,
                    nulls: None,
                    encoding: ParquetEncoding::Plain,
                    levels: ParquetLevelsKind::Absent,
                    level_bytes: 0,
                    compressed: true,
                    is_dictionary: true,
                })
            }
            ref kind @ (PageKind::Data { .. } | PageKind::DataV2 { .. }) => {
                let data = data_header(chunk, shape, kind).map_err(|error| match error {
                    Refusal::Problem(problem) => damaged(problem),
                    Refusal::Unsupported(reason) => chunk.unsupported(reason),
                })?;
                within("rows of a page", data.rows, chunk.rows - rows).map_err(damaged)?;
                let encoding = shape
                    .encoding(data.encoding)
                    .ok_or_else(|| chunk.unsupported(Unsupported::Encoding(data.encoding)))?;
                if encoding == ParquetEncoding::Dictionary
                    && !pages.first().is_some_and(|page| page.is_dictionary)
                {
                    return Err(damaged(Problem::NoDictionary));
                }
                rows += data.rows as usize;
                Some(Page {
                    number,
                    start,
                    stored: header.stored,
                    plain: header.plain,
                    rows: data.rows,
                    nulls: data.nulls,
                    encoding,
                    levels: data.levels,
                    level_bytes: data.level_bytes,
                    compressed: data.compressed,
                    is_dictionary: false,
                })
            }
        };
        if let Some(mut page) = page {
            page.compressed &= route != Route::Device(galatea_kernels::ParquetCodec::Uncompressed);
            check_sizes(&page, route).map_err(damaged)?;
            pages.push(page);
        }
        at = start + header.stored as usize;
        number += 1;
    }
    Ok(pages)
}

/// The reason why a data page is refused.
enum Refusal {
    Problem(Problem),
    Unsupported(Unsupported),
}

fn data_header(chunk: &ColumnChunk<'_>, shape: &ColumnShape, kind: &PageKind) -> Result<DataHeader, Refusal> {
    const RLE: i32 = 3;
    match *kind {
        PageKind::Data {
            values,
            encoding,
            level_encoding,
        } => {
            if shape.nullable && level_encoding != RLE {
                return Err(Refusal::Unsupported(Unsupported::Encoding(level_encoding)));
            }
            Ok(DataHeader {
                rows: values,
                nulls: None,
                encoding,
                levels: match shape.nullable {
                    true => ParquetLevelsKind::Prefixed,
                    false => ParquetLevelsKind::Absent,
                },
                level_bytes: 0,
                compressed: true,
            })
        }
        PageKind::DataV2 {
            values,
            nulls,
            rows,
            encoding,
            definition_bytes,
            repetition_bytes,
            compressed,
        } => {
            // A column that is not nested has one value per row, and no repetition levels.
            for problem in [
                (rows != values).then(|| differs("rows of a page", rows.into(), values.into())),
                (nulls > values).then(|| out_of_range("NULLs of a page", nulls.into(), values.into())),
                (repetition_bytes > 0)
                    .then(|| out_of_range("bytes of repetition levels", repetition_bytes.into(), 0)),
                (definition_bytes as usize > chunk.bytes.len()).then(|| {
                    out_of_range(
                        "bytes of definition levels",
                        definition_bytes.into(),
                        chunk.bytes.len() as u64,
                    )
                }),
            ] {
                problem.map_or(Ok(()), |problem| Err(Refusal::Problem(problem)))?;
            }
            Ok(DataHeader {
                rows: values,
                nulls: Some(nulls),
                encoding,
                levels: match shape.nullable {
                    true => ParquetLevelsKind::Counted,
                    false => ParquetLevelsKind::Absent,
                },
                level_bytes: definition_bytes,
                compressed,
            })
        }
        PageKind::Dictionary { .. } | PageKind::Other => Err(Refusal::Problem(Problem::Missing {
            field: "header of a data page",
        })),
    }
}

/// Checks the sizes of a page, so that kernels may rely on them.
fn check_sizes(page: &Page, route: Route) -> Result<(), Problem> {
    let (stored, plain) = (page.stored, page.plain);
    within(
        "bytes of definition levels",
        page.level_bytes,
        stored.min(plain) as usize,
    )?;
    if !page.compressed {
        if stored != plain {
            return Err(differs("uncompressed size", plain.into(), stored.into()));
        }
        return Ok(());
    }
    if let Some(most) = route.most_bytes((stored - page.level_bytes).into())
        && u64::from(plain - page.level_bytes) > most
    {
        return Err(out_of_range("uncompressed size", plain.into(), most));
    }
    Ok(())
}

fn within(name: &'static str, number: u32, limit: usize) -> Result<(), Problem> {
    if number as usize <= limit {
        return Ok(());
    }
    Err(out_of_range(name, number.into(), limit as u64))
}

fn out_of_range(name: &'static str, number: u64, limit: u64) -> Problem {
    Problem::OutOfRange {
        name,
        number: number as i64,
        least: 0,
        greatest: limit as i64,
    }
}

fn differs(name: &'static str, number: u64, expected: u64) -> Problem {
    Problem::Differs {
        name,
        number: number as i64,
        expected: expected as i64,
    }
}
