//! Replaces the data of DataFusion's repository: files with the same names and columns, and our own rows.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fmt::Display;
use std::fs;
use std::io::Result;
use std::path::Path;
use tpchgen::generators as tpch;

use datafusion::prelude::SessionContext;

/// Writes the files under `root`, which represents the repository.
pub(super) async fn write(root: &Path) -> Result<()> {
    aggregate_test(root)?;
    small_csv(root)?;
    windows(root)?;
    recursive_cte(root)?;
    tpch_files(root)?;
    parquet(root).await.map_err(std::io::Error::other)
}

fn lines(path: &Path, header: &str, rows: impl IntoIterator<Item = String>) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut text = String::new();
    for line in (!header.is_empty())
        .then(|| header.to_string())
        .into_iter()
        .chain(rows)
    {
        text.push_str(&line);
        text.push('\n');
    }
    fs::write(path, text)
}

/// The table that most files query: a hundred rows with every primitive type.
fn aggregate_test(root: &Path) -> Result<()> {
    let mut rng = SmallRng::seed_from_u64(100);
    let mut rows: Vec<String> = (0..100)
        .map(|_| {
            let text: String = (0..30)
                .map(|_| char::from(rng.random_range(b'0'..=b'z')))
                .collect();
            let text: String = text
                .chars()
                .map(|c| if c.is_alphanumeric() { c } else { 'Q' })
                .collect();
            format!(
                "{},{},{},{},{},{},{},{},{},{},{},{},{text}",
                ["a", "b", "c", "d", "e"].choose(&mut rng).expect("not empty"),
                rng.random_range(1..=5),
                rng.random::<i8>(),
                rng.random::<i16>(),
                rng.random::<i32>(),
                rng.random::<i64>(),
                rng.random::<u8>(),
                rng.random::<u16>(),
                rng.random::<u32>(),
                rng.random::<u64>(),
                rng.random::<f32>(),
                rng.random::<f64>(),
            )
        })
        .collect();
    let header = "c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13";
    lines(
        &root.join("testing/data/csv/aggregate_test_100.csv"),
        header,
        rows.clone(),
    )?;
    let dated = rows.iter().enumerate().map(|(i, row)| {
        let day = 1 + i % 28;
        format!(
            "{row},2024-{:02}-{day:02},2024-{:02}-{day:02}T0{}:30:00",
            1 + i % 12,
            1 + i % 7,
            i % 10
        )
    });
    let with_dates = root.join("testing/data/csv/aggregate_test_100_with_dates.csv");
    lines(
        &with_dates,
        &format!("{header},c14,c15"),
        dated.collect::<Vec<_>>(),
    )?;
    rows.sort();
    let data = root.join("datafusion/core/tests/data");
    lines(&data.join("aggregate_test_100_order_by_c1_asc.csv"), header, rows)
}

