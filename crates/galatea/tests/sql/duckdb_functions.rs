//! Functions and operators of DuckDB that DataFusion lacks. The answers are DuckDB's, and the same on the CPU
//! and on the emulated device.

use crate::front::Both;

/// A table n of numbers, strings, dates and times, with a row of NULLs.
async fn tables() -> Both {
    let both = Both::new();
    for sql in [
        "CREATE TABLE n(i BIGINT, f DOUBLE, s VARCHAR, day DATE, ts TIMESTAMP) AS VALUES
           (7, 7.5, 'hello', DATE '2024-01-31', TIMESTAMP '2024-01-31 10:00:00'),
           (-7, -0.25, 'héé', DATE '2024-02-29', TIMESTAMP '2024-02-29 09:59:59.5'),
           (0, 1e20, '', DATE '1999-12-25', TIMESTAMP '1999-12-25 23:00:00'),
           (NULL, NULL, NULL, NULL, NULL)",
        "CREATE TABLE nothing(i BIGINT, s VARCHAR)",
    ] {
        both.run(sql).await;
    }
    both
}

/// Queries and their rows.
async fn check(both: &Both, queries: &[(&str, &str)]) {
    for (sql, expected) in queries {
        both.answers(sql, expected).await;
    }
}

#[tokio::test]
async fn integers_are_divided_and_inverted() {
    let both = tables().await;
    check(
        &both,
        &[
            (
                "SELECT 7 // 2, -7 // 2, 7 // -2, -6 // 2, 7 // NULL",
                "3 -3 -3 -3 NULL",
            ),
            ("SELECT 7 // 2 * 3, 12 // 2 // 3, 1 + 7 // 2", "9 2 4"),
            ("SELECT i // 2 FROM n ORDER BY i", "-3; 0; 3; NULL"),
            ("SELECT ~5, ~0, ~(-1), ~NULL", "-6 -1 0 NULL"),
            (
                "SELECT ~i, -(~i), ~(~i) FROM n ORDER BY i",
                "6 -6 -7; -1 1 0; -8 8 7; NULL NULL NULL",
            ),
            ("SELECT sum(~i) FROM nothing", "NULL"),
        ],
    )
    .await;
    both.refuses("SELECT 1 // 0", "division by zero").await;
    both.columns("SELECT i // 2, ~i FROM n", "i // 2 ~i").await;
}

#[tokio::test]
async fn positions_of_lists_and_strings() {
    let both = tables().await;
    check(
        &both,
        &[
            (
                "SELECT [1, 2, 3][2:], [1, 2, 3][:2], [1, 2, 3][:], [1, 2, 3][-2:], [1, 2, 3][:-2]",
                "[2, 3] [1, 2] [1, 2, 3] [2, 3] [1, 2]",
            ),
            (
                "SELECT [1, 2, 3][4:], [1, 2, 3][:0], [[1, 2], [3]][2:][1]",
                "[] [] [3]",
            ),
            (
                "SELECT l[2:] FROM (VALUES ([1, 2, 3]), ([4]), (NULL)) v(l)",
                "[2, 3]; []; NULL",
            ),
            (
                "SELECT 'hello'[1], 'hello'[-1], 'hello'[0], 'hello'[9], 'hello'[-9]",
                "h o   ",
            ),
            (
                "SELECT 'hello'[2:3], 'hello'[2:], 'hello'[:2], 'hello'[-2:], 'hello'[:-2], 'hello'[2:-2]",
                "el ello he lo hell ell",
            ),
            (
                "SELECT 'hello'[3:2] || '|', 'hello'[:], 'hello'[0:2], 'hello'[-9:2], 'hello'[2:99]",
                "| hello he he ello",
            ),
            (
                "SELECT s[2], s[-1], s[2:], s[:-2] FROM n WHERE i IN (7, -7) ORDER BY i",
                "é é éé hé; e o ello hell",
            ),
            ("SELECT s[1] FROM n WHERE i IS NULL OR i = 0 ORDER BY i", "; NULL"),
            ("SELECT s[i - 5], s[i - 8] FROM n WHERE i = 7", "e o"),
        ],
    )
    .await;
}

