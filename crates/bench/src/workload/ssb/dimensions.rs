//! The four dimensions.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use chrono::{Datelike, Days, NaiveDate};

use super::super::generate::{ROWS_PER_CHUNK, TableGenerator};
use super::super::random::RowRandom;
use super::{NATIONS, SEED, Stream, city};

/// The rows of chunk `index` of `chunks`.
pub(super) fn chunk_of(rows: u64, index: usize, chunks: usize) -> Range<u64> {
    let at = |i: usize| (u128::from(rows) * i as u128 / chunks as u128) as u64;
    at(index)..at(index + 1)
}

/// A table from its columns, with names, types and values together.
pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, false)))
        .expect("columns of one length without nulls")
}

/// A schema without nulls.
pub(super) fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(
        columns
            .iter()
            .map(|(name, kind)| Field::new(*name, kind.clone(), false))
            .collect::<Vec<_>>(),
    ))
}

pub(super) fn strings<I: IntoIterator<Item: Into<String>>>(values: I) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values.into_iter().map(Into::into)))
}

pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values.into_iter().map(|v| v as i32)))
}

pub(super) fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A dimension in a single batch.
fn one_batch(batch: RecordBatch) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
    Box::new(std::iter::once(batch))
}

/// Every day of 1992 to 1998.
pub(super) struct Date;

/// The first day, 1992-01-01.
pub(super) fn first_day() -> NaiveDate {
    NaiveDate::from_ymd_opt(1992, 1, 1).expect("a date")
}

/// Number of days of the calendar: seven years, two of them leap years.
pub(super) const DAYS: u64 = 2557;

/// The day `day` days after the first, as `yyyymmdd`.
pub(super) fn date_key(day: u64) -> i64 {
    let date = first_day() + Days::new(day);
    i64::from(date.year()) * 10_000 + i64::from(date.month()) * 100 + i64::from(date.day())
}

/// The season of a month: the specification's selling seasons.
fn season(date: NaiveDate) -> &'static str {
    match date.month() {
        1..=3 => "Winter",
        4 => "Spring",
        5..=8 => "Summer",
        9 | 10 => "Fall",
        _ => "Christmas",
    }
}

/// Public holidays of fixed date.
const HOLIDAYS: [(u32, u32); 8] = [
    (1, 1),
    (2, 20),
    (4, 20),
    (5, 20),
    (7, 4),
    (8, 20),
    (11, 20),
    (12, 24),
];

impl TableGenerator for Date {
    fn name(&self) -> &'static str {
        "date"
    }

    fn schema(&self) -> SchemaRef {
        self.days(0..0).schema()
    }

    fn expected_rows(&self) -> u64 {
        DAYS
    }

    fn natural_chunks(&self) -> usize {
        1
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        one_batch(self.days(chunk_of(DAYS, index, chunks)))
    }
}

impl Date {
    fn days(&self, days: Range<u64>) -> RecordBatch {
        let dates: Vec<NaiveDate> = days.clone().map(|day| first_day() + Days::new(day)).collect();
        let text =
            |format: &'static str| strings(dates.iter().map(move |date| date.format(format).to_string()));
        let number = |of: fn(&NaiveDate) -> i64| ints(dates.iter().map(of));
        let is_last_of_month = |date: &NaiveDate| i64::from((*date + Days::new(1)).day() == 1);
        batch(vec![
            ("d_datekey", ints(days.map(date_key))),
            ("d_date", text("%B %-d, %Y")),
            ("d_dayofweek", text("%A")),
            ("d_month", text("%B")),
            ("d_year", number(|date| date.year().into())),
            (
                "d_yearmonthnum",
                number(|date| i64::from(date.year()) * 100 + i64::from(date.month())),
            ),
            ("d_yearmonth", text("%b%Y")),
            (
                "d_daynuminweek",
                number(|date| i64::from(date.weekday().num_days_from_sunday()) + 1),
            ),
            ("d_daynuminmonth", number(|date| date.day().into())),
            ("d_daynuminyear", number(|date| date.ordinal().into())),
            ("d_monthnuminyear", number(|date| date.month().into())),
            (
                "d_weeknuminyear",
                number(|date| i64::from(date.ordinal0() / 7) + 1),
            ),
            ("d_sellingseason", strings(dates.iter().map(|date| season(*date)))),
            (
                "d_lastdayinweekfl",
                number(|date| i64::from(date.weekday() == chrono::Weekday::Sat)),
            ),
            ("d_lastdayinmonthfl", ints(dates.iter().map(is_last_of_month))),
            (
                "d_holidayfl",
                number(|date| i64::from(HOLIDAYS.contains(&(date.month(), date.day())))),
            ),
            (
                "d_weekdayfl",
                number(|date| i64::from(date.weekday().num_days_from_monday() < 5)),
            ),
        ])
    }
}

