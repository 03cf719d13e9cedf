//! Tables for readers. A table that is wider than the terminal first loses the ends of long values, then
//! columns in the middle. The footer reports omitted columns.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::{Cell, Table, presets};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Format;

/// The width that is kept of a long value if the table is too wide.
const LONG: usize = 32;

/// The mark of omitted values.
const LEFT_OUT: &str = "…";

/// A formatted result, and the size of the shown part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The formatted lines, including the last end of line.
    pub(crate) text: String,
    /// The number of rows of the result in it.
    pub(crate) rows: usize,
    /// The number of columns of the result in it.
    pub(crate) columns: usize,
}

/// Formats `batches`. `more`: the result has rows after them. If `width` is given, it limits the width of
/// tables.
pub(crate) fn shown(
    format: Format,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    more: bool,
    width: Option<usize>,
    options: &FormatOptions<'_>,
) -> Result<Shown, ArrowError> {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns = columns
            .map(|column| ArrayFormatter::try_new(column.as_ref(), options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| column.value(row).try_to_string());
            rows.push(cells.collect::<Result<Vec<_>, _>>()?);
        }
    }
    let (count, columns) = (rows.len(), names.len());
    if format == Format::Expanded {
        let text = expanded(&names, &rows, width);
        return Ok(Shown {
            text,
            rows: count,
            columns,
        });
    }
    if more {
        rows.push(vec![LEFT_OUT.to_string(); columns]);
    }
    let preset = match format {
        Format::Markdown => presets::ASCII_MARKDOWN,
        _ => "||--+-++|    ++++++",
    };
    let kept = match (width, format) {
        (Some(width), Format::Table) => fit(&names, &mut rows, width),
        _ => (0..columns).map(Some).collect(),
    };
    let mut table = Table::new();
    table.load_preset(preset);
    let pick = |cells: &[String]| -> Vec<Cell> {
        let cells = kept
            .iter()
            .map(|column| column.map_or(LEFT_OUT, |column| cells[column].as_str()));
        cells.map(|cell| Cell::new(escaped(cell, format))).collect()
    };
    table.set_header(pick(&names));
    for row in &rows {
        table.add_row(pick(row));
    }
    Ok(Shown {
        text: format!("{table}\n"),
        rows: count,
        columns: kept.iter().flatten().count(),
    })
}

/// A cell with the characters escaped that the format requires.
fn escaped(cell: &str, format: Format) -> String {
    match format {
        Format::Markdown => cell.replace('|', "\\|").replace('\n', "<br>"),
        _ => cell.to_string(),
    }
}

/// Cuts long values and selects the columns that fit into `width`; `None` is the mark of omitted columns.
fn fit(names: &[String], rows: &mut [Vec<String>], width: usize) -> Vec<Option<usize>> {
    let widths = |rows: &[Vec<String>]| -> Vec<usize> {
        let of = |column: usize| {
            let cells = rows.iter().map(|row| &row[column]).chain([&names[column]]);
            cells
                .flat_map(|cell| cell.lines())
                .map(UnicodeWidthStr::width)
                .max()
                .unwrap_or(0)
        };
        (0..names.len()).map(of).collect()
    };
    // Each column has a border and two spaces, and the last border follows.
    let total = |widths: &[usize]| widths.iter().map(|width| width + 3).sum::<usize>() + 1;
    let mut wide = widths(rows);
    if total(&wide) > width {
        // A single column may use the full width.
        let long = if names.len() == 1 {
            width.saturating_sub(4)
        } else {
            LONG
        };
        for row in rows.iter_mut() {
            row.iter_mut().for_each(|cell| *cell = cut(cell, long));
        }
        wide = widths(rows);
    }
    if total(&wide) <= width {
        return (0..names.len()).map(Some).collect();
    }
    // Columns are taken from both ends, as long as they fit beside a column that marks the omitted ones.
    let mut left = width.saturating_sub(1 + LEFT_OUT.width() + 3);
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let (mut first, mut last) = (0, names.len());
    while first < last {
        let from_front = front.len() <= back.len();
        let column = if from_front { first } else { last - 1 };
        if wide[column] + 3 > left && !front.is_empty() {
            break;
        }
        left = left.saturating_sub(wide[column] + 3);
        if from_front {
            front.push(Some(column));
            first += 1;
        } else {
            back.push(Some(column));
            last -= 1;
        }
    }
    front.push(None);
    front.extend(back.into_iter().rev());
    front
}