#[tokio::test]
async fn quantiles_and_modes_are_values() {
    let both = tables().await;
    let four = "(VALUES (1), (2), (3), (4)) v(x)";
    let groups = "(VALUES ('a', 3), ('a', 1), ('a', 1), ('b', 2), ('b', 5), ('c', NULL)) v(g, x)";
    for (sql, expected) in [
        (format!("SELECT quantile_disc(x, 0.5), quantile_disc(x, 0.25), quantile_disc(x, 0), quantile_disc(x, 1), quantile_disc(x, 0.51) FROM {four}"), "2 1 1 4 3"),
        (format!("SELECT quantile_disc(x, [0.25, 0.75]), quantile(x, 0.5), quantile_disc(x, -0.25) FROM {four}"), "[1, 3] 2 4"),
        (format!("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x DESC), percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM {four}"), "3 2"),
        (format!("SELECT quantile_disc(x, 0.5) FILTER (WHERE x > 1) FROM {four}"), "3"),
        ("SELECT quantile_disc(DISTINCT x, 0.5) FROM (VALUES (1), (1), (1), (4)) v(x)".to_owned(), "1"),
        (format!("SELECT quantile_disc(x, 0.5) OVER (ORDER BY x) FROM {four} ORDER BY x"), "1; 1; 2; 2"),
        (format!("SELECT g, quantile_disc(x, 0.5) FROM {groups} GROUP BY g ORDER BY g"), "a 1; b 2; c NULL"),
        ("SELECT quantile_disc(s, 0.5), quantile_disc(i, 0.9) FROM nothing".to_owned(), "NULL NULL"),
        ("SELECT quantile_disc(s, 0.5), quantile_disc(day, 0.9) FROM n".to_owned(), "hello 2024-02-29"),
        (format!("SELECT g, mode(x) FROM {groups} GROUP BY g ORDER BY g"), "a 1; b 2; c NULL"),
        (format!("SELECT mode(x), mode(g), mode(x) FILTER (WHERE x > 1), mode() WITHIN GROUP (ORDER BY x) FROM {groups}"), "1 a 2 1"),
        (format!("SELECT mode(DISTINCT x) FROM {groups} WHERE g = 'b'"), "2"),
        ("SELECT mode(i), mode(s) FROM nothing".to_owned(), "NULL NULL"),
        ("SELECT mode(v % 7) FROM (SELECT CASE WHEN value % 2 = 0 THEN 3 ELSE value END AS v FROM generate_series(1, 10000))".to_owned(), "3"),
    ] {
        both.answers(&sql, expected).await;
    }
    both.refuses(
        "SELECT quantile_disc(i, 1.5) FROM n",
        "needs a number from 0 to 1",
    )
    .await;
    both.refuses("SELECT quantile_disc(i, f) FROM n", "needs a number from 0 to 1")
        .await;
    both.refuses("SELECT quantile_disc(i) FROM n", "needs a value and a fraction")
        .await;
}

#[tokio::test]
async fn lists_are_aggregated() {
    let both = tables().await;
    check(
        &both,
        &[
            ("SELECT list_aggregate([1, 2, 3], 'sum'), list_aggregate([1, NULL, 3], 'count'), list_aggregate([1, 2], 'avg')", "6 2 1.5"),
            ("SELECT list_aggregate([2, 1], 'min'), list_aggregate([1, 2, 2], 'mode'), list_aggregate([3, 1, 2], 'median'), list_aggregate([1, 2], 'first')", "1 2 2.0 1"),
            ("SELECT list_aggr(['a', NULL, 'b'], 'string_agg', '-'), list_aggregate([true, false], 'bool_and')", "a-b false"),
            ("SELECT list_aggregate(l, 'sum'), list_count(l) FROM (VALUES ([1, 2]), ([3]), (NULL), ([NULL])) v(l)", "3 2; 3 1; NULL NULL; NULL 0"),
            ("SELECT list_median([3, 1, 2]), list_avg([1, 2]), list_min([2, 1]), list_max([1, 2]), list_var_pop([1, 3])", "2.0 1.5 1 2 1.0"),
            ("SELECT list_aggregate([1.5, 2.5], 'sum'), list_aggregate(['b', 'a'], 'max')", "4.0 b"),
        ],
    )
    .await;
    both.refuses("SELECT list_aggregate([1], 'foo')", "no aggregate function foo")
        .await;
    both.refuses(
        "SELECT list_aggregate([1], s) FROM n",
        "must be the name of an aggregate function",
    )
    .await;
    both.refuses("SELECT list_aggregate(1, 'sum')", "takes a list")
        .await;
}