/// The common columns of customers and suppliers: name, address, city, nation, region and phone.
fn party(prefix: &str, title: &str, stream: Stream, keys: Range<u64>) -> Vec<(String, ArrayRef)> {
    let random = |key: u64| RowRandom::new(SEED, stream as u64, key);
    let place = |key: u64| {
        let nation = random(key).range(0, 0, 24) as usize;
        (nation, random(key).range(1, 0, 9))
    };
    let keys = || keys.clone().map(|row| row + 1);
    let address = |key: u64| {
        const LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ";
        let random = random(key);
        let length = random.range(2, 10, 25) as u64;
        (0..length)
            .map(|i| char::from(random.choose(16 + i, LETTERS)))
            .collect::<String>()
    };
    let phone = |key: u64| {
        let (nation, random) = (place(key).0, random(key));
        let part = |column, low, high| random.range(column, low, high);
        format!(
            "{}-{}-{}-{}",
            nation + 10,
            part(3, 100, 999),
            part(4, 100, 999),
            part(5, 1000, 9999)
        )
    };
    let named = |name: &str| format!("{prefix}_{name}");
    vec![
        (
            format!("{prefix}_{}", if prefix == "c" { "custkey" } else { "suppkey" }),
            longs(keys().map(|key| key as i64)),
        ),
        (
            named("name"),
            strings(keys().map(|key| format!("{title}#{key:09}"))),
        ),
        (named("address"), strings(keys().map(address))),
        (
            named("city"),
            strings(keys().map(|key| city(NATIONS[place(key).0].0, place(key).1))),
        ),
        (
            named("nation"),
            strings(keys().map(|key| NATIONS[place(key).0].0)),
        ),
        (
            named("region"),
            strings(keys().map(|key| NATIONS[place(key).0].1)),
        ),
        (named("phone"), strings(keys().map(phone))),
    ]
}

fn owned(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    batch(
        columns
            .iter()
            .map(|(name, column)| (name.as_str(), column.clone()))
            .collect(),
    )
}

/// A dimension with rows that are computed from their numbers, from 0 on.
pub(super) struct Dimension {
    name: &'static str,
    rows: u64,
    batch: fn(Range<u64>) -> RecordBatch,
}

impl Dimension {
    pub(super) fn supplier(rows: u64) -> Self {
        Self {
            name: "supplier",
            rows,
            batch: suppliers,
        }
    }

    pub(super) fn customer(rows: u64) -> Self {
        Self {
            name: "customer",
            rows,
            batch: customers,
        }
    }

    pub(super) fn part(rows: u64) -> Self {
        Self {
            name: "part",
            rows,
            batch: parts,
        }
    }
}

impl TableGenerator for Dimension {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        (self.batch)(0..0).schema()
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn natural_chunks(&self) -> usize {
        self.rows.div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        one_batch((self.batch)(chunk_of(self.rows, index, chunks)))
    }
}

fn suppliers(rows: Range<u64>) -> RecordBatch {
    owned(party("s", "Supplier", Stream::Supplier, rows))
}

const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];

