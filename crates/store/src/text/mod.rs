//! Sources of CSV and JSON files. They replace DataFusion's, and fix these faults.
//!
//! DataFusion 55 splits large files at line feeds, so that several threads read one file. A line feed in a
//! quoted value of CSV, or in an array or an object of JSON, does not separate rows: such files return other
//! rows on another number of cores, or none at all. DataFusion matches the columns of a CSV file by position,
//! without regard to its header, and accepts a JSON array that is cut off.
//!
//! | | here |
//! | --- | --- |
//! | splitting | a file is scanned before it is split ([`cut`]); one with such line feeds is read by one thread |
//! | columns of CSV | by the names in the header of each file; NULL if a file lacks one ([`layout`]) |
//! | JSON | objects in any formatting, or one array of them, which has to end ([`objects`]); a byte order mark is skipped; numbers and booleans in a string column become strings |
//! | errors | contain the file, the line and the column |
//!
//! Limits: files of object stores are not scanned, because that would fetch them whole. They are therefore
//! not split either, unless the table's option `newlines_in_values` is `false`.

mod bytes;
mod csv;
mod cut;
mod errors;
mod json;
mod layout;
mod objects;

pub use self::bytes::file_head;
pub use self::csv::CsvFiles;
pub use self::json::JsonFiles;
pub use self::layout::{CsvHeader, csv_reader, header_names, numbered_names};
pub use self::objects::{NotObjects, Objects};