#[tokio::test]
async fn strings_are_split_stripped_and_hashed() {
    let both = tables().await;
    check(
        &both,
        &[
            ("SELECT regexp_split_to_array('a1b22c', '[0-9]+'), regexp_split_to_array('abc', ''), regexp_split_to_array('abc', 'x')", "[a, b, c] [a, b, c] [abc]"),
            ("SELECT regexp_split_to_array('a,,b,', ','), string_split_regex('a b  c', ' +'), regexp_split_to_array('aXbxc', 'x', 'i')", "[a, , b, ] [a, b, c] [a, b, c]"),
            ("SELECT array_length(regexp_split_to_array('', ',')), regexp_split_to_array(NULL, ','), regexp_split_to_array('1a2', '^|a')", "1 NULL [1, , 2]"),
            ("SELECT regexp_split_to_array(s, 'l+') FROM n WHERE i IS NULL OR i = 7 ORDER BY i", "[he, o]; NULL"),
            ("SELECT strip_accents('Älphä éñç ß ø Å ﬁ'), strip_accents(NULL), strip_accents('')", "Alpha enc ß ø A ﬁ NULL "),
            ("SELECT strip_accents(s) FROM n ORDER BY i", "hee; ; hello; NULL"),
            ("SELECT hash(1) = hash(1), hash(1) = hash(2), hash('a') = hash('b'), hash(1, 2) = hash(2, 1), hash(NULL) IS NULL, arrow_typeof(hash(1))", "true false false false false UInt64"),
            ("SELECT count(DISTINCT hash(s, i)), count(hash(s)) FROM n", "4 4"),
            ("SELECT count(*) FROM n WHERE hash(s) = hash('hello')", "1"),
        ],
    )
    .await;
    both.refuses(
        "SELECT regexp_split_to_array('a', '(')",
        "cannot read the pattern (",
    )
    .await;
    both.refuses("SELECT regexp_split_to_array('a', 'b', 'z')", "no option z")
        .await;
    both.refuses("SELECT strip_accents(1)", "takes a string").await;
    both.refuses("SELECT hash()", "takes one value or more").await;
}

