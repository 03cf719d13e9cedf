//! Checks whether files may be split at line feeds: whether each of their line feeds is between two rows.
//!
//! A quote may open long before the place of the split, so only reading the whole file can answer this. The
//! scan searches for the relevant bytes only, reads a few gigabytes a second, and ends at the first line feed
//! that is within a value. Its result is cached as long as the file is unchanged.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use datafusion::common::Result;
use datafusion::datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfig};
use datafusion::physical_expr::LexOrdering;
use memchr::{memchr, memchr3};
use parking_lot::Mutex;

/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// A file that was changed within this time may change again without a change of its times.
const SETTLED: Duration = Duration::from_secs(2);
/// The byte order mark with which some programs begin a UTF-8 file.
pub(super) const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// Maximum number of cached results.
const ANSWERS: usize = 4096;

/// The format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rows {
    Csv {
        delimiter: u8,
        quote: u8,
        escape: Option<u8>,
        comment: Option<u8>,
        terminator: Option<u8>,
    },
    /// One object per line.
    Json,
}

/// The scan with its files split into at most `parts` parts. None if a split could fall into a row, or no
/// file needs to be split.
pub(super) fn cut(
    config: &FileScanConfig,
    rows: Rows,
    trusted: bool,
    parts: usize,
    least_bytes: usize,
    ordering: Option<&LexOrdering>,
) -> Result<Option<FileScanConfig>> {
    if config.file_compression_type.is_compressed() {
        return Ok(None);
    }
    let groups = FileGroupPartitioner::new()
        .with_target_partitions(parts)
        .with_repartition_file_min_size(least_bytes)
        .with_preserve_order_within_groups(ordering.is_some())
        .repartition_file_groups(&config.file_groups);
    let Some(groups) = groups else {
        return Ok(None);
    };
    if !trusted && !may_be_cut(config, &groups, rows) {
        return Ok(None);
    }
    let mut cut = config.clone();
    cut.file_groups = groups;
    Ok(Some(cut))
}

/// Whether all files that the groups contain only parts of can be split anywhere.
fn may_be_cut(config: &FileScanConfig, groups: &[FileGroup], rows: Rows) -> bool {
    let local = config.object_store_url.as_str().starts_with("file://");
    let mut files: Vec<PathBuf> = groups
        .iter()
        .flat_map(FileGroup::iter)
        .filter(|file| {
            let whole = |range: &datafusion_datasource::FileRange| {
                range.start == 0 && u64::try_from(range.end).is_ok_and(|end| end >= file.object_meta.size)
            };
            file.range.as_ref().is_some_and(|range| !whole(range))
        })
        .map(|file| PathBuf::from(format!("/{}", file.object_meta.location)))
        .collect();
    files.sort();
    files.dedup();
    local && files.iter().all(|file| line_feeds_end_rows(file, rows))
}

/// A file with its state when it was scanned, and the row format.
type Scanned = (PathBuf, u64, SystemTime, Rows);

static KNOWN: LazyLock<Mutex<HashMap<Scanned, bool>>> = LazyLock::new(Mutex::default);

/// Whether each line feed of a file ends a row. A file that cannot be read is not split; its reader reports
/// the error.
fn line_feeds_end_rows(file: &Path, rows: Rows) -> bool {
    let scan = || {
        File::open(file)
            .and_then(|open| scan(open, rows))
            .unwrap_or(false)
    };
    let key = std::fs::metadata(file).ok().and_then(|found| {
        let changed = found.modified().ok()?;
        let settled = changed.elapsed().is_ok_and(|age| age > SETTLED);
        settled.then(|| (file.to_owned(), found.len(), changed, rows))
    });
    let Some(key) = key else {
        return scan();
    };
    if let Some(known) = KNOWN.lock().get(&key) {
        return *known;
    }
    let answer = scan();
    let mut known = KNOWN.lock();
    if known.len() >= ANSWERS {
        known.clear();
    }
    known.insert(key, answer);
    answer
}

fn scan(mut file: impl Read, rows: Rows) -> std::io::Result<bool> {
    let mut start = Vec::new();
    file.by_ref()
        .take(BYTE_ORDER_MARK.len() as u64)
        .read_to_end(&mut start)?;
    let start = if start == BYTE_ORDER_MARK {
        &[]
    } else {
        start.as_slice()
    };
    let mut file = start.chain(file);
    let mut piece = vec![0; PIECE];
    let mut csv = CsvScan::default();
    let mut json = JsonScan::default();
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(match rows {
                Rows::Csv { .. } => true,
                Rows::Json => json.began,
            });
        }
        let fine = match rows {
            // Quotes in comments open no value, so any quote prevents splitting.
            Rows::Csv {
                quote,
                comment: Some(_),
                ..
            } => memchr(quote, &piece[..read]).is_none(),
            Rows::Csv {
                delimiter,
                quote,
                escape,
                terminator,
                ..
            } => csv.feed(&piece[..read], delimiter, quote, escape, terminator),
            Rows::Json => json.feed(&piece[..read]),
        };
        if !fine {
            return Ok(false);
        }
    }
}

/// The position of a scan in a CSV file, relative to quotes.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Place {
    #[default]
    Outside,
    Inside,
    /// After an escape within quotes.
    Escaped,
    /// After a quote within quotes, which ends the value unless another follows.
    AtQuote,
}

#[derive(Debug, Default)]
struct CsvScan {
    place: Place,
    /// The byte before the next bytes; none at the beginning.
    before: Option<u8>,
}

