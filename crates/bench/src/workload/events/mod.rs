//! Events of an online shop, and ten analyses of them: a funnel, sessions, cohorts, slowly changing prices,
//! best customers, baskets, streaks of days, as-of lookups, percentiles and duplicates.
//!
//! | table | column | values |
//! | --- | --- | --- |
//! | `events` | `event_id` | the number of the row |
//! | | `user_id` | one user for 60 events; a user has one `country` of 40 |
//! | | `ts` | 90 days from 2025-01-01 on; eight consecutive rows are a visit, with up to 5 minutes between them |
//! | | `kind` | 70 % `view`, 15 % `search`, 9 % `cart`, 5 % `purchase`, 1 % `refund` |
//! | | `product_id` | half of the events have one of 1,000 products, the others one product for 1,000 events |
//! | | `amount` | of purchases and refunds, 1.00 to 500.00; NULL otherwise |
//! | `prices` | `product_id`, `valid_from`, `valid_to`, `price` | four versions of each product, one after the other |
//!
//! One event of 50 is the previous event of the visit, delivered again with another `event_id`. Scale 1 is 10
//! million events. Rows are a function of ([`SEED`], table, row).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::SchemaRef;

use super::Query;
use super::generate::{ROWS_PER_CHUNK, TableGenerator, row_ranges};
use super::random::RowRandom;

/// This generator. The version changes with the rows.
pub const GENERATOR: &str = "galatea events 1";

/// The seed of all random values.
pub const SEED: u64 = 2_025;

/// The tables.
pub const TABLES: [&str; 2] = ["events", "prices"];

/// Events at scale 1.
pub const ROWS: f64 = 10_000_000.0;

/// Rows of a batch while generating.
const BATCH: u64 = 32 * 1024;

/// Events of a visit.
const VISIT: u64 = 8;

/// Events for each user.
const OF_USER: u64 = 60;

/// Frequent products.
const FREQUENT: i64 = 1_000;

/// Versions of a price.
const VERSIONS: u64 = 4;

/// 2025-01-01, in seconds since 1970.
const BEGIN: i64 = 1_735_689_600;

/// Seconds of 90 days.
const SECONDS: i64 = 90 * 86_400;

/// The longest time between two events of a visit, in seconds.
const LONGEST_GAP: i64 = 300;

const MICROSECONDS: i64 = 1_000_000;

/// Shares of the kinds in percent.
const KINDS: [(&str, i64); 5] = [
    ("view", 70),
    ("search", 15),
    ("cart", 9),
    ("purchase", 5),
    ("refund", 1),
];

const COUNTRIES: i64 = 40;

/// The generators of all tables at `scale`.
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    let events = ((ROWS * scale).round() as u64).max(1);
    let products = (events / 1_000).max(2 * FREQUENT as u64);
    let table = |is_prices| -> Box<dyn TableGenerator> {
        Box::new(Generator {
            is_prices,
            events,
            products,
        })
    };
    vec![table(false), table(true)]
}

/// The ten analyses.
pub fn queries() -> Vec<Query> {
    Query::all_from(include_str!("queries.sql"))
}

#[derive(Clone, Copy)]
struct Generator {
    is_prices: bool,
    events: u64,
    products: u64,
}

/// An event without its number.
struct Event {
    user: i64,
    country: i64,
    seconds: i64,
    kind: &'static str,
    product: i64,
    amount: Option<i128>,
}

impl Generator {
    fn event(&self, row: u64) -> Event {
        let random = |row| RowRandom::new(SEED, 0, row);
        let (visit, mut step) = (row / VISIT, row % VISIT);
        // The first event of a visit is never a repetition.
        let is_again = step > 0 && random(row).range(0, 0, 49) == 0;
        if is_again {
            step -= 1;
        }
        let first = visit * VISIT;
        let own = random(first + step);
        let of_visit = RowRandom::new(SEED, 1, visit);
        let user = of_visit.range(0, 0, (self.events / OF_USER) as i64);
        let gaps = (1..=step).map(|step| random(first + step).range(1, 1, LONGEST_GAP));
        let seconds = BEGIN + of_visit.range(1, 0, SECONDS - 1) + gaps.sum::<i64>();
        let mut percent = own.range(2, 0, 99);
        let (kind, _) = KINDS
            .into_iter()
            .find(|(_, share)| {
                percent -= share;
                percent < 0
            })
            .unwrap_or(KINDS[0]);
        let products = match own.range(3, 0, 1) {
            0 => FREQUENT,
            _ => self.products as i64,
        };
        Event {
            user,
            country: RowRandom::new(SEED, 2, user as u64).range(0, 0, COUNTRIES - 1),
            seconds,
            kind,
            product: own.range(4, 0, products - 1),
            amount: matches!(kind, "purchase" | "refund").then(|| own.range(5, 100, 50_000).into()),
        }
    }

    fn events(&self, range: Range<u64>) -> RecordBatch {
        let events: Vec<_> = range.clone().map(|row| self.event(row)).collect();
        let numbers = Int64Array::from_iter_values(range.map(|row| row as i64));
        let users = Int64Array::from_iter_values(events.iter().map(|event| event.user));
        let country = |event: &Event| format!("country {:02}", event.country);
        let countries = StringArray::from_iter_values(events.iter().map(country));
        let times = TimestampMicrosecondArray::from_iter_values(
            events.iter().map(|event| event.seconds * MICROSECONDS),
        );
        let kinds = StringArray::from_iter_values(events.iter().map(|event| event.kind));
        let products = Int32Array::from_iter_values(events.iter().map(|event| event.product as i32));
        let amounts = Decimal128Array::from_iter(events.iter().map(|event| event.amount));
        batch([
            ("event_id", Arc::new(numbers) as ArrayRef, false),
            ("user_id", Arc::new(users), false),
            ("country", Arc::new(countries), false),
            ("ts", Arc::new(times), false),
            ("kind", Arc::new(kinds), false),
            ("product_id", Arc::new(products), false),
            ("amount", money(amounts), true),
        ])
    }