#[tokio::test]
async fn values_are_formatted() {
    let both = tables().await;
    check(
        &both,
        &[
            ("SELECT format('{} and {}', 1, 'x'), format('{1} {0}', 'a', 'b'), format('{:.2f}', 3.14159), format('{{}}')", "1 and x b a 3.14 {}"),
            ("SELECT format('{:>5}|{:<5}|{:^5}|', 'a', 'b', 'c'), format('{:05d}', 42), format('{:05}', -42)", "    a|b    |  c  | 00042 -0042"),
            ("SELECT format('{:x} {:X} {:b} {:o} {:#x} {:#b} {:x}', 255, 255, 5, 8, 255, 5, -255)", "ff FF 101 10 0xff 0b101 -ff"),
            ("SELECT format('{:e} {:E} {:g} {:g} {:g} {:.3g} {:#g}', 12345.678, 12345.678, 1e10, 100000.0, 0.00001234, 1234.5, 1.5)", "1.234568e+04 1.234568E+04 1e+10 100000 1.234e-05 1.23e+03 1.50000"),
            ("SELECT format('{} {} {} {} {} {}', 1.0, 1e20, 1e-7, 1e15, 1e16, 0.0001)", "1.0 1e+20 1e-07 1000000000000000.0 1e+16 0.0001"),
            ("SELECT format('{:,}', 1234567), format('{:t_}', -1234567), format('{:,.2f}', 1234567.891), format('{:10,}|', 12345)", "1,234,567 -1_234_567 1,234,567.89     12,345|"),
            ("SELECT format('{:+d} {: } {:=+5}| {:*^9} {:.3}', 5, 42, 42, 'mid', 'abcdef')", "+5  42 +  42| ***mid*** abc"),
            ("SELECT format('{} {:d} {} {}', true, true, DATE '2020-01-01', TIMESTAMP '2020-01-01 10:00:00')", "true 1 2020-01-01 2020-01-01 10:00:00"),
            ("SELECT format('{}', NULL), format(NULL, 1), format('{}', 1, 2)", "NULL NULL 1"),
            ("SELECT format('{}:{}:{}', i, s, f) FROM n ORDER BY i", "-7:héé:-0.25; 0::1e+20; 7:hello:7.5; NULL"),
            ("SELECT format(s || ' {}', i) FROM n WHERE i = 7", "hello 7"),
            ("SELECT printf('%d and %s', 1, 'x'), printf('%5.2f|', 3.14159), printf('%05d', 42), printf('%-5s|%5s|', 'a', 'b'), printf('100%%')", "1 and x  3.14| 00042 a    |    b| 100%"),
            ("SELECT printf('%x %X %o %#x %x', 255, 255, 8, 255, -255), printf('%c', 65), printf('%+d|% d', 5, 5), printf('%,d', 1234567)", "ff FF 10 0xff ffffffffffffff01 A +5| 5 1,234,567"),
            ("SELECT printf('%e %.2e %g %G', 12345.678, 12345.678, 0.0001, 1e-10), printf('%2$s %1$s', 'a', 'b'), printf('%.3s|', 'abcdef'), printf('%lld %i', 3, 4)", "1.234568e+04 1.23e+04 0.0001 1E-10 b a abc| 3 4"),
            ("SELECT printf('%f %.0f %05.1f', 1.5, 2.5, 2.25), printf('%s %d', true, true), printf('%s', DATE '2020-01-01'), printf('%d', NULL)", "1.500000 2 002.2 true 1 2020-01-01 NULL"),
            ("SELECT format('{}', s) FROM nothing", ""),
        ],
    )
    .await;
    for (call, message) in [
        ("format('{}')", "no argument 1, as there are 0"),
        ("format('{:d}', 'a')", "the letter d is not a notation of strings"),
        ("format('{:.2f}', 3)", "an integer has no precision"),
        ("format('{', 1)", "an argument has no end"),
        ("format('a}b', 1)", "} without {"),
        ("format('{} {0}', 1)", "with a number and without one"),
        ("format('{a}', 1)", "an argument has a where it should end"),
        ("printf('%d', 1.5)", "the letter d is not a notation of floats"),
        ("printf('%s', 1)", "the letter s is not a notation of integers"),
        ("printf('%d %d', 1)", "no argument 2, as there are 1"),
        ("printf('%', 1)", "a % has no letter behind it"),
        ("printf(1)", "takes a string and values"),
    ] {
        both.refuses(&format!("SELECT {call}"), message).await;
    }
}

