//! Sources of CSV and JSON files: DataFusion's, with these faults mended.
//!
//! DataFusion 55 cuts large files at line feeds, wherever these are, so that several threads read one file. A
//! line feed in a quoted value of CSV, in an array or in an object of JSON is none between rows: such files
//! give other rows on another number of cores, or none at all. It takes the columns of a CSV file by their
//! places, whatever its header says, and a JSON array that is cut off for a whole one.
//!
//! | | here |
//! | --- | --- |
//! | cutting | a file is scanned before it is cut ([`cut`]); one with such line feeds is read by one thread |
//! | columns of CSV | by the names in the header of each file; NULL where a file lacks one ([`layout`]) |
//! | JSON | objects, however they are laid out, or one array of them, which has to end ([`objects`]); a byte order mark is skipped; numbers and truth values in a column of text become text |
//! | errors | name the file, the line and the column |
//!
//! Limits: files of object stores are not scanned, because that would fetch them whole, and so are not cut
//! either, unless the table's option `newlines_in_values` is set to `false`.

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
