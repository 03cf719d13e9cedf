//! Queries on plain DataFusion that our rules correct. When one of these tests fails, DataFusion is fixed,
//! and the rule that the test names can be removed.

use crate::rows;
use datafusion::prelude::{SessionConfig, SessionContext};

/// A query, and whether plain DataFusion answers it wrongly.
struct Wrong {
    /// The file in `crates/engine/src/corrections`.
    rule: &'static str,
    /// The path of a temporary folder replaces `FOLDER`.
    statements: &'static [&'static str],
    right: &'static [&'static str],
}

const TABLES: [&str; 2] = [
    "CREATE TABLE o(k INT, x BIGINT) AS VALUES (1,1),(9,2),(NULL,3),(2,NULL)",
    "CREATE TABLE i(k INT, y BIGINT) AS VALUES (1,1),(1,NULL),(2,5),(NULL,7)",
];

const WRONG: &[Wrong] = &[
    Wrong {
        rule: "float_keys.rs (TopK)",
        statements: &[
            "SELECT x, max(y) AS m FROM (VALUES (CAST('NaN' AS DOUBLE),1),('NaN',3)) t(x,y) GROUP BY x ORDER BY m DESC LIMIT 5",
        ],
        right: &["NaN, 3"],
    },
    Wrong {
        rule: "grouping_sets.rs",
        statements: &[
            "SELECT a, rank() OVER (ORDER BY a) AS r FROM (SELECT a FROM (VALUES (1)) t(a) WHERE a = 1 GROUP BY ROLLUP (a))",
        ],
        right: &["1, 1", "NULL, 2"],
    },
    Wrong {
        rule: "list_lengths.rs",
        statements: &["SELECT length([1, 2])"],
        right: &["2"],
    },
    Wrong {
        rule: "coarse_timestamps.rs (constants)",
        statements: &[
            "SELECT count(*) FROM (SELECT arrow_cast(TIMESTAMP '2024-01-01', 'Timestamp(Second, None)') AS t) WHERE t = TIMESTAMP '2024-01-01 00:00:00.5'",
        ],
        right: &["0"],
    },
    Wrong {
        rule: "coarse_timestamps.rs (intervals)",
        statements: &["SELECT DATE '2024-01-01' + INTERVAL '1 hour' > DATE '2024-01-01'"],
        right: &["true"],
    },
    Wrong {
        rule: "scalar_functions.rs (nullif)",
        statements: &["SELECT nullif(CAST('-0.0' AS DOUBLE), 0.0) IS NULL"],
        right: &["true"],
    },
    Wrong {
        rule: "scalar_functions.rs (time zones)",
        statements: &[
            "SET datafusion.execution.time_zone = '-05:00'",
            "SELECT CAST(arrow_cast('2024-01-31T10:00:00-05:00', 'Timestamp(Second, Some(\"-05:00\"))') AS TIMESTAMP) = TIMESTAMP '2024-01-31 10:00:00'",
        ],
        right: &["true"],
    },
    Wrong {
        rule: "session_zone.rs",
        statements: &[
            "CREATE TABLE t AS SELECT arrow_cast(to_timestamp(1704067200), 'Timestamp(Second, Some(\"UTC\"))') AS at",
            "SET datafusion.execution.time_zone = '-05:00'",
            "SELECT extract(hour FROM at) FROM t",
        ],
        right: &["19"],
    },
    Wrong {
        rule: "same_names.rs",
        statements: &[
            "SELECT count(*) FROM i RIGHT JOIN (SELECT * FROM i WHERE y IS NOT NULL) s ON i.k = s.k WHERE i.y = 1 OR s.y > 6",
        ],
        right: &["2"],
    },
    Wrong {
        rule: "subqueries.rs (NOT IN with correlation)",
        statements: &["SELECT k FROM o WHERE x NOT IN (SELECT y FROM i WHERE i.k < o.k)"],
        right: &["1", "NULL"],
    },
    Wrong {
        rule: "subqueries.rs (NOT IN with several keys)",
        statements: &["SELECT k FROM o WHERE x NOT IN (SELECT y FROM i WHERE i.k = o.k)"],
        right: &["9", "NULL"],
    },
    Wrong {
        rule: "subqueries.rs (IN as a value)",
        statements: &["SELECT k FROM o WHERE (x IN (SELECT y FROM i)) IS NULL"],
        right: &["2", "9", "NULL"],
    },
    Wrong {
        rule: "marks.rs",
        statements: &["SELECT EXISTS (SELECT 1 FROM i WHERE i.k = o.k) AS e FROM o"],
        right: &["false", "false", "true", "true"],
    },
    Wrong {
        rule: "one_row.rs (aggregates without groups)",
        statements: &["SELECT k FROM o WHERE EXISTS (SELECT count(*) FROM i WHERE i.k = o.k)"],
        right: &["1", "2", "9", "NULL"],
    },
    Wrong {
        rule: "one_row.rs (grouping sets)",
        statements: &["SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.y))"],
        right: &["1", "2", "9", "NULL"],
    },
    Wrong {
        rule: "subqueries.rs (OFFSET in EXISTS)",
        statements: &["SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k OFFSET 1)"],
        right: &["1"],
    },
    Wrong {
        rule: "lifting (windows in EXISTS)",
        statements: &[
            "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k QUALIFY row_number() OVER (ORDER BY i.y) = 1)",
        ],
        right: &["1", "2"],
    },
    Wrong {
        rule: "lifting (outer joins)",
        statements: &[
            "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i LEFT JOIN (SELECT k AS z, y FROM i AS j WHERE j.k = o.k) q ON i.y = q.y WHERE i.k = o.k AND q.y IS NULL)",
        ],
        right: &["1"],
    },
    Wrong {
        rule: "scalars.rs",
        statements: &["SELECT k, (SELECT y FROM i WHERE i.k = o.k ORDER BY y LIMIT 1) AS y FROM o"],
        right: &["1, 1", "2, 5", "9, NULL", "NULL, NULL"],
    },
    Wrong {
        rule: "laterals.rs (HAVING)",
        statements: &[
            "SELECT o.k, l.c FROM o, LATERAL (SELECT count(*) AS c FROM i WHERE i.k = o.k HAVING sum(y) > 3) l",
        ],
        right: &["2, 1"],
    },
    Wrong {
        rule: "laterals.rs (constants)",
        statements: &[
            "SELECT o.k, l.five FROM o, LATERAL (SELECT 5 AS five, max(y) AS m FROM i WHERE i.k = o.k) l",
        ],
        right: &["1, 5", "2, 5", "9, 5", "NULL, 5"],
    },
    Wrong {
        rule: "laterals.rs (USING)",
        statements: &[
            "SELECT o.k, l.c FROM o JOIN LATERAL (SELECT k, y AS c FROM i WHERE i.y > o.x) l USING (k)",
        ],
        right: &[],
    },
    Wrong {
        rule: "set_operations.rs (EXCEPT ALL)",
        statements: &["SELECT x FROM (VALUES (1),(1),(2)) a(x) EXCEPT ALL SELECT y FROM (VALUES (1)) b(y)"],
        right: &["1", "2"],
    },
    Wrong {
        rule: "set_operations.rs (INTERSECT ALL)",
        statements: &["SELECT x FROM (VALUES (1),(1)) a(x) INTERSECT ALL SELECT y FROM (VALUES (1)) b(y)"],
        right: &["1"],
    },
    Wrong {
        rule: "struct_fields.rs (UNNEST)",
        statements: &[
            "CREATE TABLE s AS SELECT named_struct('a', 4) AS s",
            "CREATE TABLE n AS SELECT nullif(s, s) AS s FROM s",
            "SELECT unnest(s) FROM n",
        ],
        right: &["NULL"],
    },
    Wrong {
        rule: "struct_fields.rs (access to a field)",
        statements: &[
            "CREATE TABLE s AS SELECT named_struct('a', 4) AS s",
            "CREATE TABLE n AS SELECT nullif(s, s) AS s FROM s",
            "SELECT s['a'] FROM n",
        ],
        right: &["NULL"],
    },
    Wrong {
        rule: "merge_join.rs",
        statements: &[
            "SET datafusion.optimizer.prefer_hash_join = false",
            "SELECT a.k AS ak, b.k AS bk FROM (VALUES (50,7,0)) a(v,k,z) JOIN (VALUES (3,7)) b(w,k) ON a.k = b.k AND a.v > b.w",
        ],
        right: &["7, 7"],
    },
    Wrong {
        rule: "offsets.rs",
        statements: &[
            "SELECT x FROM (SELECT x FROM (VALUES (1), (2), (3)) v(x) ORDER BY x OFFSET 2) q ORDER BY x DESC",
        ],
        right: &["3"],
    },
    Wrong {
        rule: "null_keys.rs",
        statements: &[
            "SELECT a.k FROM i a JOIN i b ON a.k IS NOT DISTINCT FROM b.k WHERE NOT (a.y <> b.y) AND a.k < 2",
        ],
        right: &["1"],
    },
    Wrong {
        rule: "nullable_subqueries.rs",
        statements: &["SELECT k FROM o WHERE k = 1 AND (SELECT 1 FROM i WHERE k > 100) IS NULL"],
        right: &["1"],
    },
    Wrong {
        rule: "float_decimals.rs",
        statements: &[
            "SELECT x > y AS more FROM (VALUES (CAST(1e-20 AS DOUBLE), CAST(0 AS DECIMAL(10,2)))) v(x, y)",
        ],
        right: &["true"],
    },
    Wrong {
        rule: "float_extremes.rs",
        statements: &[
            "SELECT g, min(v) AS lo, isnan(max(v)) AS hi FROM (VALUES (1,CAST('NaN' AS DOUBLE)),(1,1.0),(2,1.0),(2,CAST('NaN' AS DOUBLE))) t(g,v) GROUP BY g",
        ],
        right: &["1, 1.0, true", "2, 1.0, true"],
    },
    Wrong {
        rule: "float_distinct.rs",
        statements: &["SELECT approx_distinct(v) FROM (VALUES (CAST(1 AS DOUBLE)), (NULL)) t(v)"],
        right: &["1"],
    },
    Wrong {
        rule: "float_keys.rs",
        statements: &[
            "SELECT count(DISTINCT v) FROM (VALUES (CAST('NaN' AS DOUBLE)), (-CAST('NaN' AS DOUBLE))) t(v)",
        ],
        right: &["1"],
    },
    Wrong {
        rule: "float_constants.rs",
        statements: &[
            "COPY (VALUES (CAST('NaN' AS DOUBLE)), (0.5)) TO 'FOLDER/v.parquet'",
            "CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION 'FOLDER/v.parquet'",
            "SELECT column1 FROM f",
        ],
        right: &["0.5", "NaN"],
    },
    Wrong {
        rule: "frames.rs",
        statements: &[
            "SELECT sum(v) OVER (ORDER BY i ROWS 1 PRECEDING) FROM (VALUES (1, CAST(1e16 AS DOUBLE)), (2, 1.0), (3, 2.5)) t(i, v)",
        ],
        right: &["1e16", "1e16", "3.5"],
    },
    Wrong {
        rule: "frames.rs (bit_xor)",
        statements: &[
            "SELECT bit_xor(x) OVER (ORDER BY i ROWS 1 PRECEDING) FROM (VALUES (1, 6), (2, NULL), (3, NULL)) t(i, x)",
        ],
        right: &["6", "6", "NULL"],
    },
    Wrong {
        rule: "aggregates.rs (bit_xor)",
        statements: &["SELECT bit_xor(DISTINCT y), count(*) FROM (VALUES (1, 5), (1, 5)) t(k, y) GROUP BY k"],
        right: &["5, 2"],
    },
    Wrong {
        rule: "distinct_rows.rs",
        statements: &["SELECT covar_pop(DISTINCT a, b) FROM (VALUES (1, 2.0), (1, 2.0), (3, 8.0)) t(a, b)"],
        right: &["3.0"],
    },
    Wrong {
        rule: "timestamps.rs (date_trunc)",
        statements: &["SELECT date_trunc('year', arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)'))"],
        right: &["9999-01-01T00:00:00"],
    },
    Wrong {
        rule: "timestamps.rs (date_bin)",
        statements: &[
            "SELECT date_bin(INTERVAL '1 day', arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)'))",
        ],
        right: &["9999-12-31T00:00:00"],
    },
    Wrong {
        rule: "timestamps.rs (constants)",
        statements: &["SELECT date_trunc('millisecond', TIMESTAMP '1969-12-31 23:59:59.9995')"],
        right: &["1969-12-31T23:59:59.999"],
    },
    Wrong {
        rule: "ignored_nulls.rs",
        statements: &[
            "SET datafusion.execution.batch_size = 4",
            "CREATE TABLE t AS SELECT column1 AS i, column2 AS x FROM (VALUES (1,10),(2,20),(3,NULL),(4,30),(5,40),(6,NULL),(7,NULL),(8,50),(9,NULL),(10,60),(11,70),(12,80))",
            "SELECT lead(x, 2) IGNORE NULLS OVER (ORDER BY i) FROM t",
        ],
        right: &[
            "30", "40", "40", "50", "60", "60", "60", "70", "70", "80", "NULL", "NULL",
        ],
    },
    Wrong {
        rule: "deviations.rs",
        statements: &[
            "SELECT var_pop(v) FROM (VALUES (CAST(1e16 AS DOUBLE)), (CAST(1e16 AS DOUBLE) + 2)) t(v)",
        ],
        right: &["1.0"],
    },
    Wrong {
        rule: "group_keys.rs",
        statements: &[
            "CREATE TABLE p(a INT, h INT) AS VALUES (1,1),(1,2),(2,1),(2,2),(1,3)",
            "SELECT d.k, count(DISTINCT z.h) FROM p z, (SELECT DISTINCT h AS k FROM p) d WHERE z.h <= d.k GROUP BY z.a, d.k",
        ],
        right: &["1, 1", "1, 1", "2, 2", "2, 2", "3, 2", "3, 3"],
    },
    Wrong {
        rule: "volatile_columns.rs",
        statements: &[
            "CREATE TABLE y AS SELECT value AS i FROM generate_series(1, 1000)",
            "SELECT max(r) < 0.5 FROM (SELECT * FROM (SELECT i, random() AS r FROM y) z WHERE r < 0.5 AND i > 10) q",
        ],
        right: &["true"],
    },
    Wrong {
        rule: "single_rows.rs",
        statements: &["SELECT k, (SELECT y FROM i WHERE i.k = o.k AND i.y > 1) FROM o"],
        right: &["1, NULL", "2, 5", "9, NULL", "NULL, NULL"],
    },
    Wrong {
        rule: "lifting/domain.rs",
        statements: &["SELECT x, (SELECT count(*) FROM i WHERE i.y < o.x) FROM o"],
        right: &["1, 0", "2, 1", "3, 1", "NULL, 0"],
    },
    Wrong {
        rule: "subquery_places.rs",
        statements: &["SELECT x FROM o ORDER BY (SELECT max(y) FROM i WHERE i.k = o.k) NULLS LAST LIMIT 2"],
        right: &["1", "NULL"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn datafusion_still_needs_our_correction_rules() {
    let mut right = Vec::new();
    for wrong in WRONG {
        let config = SessionConfig::new().with_target_partitions(2);
        let plain = SessionContext::new_with_config(config);
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().display().to_string();
        let mut answer = Ok(Vec::new());
        for statement in TABLES.iter().chain(wrong.statements) {
            answer = rows(&plain, &statement.replace("FOLDER", &folder)).await;
        }
        let expected: Vec<String> = wrong.right.iter().map(ToString::to_string).collect();
        if answer == Ok(expected) {
            right.push(format!("{}: {:?}", wrong.rule, wrong.statements));
        }
    }
    assert!(
        right.is_empty(),
        "DataFusion now answers these queries rightly; remove the rule of crates/engine/src/corrections that mends them:\n{}",
        right.join("\n")
    );
}