#[tokio::test]
async fn times_are_made_subtracted_and_put_into_buckets() {
    let both = tables().await;
    check(
        &both,
        &[
            ("SELECT make_timestamp(2020, 1, 2, 3, 4, 5.5), make_timestamp(1577934245500000), make_timestamp(2020, 1, 2, 3, 4, NULL)", "2020-01-02T03:04:05.500 2020-01-02T03:04:05.500 NULL"),
            ("SELECT make_timestamp(2020, 1, 2, 3, 4, 59.9999999)", "2020-01-02T03:05:00"),
            ("SELECT age(DATE '2024-03-01', DATE '2024-01-31') = INTERVAL '1 month 1 day', age(DATE '2024-01-31', DATE '2024-03-01') = INTERVAL '-1 month -1 day'", "true true"),
            ("SELECT age(TIMESTAMP '2001-03-31', TIMESTAMP '2001-02-28') = INTERVAL '1 month 3 days', age(DATE '2001-04-10', DATE '1957-06-13') = INTERVAL '43 years 9 months 27 days'", "true true"),
            ("SELECT age(TIMESTAMP '2024-05-02 01:00:00', TIMESTAMP '2024-05-01 02:00:00') = INTERVAL '23 hours', age(NULL, DATE '2000-01-01'), age(day, day) = INTERVAL '0 days' FROM n WHERE i = 7", "true NULL true"),
            ("SELECT age(current_date) = INTERVAL '0 days', age(DATE '1900-01-01') > INTERVAL '100 years'", "true true"),
            ("SELECT date_sub('month', DATE '2024-01-31', DATE '2024-02-29'), date_sub('month', DATE '2024-02-29', DATE '2024-01-31'), date_sub('month', DATE '2024-03-30', DATE '2024-02-29')", "1 -1 -1"),
            ("SELECT date_sub('year', DATE '2020-02-29', DATE '2021-02-28'), date_sub('quarter', DATE '2024-01-31', DATE '2024-07-30'), date_sub('decade', DATE '2000-01-01', DATE '2024-01-31'), date_sub('century', DATE '1900-01-01', DATE '2024-01-31')", "1 1 2 1"),
            ("SELECT date_sub('week', DATE '2024-01-01', DATE '2024-01-14'), date_sub('day', TIMESTAMP '2024-01-01 12:00:00', TIMESTAMP '2024-01-03 11:00:00'), date_sub('hours', TIMESTAMP '2024-01-01 00:30:00', TIMESTAMP '2024-01-01 02:29:59')", "1 1 1"),
            ("SELECT date_sub('millisecond', TIMESTAMP '2024-01-01 00:30:00', TIMESTAMP '2024-01-01 00:30:00.0015'), date_sub('microsecond', TIMESTAMP '2024-01-01 00:30:00', TIMESTAMP '2024-01-01 00:30:00.0015'), date_sub('month', NULL, DATE '2024-01-02')", "1 1500 NULL"),
            ("SELECT date_sub('day', day, DATE '2024-03-01'), date_sub('month', day, DATE '2024-03-01'), date_sub('month', ts, TIMESTAMP '2024-02-29 09:59:00'), date_sub('hour', ts, TIMESTAMP '2024-02-29 09:59:00') FROM n ORDER BY i", "1 0 0 0; 8833 290 290 211954; 30 1 0 695; NULL NULL NULL NULL"),
            ("SELECT time_bucket(INTERVAL '1 day', TIMESTAMP '2024-01-02 03:04:05'), time_bucket(INTERVAL '2 weeks', DATE '2024-01-02'), time_bucket(INTERVAL '3 months', DATE '2024-05-02'), time_bucket(INTERVAL '15 minutes', TIMESTAMP '2024-01-02 03:04:05')", "2024-01-02T00:00:00 2024-01-01 2024-04-01 2024-01-02T03:00:00"),
            ("SELECT time_bucket(INTERVAL '1 day', TIMESTAMP '2024-01-02 03:04:05', INTERVAL '6 hours'), time_bucket(INTERVAL '1 week', DATE '2024-01-03', DATE '2024-01-02'), time_bucket(INTERVAL '2 months', DATE '1999-11-02'), time_bucket(INTERVAL '10 days', DATE '1999-12-25')", "2024-01-01T06:00:00 2024-01-02 1999-11-01 1999-12-24"),
            ("SELECT time_bucket(INTERVAL '1 week', day), time_bucket(INTERVAL '7 hours', ts) FROM n ORDER BY i", "2024-02-26 2024-02-29T05:00:00; 1999-12-20 1999-12-25T20:00:00; 2024-01-29 2024-01-31T08:00:00; NULL NULL"),
            ("SELECT time_bucket(NULL, day) FROM n WHERE i = 7", "NULL"),
        ],
    )
    .await;
    both.refuses("SELECT make_timestamp(2020, 2, 30, 0, 0, 0)", "2020")
        .await;
    both.refuses("SELECT make_timestamp(2020, 1, 2, 25, 4, 5)", "25")
        .await;
    both.refuses("SELECT date_sub('foo', day, day) FROM n", "no unit foo")
        .await;
    both.refuses(
        "SELECT time_bucket(CASE WHEN i > 0 THEN INTERVAL '1 day' ELSE INTERVAL '2 days' END, ts) FROM n",
        "must be a constant interval",
    )
    .await;
    both.refuses("SELECT age('a', 'b', 'c')", "takes one or two times")
        .await;
}