fn small_csv(root: &Path) -> Result<()> {
    let data = root.join("datafusion/core/tests/data");
    let write = |name: &str, header: &str, rows: &[&str]| {
        lines(&data.join(name), header, rows.iter().map(ToString::to_string))
    };
    let simple = [
        "0.00001,0.000000000001,true",
        "0.00002,0.000000000002,false",
        "0.00002,0.000000000002,false",
        "0.00003,0.000000000003,true",
        "0.00004,0.000000000004,false",
        "0.00004,0.000000000004,false",
    ];
    write("aggregate_simple.csv", "c1,c2,c3", &simple)?;
    let piped = simple.map(|row| row.replace(',', "|"));
    lines(&data.join("aggregate_simple_pipe.csv"), "c1|c2|c3", piped)?;
    write("empty.csv", "c1,c2", &[])?;
    write("example.csv", "a,b,c", &["1,2,3", "4,5,6"])?;
    write(
        "quote.csv",
        "c1,c2",
        &["~id0~,~value0~", "~id1~,~value,1~", "~id2~,value2"],
    )?;
    write(
        "double_quote.csv",
        "c1,c2",
        &["id0,\"value \"\"0\"\"\"", "id1,\"value,1\""],
    )?;
    write(
        "escape.csv",
        "c1,c2",
        &["id0,\"value\\\"0\"", "id1,\"value\\\"1\""],
    )?;
    write(
        "newlines_in_values.csv",
        "id,message",
        &["1,\"hello\nworld\"", "2,\"something\nelse\"", "3,plain"],
    )?;
    fs::write(
        data.join("cr_terminator.csv"),
        "id,message\rid0,value0\rid1,value1\r",
    )?;
    write(
        "convert_first_last.csv",
        "c1,c2,c3",
        &["1,9,0", "2,8,1", "3,7,2", "4,6,3", "5,5,4"],
    )?;
    write(
        "timestamps.csv",
        "",
        &[
            "Jorge,2018-12-13T12:12:10.011",
            "Andrew,2018-11-13T17:11:10.011",
            "Max,2019-01-01T00:00:00",
        ],
    )?;
    write(
        "partitioned_table/c_date=2018-11-13/timestamps.csv",
        "",
        &["Andrew,2018-11-13T17:11:10.011"],
    )?;
    write(
        "partitioned_table/c_date=2018-12-13/timestamps.csv",
        "",
        &["Jorge,2018-12-13T12:12:10.011"],
    )?;
    write(
        "int_to_float_cast_precision.csv",
        "k,v",
        &["1,16777217", "2,16777216", "3,16777215"],
    )?;
    for partition in 0..4 {
        let rows = (0..=10).map(|i| format!("{partition},{i},{}", i % 2 == 0));
        lines(
            &data.join(format!("partitioned_csv/partition-{partition}.csv")),
            "",
            rows,
        )?;
    }
    let mut rng = SmallRng::seed_from_u64(7);
    let decimals = (0..15).map(|i: i64| {
        let value = i % 5 + 1;
        format!("0.0000{value},0.{value:012},{i},{},0.0000{value}", i % 2 == 0)
    });
    lines(&data.join("decimal_data.csv"), "c1,c2,c3,c4,c5", decimals)?;
    let mut nullable = |of: i32| match rng.random_range(0..4) {
        0 => String::new(),
        _ => rng.random_range(0..of).to_string(),
    };
    let nulls: Vec<_> = (0..100)
        .map(|_| format!("{},{},{}", nullable(100), nullable(20), nullable(9)))
        .collect();
    lines(&data.join("null_cases.csv"), "c1,c2,c3", nulls)?;
    let ordered = (0..10).map(|i| format!("{},{},{}", i + 1, i / 2, i * 10));
    lines(&data.join("aggregate_agg_multi_order.csv"), "c1,c2,c3", ordered)?;
    write(
        "2.json",
        "",
        &[
            r#"{"a":1, "b":[2.0, 1.3, -6.1], "c":[false, true], "d":"4"}"#,
            r#"{"a":-10, "b":[2.0, null, -6.1], "c":null, "d":"text"}"#,
            r#"{"a":2, "b":null, "c":[null, true], "d":null}"#,
        ],
    )?;
    write("3.json", "", &[r#"{"mycol": null}"#])?;
    write(
        "json_array.json",
        "",
        &[r#"[{"a": 1, "b": "hello"}, {"a": 2, "b": "world"}, {"a": 3, "b": "test"}]"#],
    )?;
    for part in 1..=2 {
        let row = format!("{{\"id\": {part}, \"value\": \"text {part}\"}}");
        lines(
            &data.join(format!("partitioned_table_json/part={part}/data.json")),
            "",
            [row],
        )?;
    }
    Ok(())
}

/// Tables that are declared as sorted, and are sorted.
fn windows(root: &Path) -> Result<()> {
    let data = root.join("datafusion/core/tests/data");
    let mut rng = SmallRng::seed_from_u64(2);
    let two = (0..100).map(|i| format!("1,{},{},{i},{}", i / 50, i / 25, rng.random_range(0..5)));
    lines(&data.join("window_2.csv"), "a0,a,b,c,d", two.collect::<Vec<_>>())?;
    let (mut ts, mut up, mut down) = (0, 0, 100);
    let one = (0..100).map(|_| {
        ts += rng.random_range(1..4);
        up += rng.random_range(1..6);
        down -= rng.random_range(1..6);
        format!("{ts},{up},{down}")
    });
    lines(
        &data.join("window_1.csv"),
        "ts,inc_col,desc_col",
        one.collect::<Vec<_>>(),
    )
}

fn recursive_cte(root: &Path) -> Result<()> {
    let data = root.join("datafusion/core/tests/data/recursive_cte");
    let tables: [(&str, &str, &[&str]); 6] = [
        (
            "balance.csv",
            "time,name,account_balance",
            &["1,John,100", "1,Tim,200", "2,John,300", "2,Tim,400"],
        ),
        (
            "growth.csv",
            "name,account_growth",
            &["John,3", "Tim,20", "Eliza,150"],
        ),
        (
            "prices.csv",
            "Index,product,price,prices_row_num",
            &[
                "1,Holden,334.8,1",
                "2,Holden,130.2,2",
                "3,Ford,92.4,3",
                "4,Ford,12.6,4",
            ],
        ),
        (
            "sales.csv",
            "region_id,salesperson_id,sale_amount",
            &["101,1,1000", "102,2,500", "101,2,700", "103,3,800"],
        ),
        (
            "salespersons.csv",
            "salesperson_id,manager_id,quota",
            &["1,,1000", "2,1,500", "3,2,800"],
        ),
        ("closure.csv", "start,end", &["1,2", "2,3", "2,4", "2,4", "4,1"]),
    ];
    for (name, header, rows) in tables {
        lines(&data.join(name), header, rows.iter().map(ToString::to_string))?;
    }
    Ok(())
}

/// TPC-H, much smaller than the data that the files were written for.
fn tpch_files(root: &Path) -> Result<()> {
    const SCALE: f64 = 0.002;
    fn table(path: &Path, header: &str, rows: impl Iterator<Item = impl Display>) -> Result<()> {
        lines(path, header, rows.map(|row| row.to_string()))
    }
    let tables = root.join("datafusion/sqllogictest/test_files/tpch/data");
    table(
        &tables.join("nation.tbl"),
        "",
        tpch::NationGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("region.tbl"),
        "",
        tpch::RegionGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("part.tbl"),
        "",
        tpch::PartGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("supplier.tbl"),
        "",
        tpch::SupplierGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("partsupp.tbl"),
        "",
        tpch::PartSuppGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("customer.tbl"),
        "",
        tpch::CustomerGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("orders.tbl"),
        "",
        tpch::OrderGenerator::new(SCALE, 1, 1).iter(),
    )?;
    table(
        &tables.join("lineitem.tbl"),
        "",
        tpch::LineItemGenerator::new(SCALE, 1, 1).iter(),
    )?;

    use tpchgen::csv::{CustomerCsv, LineItemCsv, OrderCsv, PartCsv};
    let csv = root.join("datafusion/core/tests/tpch-csv");
    let part = tpch::PartGenerator::new(SCALE, 1, 1);
    table(
        &csv.join("part.csv"),
        PartCsv::header(),
        part.iter().take(50).map(PartCsv::new),
    )?;
    let customer = tpch::CustomerGenerator::new(SCALE, 1, 1);
    table(
        &csv.join("customer.csv"),
        CustomerCsv::header(),
        customer.iter().take(50).map(CustomerCsv::new),
    )?;
    let orders = tpch::OrderGenerator::new(SCALE, 1, 1);
    table(
        &csv.join("orders.csv"),
        OrderCsv::header(),
        orders.iter().take(50).map(OrderCsv::new),
    )?;
    let items = tpch::LineItemGenerator::new(SCALE, 1, 1);
    table(
        &csv.join("lineitem.csv"),
        LineItemCsv::header(),
        items.iter().take(50).map(LineItemCsv::new),
    )
}

/// Parquet files, by their path and the query that creates them.
const PARQUET: &[(&str, &str)] = &[
    (
        "parquet-testing/data/alltypes_plain.parquet",
        "SELECT CAST(id AS INT) AS id, id % 2 = 0 AS bool_col, CAST(id % 2 AS INT) AS tinyint_col, \
         CAST(id % 2 AS INT) AS smallint_col, CAST(id % 2 AS INT) AS int_col, id % 2 * 10 AS bigint_col, \
         CAST(id % 2 * 1.1 AS FLOAT) AS float_col, CAST(id % 2 * 10.1 AS DOUBLE) AS double_col, \
         arrow_cast(CASE WHEN id < 6 THEN '03/01/09' ELSE '01/01/09' END, 'Binary') AS date_string_col, \
         arrow_cast(CAST(id % 2 AS VARCHAR), 'Binary') AS string_col, \
         arrow_cast(to_timestamp(1230768000 + id * 60), 'Timestamp(Nanosecond, None)') AS timestamp_col \
         FROM generate_series(0, 7) AS t(id)",
    ),
    (
        "parquet-testing/data/alltypes_tiny_pages.parquet",
        "SELECT CAST(id AS INT) AS id, id % 2 = 0 AS bool_col, CAST(id % 10 AS INT) AS int_col, id % 10 * 10 AS bigint_col, \
         CAST(id % 10 * 1.1 AS FLOAT) AS float_col, CAST(id % 31 AS VARCHAR) AS string_col FROM generate_series(0, 7299) AS t(id)",
    ),
    (
        "parquet-testing/data/single_nan.parquet",
        "SELECT CAST(NULL AS DOUBLE) AS mycol",
    ),
    (
        "parquet-testing/data/list_columns.parquet",
        "SELECT * FROM (VALUES ([1, 2, 3], ['abc', 'efg', 'hij']), ([NULL, 1], NULL), ([4], ['efg', NULL, 'hij', 'xyz'])) \
         AS t(int64_list, utf8_list)",
    ),
    (
        "parquet-testing/data/data_index_bloom_encoding_stats.parquet",
        "SELECT * FROM (VALUES ('Hello'), ('This is'), ('a'), ('test'), ('How'), ('are you'), ('doing '), ('today')) AS t(\"String\")",
    ),
    (
        "parquet-testing/data/int96_from_spark.parquet",
        "SELECT to_timestamp_micros(i * 86400000000) AS a FROM generate_series(1, 5) AS t(i)",
    ),
    (
        "datafusion/core/tests/data/timestamp_with_tz.parquet",
        "SELECT CAST(i AS INT) AS count, arrow_cast(to_timestamp(1700000000 + i), 'Timestamp(Microsecond, Some(\"UTC\"))') AS timestamp \
         FROM generate_series(1, 2000) AS t(i)",
    ),
    (
        "datafusion/core/tests/data/test_binary.parquet",
        "SELECT arrow_cast(column1, 'Binary') AS ids FROM (VALUES ('a'), ('bc'), (NULL))",
    ),
    (
        "datafusion/core/tests/data/parquet_map.parquet",
        "SELECT MAP {'bytes': i * 31, 'other': NULL} AS ints, MAP {'host': CAST(i % 9 AS VARCHAR), 'method': 'GET'} AS strings, \
         '2024-01-01T00:00:00Z' AS timestamp FROM generate_series(1, 209) AS t(i)",
    ),
    (
        "datafusion/core/tests/data/fixed_size_list_array.parquet",
        "SELECT arrow_cast([i, i + 1], 'FixedSizeList(2, Int64)') AS f0 FROM generate_series(1, 2) AS t(i)",
    ),
    (
        "datafusion/core/tests/data/clickbench_hits_10.parquet",
        "SELECT i * 4611686018427387 % 1000000007 AS \"WatchID\", CAST(i % 2 AS SMALLINT) AS \"JavaEnable\", \
         CASE WHEN i % 3 = 0 THEN '' ELSE concat('title ', i % 7) END AS \"Title\", \
         1373872581 + i * 7 AS \"EventTime\", arrow_cast(15901 + i % 3, 'UInt16') AS \"EventDate\", \
         CAST(62 - i % 2 AS INT) AS \"CounterID\", CAST(1615432634 - i % 5 AS INT) AS \"ClientIP\", \
         CAST(229 - i % 4 AS INT) AS \"RegionID\", i % 6 * 435090932899640449 AS \"UserID\", \
         concat('http://', CASE WHEN i % 2 = 0 THEN 'google.' ELSE '' END, 'host', i % 8, '/path') AS \"URL\", \
         CASE WHEN i % 4 = 0 THEN '' ELSE concat('https://www.site', i % 5, '.ru/x') END AS \"Referer\", \
         CAST(i % 2 AS SMALLINT) AS \"IsRefresh\", CAST(1000 + i % 9 * 100 AS SMALLINT) AS \"ResolutionWidth\", \
         CAST(i % 3 AS SMALLINT) AS \"MobilePhone\", CASE WHEN i % 3 = 0 THEN '' ELSE concat('phone ', i % 2) END AS \"MobilePhoneModel\", \
         CAST(i % 4 AS SMALLINT) AS \"AdvEngineID\", CAST(i % 5 AS SMALLINT) AS \"SearchEngineID\", \
         CASE WHEN i % 2 = 0 THEN '' ELSE concat('phrase ', i % 3) END AS \"SearchPhrase\", CAST(i % 2 AS SMALLINT) AS \"DontCountHits\", \
         CAST(i % 3 - 1 AS SMALLINT) AS \"TraficSourceID\", CAST(i % 2 AS SMALLINT) AS \"IsLink\", CAST(i % 2 AS SMALLINT) AS \"IsDownload\", \
         i * 2868770270353813622 % 1000003 AS \"URLHash\", 3594120000172545465 - i % 2 AS \"RefererHash\", \
         CAST(i % 900 AS SMALLINT) AS \"WindowClientWidth\", CAST(i % 600 AS SMALLINT) AS \"WindowClientHeight\", \
         CAST(i * 100 AS INT) AS \"ResponseStartTiming\", 'E' AS \"HitColor\", concat('l', i % 2) AS \"BrowserLanguage\", \
         concat('c', i % 3) AS \"BrowserCountry\", '' AS \"SocialNetwork\", '' AS \"SocialAction\", \
         CAST(i % 2 AS SMALLINT) AS \"SocialSourceNetworkID\", i AS \"ParamPrice\", '' AS \"UTMSource\", '' AS \"UTMCampaign\", \
         CAST(i % 2 AS SMALLINT) AS \"IsMobile\", CAST(3 AS SMALLINT) AS \"ClientTimeZone\", CAST(i % 40 AS SMALLINT) AS \"Age\" \
         FROM generate_series(0, 199) AS t(i)",
    ),
];

async fn parquet(root: &Path) -> datafusion::error::Result<()> {
    let ctx = SessionContext::new();
    let copy = async |path: &str, query: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        let sql = format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display());
        ctx.sql(&sql).await?.collect().await
    };
    for (path, query) in PARQUET {
        copy(path, query).await?;
    }
    for day in 1..=4 {
        let path = format!(
            "datafusion/core/tests/data/test_statistics_per_partition/date=2025-03-0{day}/rows.parquet"
        );
        copy(&path, &format!("SELECT CAST({day} AS INT) AS id")).await?;
    }
    Ok(())
}