impl CsvScan {
    /// Scans more bytes. Returns false at the end of a line within quotes.
    fn feed(
        &mut self,
        bytes: &[u8],
        delimiter: u8,
        quote: u8,
        escape: Option<u8>,
        terminator: Option<u8>,
    ) -> bool {
        let ends_row = |byte: u8| match terminator {
            Some(terminator) => byte == terminator,
            None => byte == b'\n' || byte == b'\r',
        };
        let line_end = terminator.unwrap_or(b'\n');
        let mut at = 0;
        while at < bytes.len() {
            match self.place {
                Place::Outside => {
                    let Some(found) = memchr(quote, &bytes[at..]) else {
                        break;
                    };
                    let position = at + found;
                    let before = position
                        .checked_sub(1)
                        .map_or(self.before, |left| Some(bytes[left]));
                    // A quote that is not at the beginning of a value is an ordinary byte.
                    if before.is_none_or(|byte| byte == delimiter || ends_row(byte)) {
                        self.place = Place::Inside;
                    }
                    at = position + 1;
                }
                Place::Inside => {
                    let Some(found) = memchr3(quote, line_end, escape.unwrap_or(quote), &bytes[at..]) else {
                        break;
                    };
                    let byte = bytes[at + found];
                    if byte == line_end {
                        return false;
                    }
                    self.place = if byte == quote {
                        Place::AtQuote
                    } else {
                        Place::Escaped
                    };
                    at += found + 1;
                }
                Place::Escaped => {
                    if bytes[at] == line_end {
                        return false;
                    }
                    self.place = Place::Inside;
                    at += 1;
                }
                Place::AtQuote => {
                    if bytes[at] == quote {
                        self.place = Place::Inside;
                        at += 1;
                    } else {
                        self.place = Place::Outside;
                    }
                }
            }
        }
        self.before = bytes.last().copied().or(self.before);
        true
    }
}

/// In JSON, a line that begins with `{` after one that ends with `}` begins an object of the top level:
/// within an object or an array, a comma would be between them.
#[derive(Debug, Default)]
struct JsonScan {
    /// Whether the line has a byte that is not white space, and the last such byte of the file.
    in_line: bool,
    last: u8,
    began: bool,
}

impl JsonScan {
    /// Scans more bytes. Returns false at a line that is not one object.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let shown = |byte: &&u8| !byte.is_ascii_whitespace();
            if !self.in_line
                && let Some(first) = line.iter().find(shown)
            {
                if *first != b'{' || self.began && self.last != b'}' {
                    return false;
                }
                self.in_line = true;
                self.began = true;
            }
            if let Some(last) = line.iter().rev().find(shown) {
                self.last = *last;
            }
            if line.ends_with(b"\n") {
                self.in_line = false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a few bytes at a time, so that every pair of adjacent bytes is split once.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let take = self.1.min(self.0.len()).min(into.len());
            into[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    fn may_cut(text: &str, rows: Rows) -> bool {
        let answers =
            [1, 2, 3, 7, 1 << 16].map(|step| scan(Slowly(text.as_bytes(), step), rows).expect("read"));
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{text:?}");
        answers[0]
    }

    fn csv(text: &str) -> bool {
        let rows = Rows::Csv {
            delimiter: b',',
            quote: b'"',
            escape: None,
            comment: None,
            terminator: None,
        };
        may_cut(text, rows)
    }

    #[test]
    fn files_with_line_feeds_in_quotes_are_not_split() {
        assert!(csv("a,b\n1,2\n"));
        assert!(csv("a,b\n1,\"x, \"\"y\"\"\"\n2,\"\"\n"));
        assert!(!csv("a,b\n1,\"x\ny\"\n"));
        assert!(!csv("a,b\r\n1,\"x\r\ny\"\r\n"));
        assert!(!csv("a\n\"x\"\"\n\"\n"));
        assert!(!csv("\"a\nb\"\n1\n"));
        assert!(!csv("\u{feff}\"a\nb\"\n1\n"));
        assert!(csv("\u{203f}\"a\nb\"\n1\n"));
        // A quote within an unquoted value is part of the value.
        assert!(csv("a,b\n5\" pipe,x\n6,y\n"));
        assert!(csv("a,b\n\"5\" pipe\",x\n6,y\n"));
    }

    #[test]
    fn line_scan_respects_escapes_comments_and_terminators() {
        let rows = |escape, comment, terminator| Rows::Csv {
            delimiter: b';',
            quote: b'\'',
            escape,
            comment,
            terminator,
        };
        let escaped = rows(Some(b'\\'), None, None);
        assert!(may_cut("a;b\n1;'it\\'s'\n2;x\n", escaped));
        assert!(!may_cut("a;b\n1;'it\\'s\n'\n2;x\n", escaped));
        assert!(!may_cut("a;b\n# it's\n1;2\n", rows(None, Some(b'#'), None)));
        assert!(may_cut("a;b\n# it is\n1;2\n", rows(None, Some(b'#'), None)));
        assert!(may_cut("a;b|1;'x\ny'|", rows(None, None, Some(b'|'))));
        assert!(!may_cut("a;b|1;'x|y'|", rows(None, None, Some(b'|'))));
    }

    #[test]
    fn json_is_split_if_each_line_is_an_object() {
        let json = |text: &str| may_cut(text, Rows::Json);
        assert!(json("{\"a\": 1}\n\n  {\"a\": 2} \r\n{\"a\": {}}"));
        assert!(!json("[{\"a\": 1},\n{\"a\": 2}]"));
        assert!(!json("{\"a\": 1}\n{\"a\":\n2}\n"));
        assert!(!json("{\"a\": [\n{\"b\": 1},\n{\"b\": 2}\n]}\n"));
        assert!(!json("{\"a\": {}\n}\n{\"a\": {}}"));
        assert!(json("\u{feff}{\"a\": 1}\n{\"a\": 2}\n"));
        assert!(!json(""));
    }
}
