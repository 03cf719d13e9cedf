//! The fact table: orders of one to seven lines.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Builder, Int64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, SchemaRef};

use super::super::generate::{ROWS_PER_CHUNK, TableGenerator};
use super::super::random::RowRandom;
use super::dimensions::{chunk_of, date_key, schema};
use super::{Rows, SEED, Stream, part_price};

const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
const MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];

/// Mean number of lines of an order.
const LINES: u64 = 4;

/// Number of orders of one batch.
const ORDERS_PER_BATCH: u64 = 8 * 1024;

/// The last day of orders: 1998-08-02, as in TPC-H, so that all commit dates are in the calendar.
const LAST_ORDER_DAY: i64 = 2405;

pub(super) struct LineOrder {
    pub(super) rows: Rows,
}

fn columns() -> [(&'static str, DataType); 17] {
    use DataType::{Int32, Int64, Utf8};
    [
        ("lo_orderkey", Int64),
        ("lo_linenumber", Int32),
        ("lo_custkey", Int64),
        ("lo_partkey", Int64),
        ("lo_suppkey", Int64),
        ("lo_orderdate", Int32),
        ("lo_orderpriority", Utf8),
        ("lo_shippriority", Utf8),
        ("lo_quantity", Int32),
        ("lo_extendedprice", Int64),
        ("lo_ordtotalprice", Int64),
        ("lo_discount", Int32),
        ("lo_revenue", Int64),
        ("lo_supplycost", Int64),
        ("lo_tax", Int32),
        ("lo_commitdate", Int32),
        ("lo_shipmode", Utf8),
    ]
}

impl TableGenerator for LineOrder {
    fn name(&self) -> &'static str {
        "lineorder"
    }

    fn schema(&self) -> SchemaRef {
        schema(&columns())
    }

    fn expected_rows(&self) -> u64 {
        self.rows.orders * LINES
    }

    fn natural_chunks(&self) -> usize {
        self.expected_rows().div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let rows = self.rows;
        let orders = chunk_of(rows.orders, index, chunks);
        let schema = self.schema();
        let starts = orders.clone().step_by(ORDERS_PER_BATCH as usize);
        Box::new(starts.map(move |start| {
            let orders = start..orders.end.min(start + ORDERS_PER_BATCH);
            lines(rows, orders, &schema)
        }))
    }
}

/// One line, before the total of its order is known.
struct Line {
    random: RowRandom,
    part: i64,
    quantity: i64,
    price: i64,
    discount: i64,
    tax: i64,
}

impl Line {
    fn new(rows: Rows, order: u64, number: u64) -> Self {
        let random = RowRandom::new(SEED, Stream::Line as u64, order * 8 + number);
        let part = random.range(0, 1, rows.parts as i64);
        let quantity = random.range(1, 1, 50);
        Self {
            random,
            part,
            quantity,
            price: quantity * part_price(part),
            discount: random.range(2, 0, 10),
            tax: random.range(3, 0, 8),
        }
    }

    /// Price with discount and tax, in cents, rounded down.
    fn total(&self) -> i64 {
        self.price * (100 - self.discount) * (100 + self.tax) / 10_000
    }
}

fn lines(rows: Rows, orders: Range<u64>, schema: &SchemaRef) -> RecordBatch {
    let mut ints: [Int32Builder; 6] = std::array::from_fn(|_| Int32Builder::new());
    let mut longs: [Int64Builder; 8] = std::array::from_fn(|_| Int64Builder::new());
    let mut texts: [StringBuilder; 3] = std::array::from_fn(|_| StringBuilder::new());
    for order in orders {
        let random = RowRandom::new(SEED, Stream::Order as u64, order);
        let day = random.range(0, 0, LAST_ORDER_DAY);
        let priority = random.choose(1, &PRIORITIES);
        let customer = random.range(2, 1, rows.customers as i64);
        let count = random.range(3, 1, 7) as u64;
        let lines: Vec<Line> = (1..=count).map(|number| Line::new(rows, order, number)).collect();
        let total = lines.iter().map(Line::total).sum();
        for (line, number) in lines.iter().zip(1..) {
            let commit = day + line.random.range(4, 30, 90);
            let supplier = line.random.range(5, 1, rows.suppliers as i64);
            let revenue = line.price * (100 - line.discount) / 100;
            let cost = part_price(line.part) * 6 / 10;
            let orderdate = date_key(day as u64) as i32;
            let values = [
                number,
                orderdate,
                line.quantity as i32,
                line.discount as i32,
                line.tax as i32,
                date_key(commit as u64) as i32,
            ];
            ints.iter_mut()
                .zip(values)
                .for_each(|(column, value)| column.append_value(value));
            let values = [
                order as i64 + 1,
                customer,
                line.part,
                supplier,
                line.price,
                total,
                revenue,
                cost,
            ];
            longs
                .iter_mut()
                .zip(values)
                .for_each(|(column, value)| column.append_value(value));
            let values = [priority, "0", line.random.choose(6, &MODES)];
            texts
                .iter_mut()
                .zip(values)
                .for_each(|(column, value)| column.append_value(value));
        }
    }
    let [number, orderdate, quantity, discount, tax, commitdate] =
        ints.map(|mut c| Arc::new(c.finish()) as ArrayRef);
    let [order, customer, part, supplier, price, total, revenue, cost] =
        longs.map(|mut c| Arc::new(c.finish()) as ArrayRef);
    let [priority, shippriority, mode] = texts.map(|mut c| Arc::new(c.finish()) as ArrayRef);
    let columns = vec![
        order,
        number,
        customer,
        part,
        supplier,
        orderdate,
        priority,
        shippriority,
        quantity,
        price,
        total,
        discount,
        revenue,
        cost,
        tax,
        commitdate,
        mode,
    ];
    RecordBatch::try_new(schema.clone(), columns).expect("columns in the schema's order and of one length")
}