/// `text` cut to at most `width` columns.
fn cut(text: &str, width: usize) -> String {
    if text.lines().all(|line| line.width() <= width) {
        return text.to_string();
    }
    let line = |line: &str| {
        let mut room = width.saturating_sub(LEFT_OUT.width());
        if line.width() <= width {
            return line.to_string();
        }
        let fits = |letter: &char| {
            let wide = letter.width().unwrap_or(0);
            let fits = wide <= room;
            room = room.saturating_sub(wide);
            fits
        };
        line.chars().take_while(fits).collect::<String>() + LEFT_OUT
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// One line per value.
fn expanded(names: &[String], rows: &[Vec<String>], width: Option<usize>) -> String {
    let longest = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let title = format!("-[ row {} ]", number + 1);
        text += &format!("{title:-<0$}\n", width.unwrap_or(40).min(40));
        for (name, value) in names.iter().zip(row) {
            let gap = longest - name.width();
            let mut lines = value.lines();
            text += &format!("{name}{:gap$} | {}\n", "", lines.next().unwrap_or_default());
            for line in lines {
                text += &format!("{:longest$} | {line}\n", "");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int32Array, StringArray};
    use std::sync::Arc;

    fn batch(columns: usize, text: &str) -> RecordBatch {
        let column = |number: usize| -> (String, ArrayRef) {
            match number {
                0 => ("id".to_string(), Arc::new(Int32Array::from(vec![1, 20]))),
                _ => (
                    format!("column_{number}"),
                    Arc::new(StringArray::from(vec![text, "b"])),
                ),
            }
        };
        RecordBatch::try_from_iter((0..columns).map(column)).expect("one length")
    }

    fn text(format: Format, batch: &RecordBatch, more: bool, width: Option<usize>) -> Shown {
        let rows = [batch.clone()];
        shown(
            format,
            &batch.schema(),
            &rows,
            more,
            width,
            &FormatOptions::default(),
        )
        .expect("prints")
    }

    #[test]
    fn narrow_tables_are_not_truncated() {
        let shown = text(Format::Table, &batch(2, "a"), true, Some(80));
        insta::assert_snapshot!(shown.text, @r"
        +----+----------+
        | id | column_1 |
        +----+----------+
        | 1  | a        |
        | 20 | b        |
        | …  | …        |
        +----+----------+
        ");
        assert_eq!((shown.rows, shown.columns), (2, 2));
    }

    #[test]
    fn wide_tables_truncate_values_then_middle_columns() {
        let long = "0123456789012345678901234567890123456789";
        let cut = text(Format::Table, &batch(2, long), false, Some(42));
        assert!(
            cut.text.contains("| 0123456789012345678901234567890… |"),
            "{}",
            cut.text
        );
        assert_eq!(cut.columns, 2);
        let fewer = text(Format::Table, &batch(9, "a"), false, Some(50));
        insta::assert_snapshot!(fewer.text, @r"
        +----+----------+---+----------+----------+
        | id | column_1 | … | column_7 | column_8 |
        +----+----------+---+----------+----------+
        | 1  | a        | … | a        | a        |
        | 20 | b        | … | b        | b        |
        +----+----------+---+----------+----------+
        ");
        assert_eq!(fewer.columns, 4);
        for width in 20..200 {
            let shown = text(Format::Table, &batch(9, long), true, Some(width));
            let widest = shown.text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
            assert!(widest <= width, "{widest} > {width}\n{}", shown.text);
        }
    }

    #[test]
    fn expanded_and_markdown_formats() {
        let rows = batch(2, "a|b\nc");
        insta::assert_snapshot!(text(Format::Expanded, &rows, false, None).text, @r"
        -[ row 1 ]------------------------------
        id       | 1
        column_1 | a|b
                 | c
        -[ row 2 ]------------------------------
        id       | 20
        column_1 | b
        ");
        insta::assert_snapshot!(text(Format::Markdown, &rows, false, Some(20)).text, @r"
        | id | column_1  |
        |----|-----------|
        | 1  | a\|b<br>c |
        | 20 | b         |
        ");
    }
}