#[tokio::test]
async fn column_lists_are_expanded() {
    let both = tables().await;
    both.run("CREATE TABLE p(a INT, price INT, price_net INT) AS VALUES (1, 10, 8), (2, 20, 16), (3, 2, 1)")
        .await;
    for (sql, columns, expected) in [
        (
            "SELECT COLUMNS('^price') FROM p WHERE a = 1",
            "price price_net",
            "10 8",
        ),
        (
            "SELECT a, COLUMNS('^price') + 1 FROM p WHERE a = 1",
            "a price price_net",
            "1 11 9",
        ),
        ("SELECT max(COLUMNS(*)) FROM p", "a price price_net", "3 20 16"),
        (
            "SELECT min(COLUMNS('price')), max(COLUMNS('net')) FROM p",
            "price price_net price_net_1",
            "2 1 16",
        ),
        (
            "SELECT COLUMNS(* EXCLUDE (a)) FROM p WHERE a = 2",
            "price price_net",
            "20 16",
        ),
        (
            "SELECT COLUMNS(['a', 'price']) FROM p WHERE a = 2",
            "a price",
            "2 20",
        ),
        (
            "SELECT COLUMNS('price_?(.*)') AS 'of_\\1' FROM p WHERE a = 2",
            "of_ of_net",
            "20 16",
        ),
        (
            "SELECT * FROM p WHERE COLUMNS('^price') > 8",
            "a price price_net",
            "2 20 16",
        ),
        (
            "SELECT COLUMNS('a') FROM p JOIN p AS q USING (a) WHERE a = 1",
            "a",
            "1",
        ),
        (
            "SELECT sum(COLUMNS('price')) FROM (SELECT * FROM p) GROUP BY a > 2 ORDER BY 1",
            "price price_net",
            "2 1; 30 24",
        ),
    ] {
        both.answers(sql, expected).await;
        both.columns(sql, columns).await;
    }
    both.refuses("SELECT COLUMNS('zzz') FROM p", "matches no column")
        .await;
    both.refuses("SELECT COLUMNS('(') FROM p", "pattern that is not valid")
        .await;
    both.refuses("SELECT COLUMNS('a') + COLUMNS('price') FROM p", "occurs twice")
        .await;
}

#[tokio::test]
async fn materialized_is_a_hint() {
    let both = tables().await;
    check(
        &both,
        &[
            ("WITH x AS MATERIALIZED (SELECT 1 AS a) SELECT * FROM x", "1"),
            ("WITH x AS NOT MATERIALIZED (SELECT 1 AS a), y(b) AS materialized (SELECT a + 1 FROM x) SELECT a + b FROM x, y", "3"),
            ("SELECT materialized FROM (SELECT 2 AS materialized) AS materialized", "2"),
        ],
    )
    .await;
}

#[tokio::test]
async fn numbers_have_groups_of_digits() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        ("SELECT 1_000", "1000"),
        ("SELECT 1_000 + 1, 12_345_678 AS n", "1001 12345678"),
        (
            "SELECT 1_000.5, 1_0e2, 1_000., 0.000_5",
            "1000.5 1000.0 1000.0 0.0005",
        ),
        ("SELECT a FROM t WHERE a < 0_3 ORDER BY a", "1; 2"),
        ("SELECT 1 _000", "1"),
        ("SELECT a_1 FROM (SELECT 7 AS a_1)", "7"),
    ] {
        both.answers(sql, expected).await;
    }
    both.columns("SELECT 1 _000", "_000").await;
}

/// `%f` counts microseconds, not nanoseconds, and `%c`, `%x` and `%X` are ISO dates and times.
#[tokio::test]
async fn formats_of_times_are_those_of_duckdb() {
    let both = Both::new();
    for (sql, expected) in [
        (
            "SELECT strftime(TIMESTAMP '2024-02-29 13:14:15.0123456', '%f %g %% %%f')",
            "012345 012 % %f",
        ),
        (
            "SELECT strftime(TIMESTAMP '2024-02-29 13:14:15', '%c|%x|%X|%-d.%-m')",
            "2024-02-29 13:14:15|2024-02-29|13:14:15|29.2",
        ),
        ("SELECT strftime(DATE '2024-02-29', '%d.%m.%Y')", "29.02.2024"),
        (
            "SELECT strptime('2024-02-29 13:14:15.5', '%Y-%m-%d %H:%M:%S.%f')",
            "2024-02-29T13:14:15.500",
        ),
        (
            "SELECT strptime('20240229131415000123', '%Y%m%d%H%M%S%f')",
            "2024-02-29T13:14:15.000123",
        ),
        (
            "SELECT strptime('29/02/2024 13:14:15', '%d/%m/%Y %X')",
            "2024-02-29T13:14:15",
        ),
    ] {
        both.answers(sql, expected).await;
    }
}