fn customers(rows: Range<u64>) -> RecordBatch {
    let mut columns = party("c", "Customer", Stream::Customer, rows.clone());
    let segment = |row: u64| RowRandom::new(SEED, Stream::Customer as u64, row + 1).choose(6, &SEGMENTS);
    columns.push(("c_mktsegment".to_string(), strings(rows.map(segment))));
    owned(columns)
}

const COLORS: [&str; 92] = [
    "almond",
    "antique",
    "aquamarine",
    "azure",
    "beige",
    "bisque",
    "black",
    "blanched",
    "blue",
    "blush",
    "brown",
    "burlywood",
    "burnished",
    "chartreuse",
    "chiffon",
    "chocolate",
    "coral",
    "cornflower",
    "cornsilk",
    "cream",
    "cyan",
    "dark",
    "deep",
    "dim",
    "dodger",
    "drab",
    "firebrick",
    "floral",
    "forest",
    "frosted",
    "gainsboro",
    "ghost",
    "goldenrod",
    "green",
    "grey",
    "honeydew",
    "hot",
    "indian",
    "ivory",
    "khaki",
    "lace",
    "lavender",
    "lawn",
    "lemon",
    "light",
    "lime",
    "linen",
    "magenta",
    "maroon",
    "medium",
    "metallic",
    "midnight",
    "mint",
    "misty",
    "moccasin",
    "navajo",
    "navy",
    "olive",
    "orange",
    "orchid",
    "pale",
    "papaya",
    "peach",
    "peru",
    "pink",
    "plum",
    "powder",
    "puff",
    "purple",
    "red",
    "rose",
    "rosy",
    "royal",
    "saddle",
    "salmon",
    "sandy",
    "seashell",
    "sienna",
    "sky",
    "slate",
    "smoke",
    "snow",
    "spring",
    "steel",
    "tan",
    "thistle",
    "tomato",
    "turquoise",
    "violet",
    "wheat",
    "white",
    "yellow",
];
const TYPES: [[&str; 6]; 3] = [
    ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED", ""],
    ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER", ""],
];
const CONTAINERS: ([&str; 5], [&str; 8]) = (
    ["SM", "LG", "MED", "JUMBO", "WRAP"],
    ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"],
);

fn parts(rows: Range<u64>) -> RecordBatch {
    let keys = || rows.clone().map(|row| row + 1);
    let random = |key: u64| RowRandom::new(SEED, Stream::Part as u64, key);
    let category = |key: u64| (random(key).range(0, 1, 5), random(key).range(1, 1, 5));
    let kind = |key: u64| {
        let words = [(4, 6), (5, 5), (6, 5)].iter().zip(TYPES);
        let words = words.map(|((column, count), words)| random(key).choose(*column, &words[..*count]));
        words.collect::<Vec<_>>().join(" ")
    };
    let container = |key: u64| {
        let random = random(key);
        format!(
            "{} {}",
            random.choose(8, &CONTAINERS.0),
            random.choose(9, &CONTAINERS.1)
        )
    };
    let name = |key: u64| {
        format!(
            "{} {}",
            random(key).choose(10, &COLORS),
            random(key).choose(11, &COLORS)
        )
    };
    batch(vec![
        ("p_partkey", longs(keys().map(|key| key as i64))),
        ("p_name", strings(keys().map(name))),
        (
            "p_mfgr",
            strings(keys().map(|key| format!("MFGR#{}", category(key).0))),
        ),
        (
            "p_category",
            strings(keys().map(|key| format!("MFGR#{}{}", category(key).0, category(key).1))),
        ),
        (
            "p_brand1",
            strings(keys().map(|key| {
                let (manufacturer, category) = category(key);
                format!("MFGR#{manufacturer}{category}{}", random(key).range(2, 1, 40))
            })),
        ),
        (
            "p_color",
            strings(keys().map(|key| random(key).choose(3, &COLORS))),
        ),
        ("p_type", strings(keys().map(kind))),
        ("p_size", ints(keys().map(|key| random(key).range(7, 1, 50)))),
        ("p_container", strings(keys().map(container))),
    ])
}