    /// The versions of a product begin at the begin of the events, and then within one quarter each.
    fn prices(&self, range: Range<u64>) -> RecordBatch {
        // Long after the last event.
        let end = BEGIN + 10 * SECONDS;
        let begin = |row: u64| match row % VERSIONS {
            0 => BEGIN,
            version => {
                let quarter = SECONDS / VERSIONS as i64;
                let within = RowRandom::new(SEED, 3, row).range(0, 0, quarter - 1);
                BEGIN + version as i64 * quarter + within
            }
        };
        let until = |row: u64| match row % VERSIONS {
            last if last == VERSIONS - 1 => end,
            _ => begin(row + 1),
        };
        let rows = || range.clone();
        let products = Int32Array::from_iter_values(rows().map(|row| (row / VERSIONS) as i32));
        let from = TimestampMicrosecondArray::from_iter_values(rows().map(|row| begin(row) * MICROSECONDS));
        let to = TimestampMicrosecondArray::from_iter_values(rows().map(|row| until(row) * MICROSECONDS));
        let price = |row| i128::from(RowRandom::new(SEED, 3, row).range(1, 100, 50_000));
        let prices = Decimal128Array::from_iter_values(rows().map(price));
        batch([
            ("product_id", Arc::new(products) as ArrayRef, false),
            ("valid_from", Arc::new(from), false),
            ("valid_to", Arc::new(to), false),
            ("price", money(prices), false),
        ])
    }

    fn batch(&self, range: Range<u64>) -> RecordBatch {
        match self.is_prices {
            false => self.events(range),
            true => self.prices(range),
        }
    }
}

fn batch<const N: usize>(columns: [(&str, ArrayRef, bool); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Amounts as decimal(10, 2).
fn money(amounts: Decimal128Array) -> ArrayRef {
    let amounts = amounts.with_precision_and_scale(10, 2);
    Arc::new(amounts.expect("10 digits hold 50,000"))
}

impl TableGenerator for Generator {
    fn name(&self) -> &'static str {
        TABLES[usize::from(self.is_prices)]
    }

    fn schema(&self) -> SchemaRef {
        self.batch(0..0).schema()
    }

    fn expected_rows(&self) -> u64 {
        match self.is_prices {
            false => self.events,
            true => self.products * VERSIONS,
        }
    }

    fn natural_chunks(&self) -> usize {
        self.expected_rows().div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let generator = *self;
        let ranges = row_ranges(self.expected_rows(), (index, chunks), BATCH);
        Box::new(ranges.map(move |rows| generator.batch(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
    use std::collections::HashSet;

    fn whole(table: usize, chunks: usize) -> RecordBatch {
        let table = tables(0.01).swap_remove(table);
        let batches: Vec<_> = (0..chunks).flat_map(|chunk| table.chunk(chunk, chunks)).collect();
        concat_batches(&table.schema(), &batches).expect("one schema")
    }

    #[test]
    fn chunked_generation_matches_the_whole_table() {
        assert_eq!(whole(0, 1), whole(0, 3));
        assert_eq!(whole(1, 1), whole(1, 3));
    }

    #[test]
    fn events_have_the_documented_shares() {
        let events = whole(0, 1);
        assert_eq!(events.num_rows(), 100_000);
        let kinds = events.column_by_name("kind").expect("kind").as_string::<i32>();
        let bought = kinds.iter().filter(|kind| *kind == Some("purchase")).count();
        assert!((4_500..5_500).contains(&bought), "{bought}");
        let amounts = events.column_by_name("amount").expect("amount");
        assert!((93_000..95_000).contains(&amounts.null_count()));
        let users = events.column_by_name("user_id").expect("user_id");
        let users = users.as_primitive::<Int64Type>().values();
        let times = events.column_by_name("ts").expect("ts");
        let times = times.as_primitive::<TimestampMicrosecondType>().values();
        let distinct: HashSet<_> = users.iter().collect();
        assert!((1_500..1_700).contains(&distinct.len()), "{}", distinct.len());
        // Events of one visit with the time of the previous one were delivered again.
        let again = (1..events.num_rows())
            .filter(|row| times[*row] == times[row - 1])
            .count();
        assert!((1_500..2_100).contains(&again), "{again}");
    }

    #[test]
    fn versions_of_a_price_follow_each_other() {
        let prices = whole(1, 1);
        let column = |name: &str| {
            let column = prices.column_by_name(name).expect(name);
            column.as_primitive::<TimestampMicrosecondType>().values().clone()
        };
        let (from, to) = (column("valid_from"), column("valid_to"));
        for row in 0..prices.num_rows() {
            assert!(from[row] < to[row], "{row}");
            if row % VERSIONS as usize != VERSIONS as usize - 1 {
                assert_eq!(to[row], from[row + 1], "{row}");
            }
        }
    }

    #[test]
    fn queries_have_names_and_titles() {
        let queries = queries();
        assert_eq!(queries.len(), 10);
        assert!(
            queries
                .iter()
                .all(|query| !query.title.is_empty() && !query.sql.contains(';'))
        );
    }
}
