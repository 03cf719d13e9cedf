//! Parquet files of several schemas, and damaged ones: the same rows or errors on the CPU and on the device.

use std::path::Path;

use crate::file_contents::{Files, rows};

#[tokio::test]
async fn parquet_files_of_different_schemas_are_one_table() {
    let files = Files::new(&[]);
    let writes = [
        ("mix/a.parquet", "SELECT CAST(1 AS BIGINT) AS i, 'x' AS s"),
        ("mix/b.parquet", "SELECT CAST(2 AS INT) AS i, 2.5 AS z"),
        ("float/a.parquet", "SELECT CAST(2 AS BIGINT) AS v"),
        ("float/b.parquet", "SELECT CAST(2.5 AS DOUBLE) AS v"),
        ("bad/a.parquet", "SELECT 1 AS v"),
        ("bad/b.parquet", "SELECT make_array(1) AS v"),
    ];
    let (_, first) = &files.sessions[0];
    for (name, query) in writes {
        let path = files.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        rows(first, &format!("COPY ({query}) TO '{}'", path.display()))
            .await
            .expect("written");
    }
    files
        .run("CREATE EXTERNAL TABLE mix STORED AS PARQUET LOCATION '@/mix/'")
        .await;
    for table in ["'@/mix/'", "'@/mix/*.parquet'", "mix"] {
        files
            .check(
                &format!("SELECT i, s, z FROM {table} ORDER BY i"),
                "1|x|NULL;2|NULL|2.5",
            )
            .await;
        let sql = format!("SELECT count(*), sum(i), min(i), max(i), count(s), max(z), min(z) FROM {table}");
        files.check(&sql, "2|3|1|2|1|2.5|2.5").await;
        files
            .check(
                &format!("SELECT s FROM {table} WHERE i < 2 AND s IS NOT NULL"),
                "x",
            )
            .await;
    }
    files
        .check(
            "SELECT sum(v), min(v), max(v) FROM '@/float/*.parquet'",
            "4.5|2.0|2.5",
        )
        .await;
    files.check("SELECT v FROM '@/float/' WHERE v > 2.2", "2.5").await;
    files
        .refuse(
            "SELECT v FROM '@/bad/*.parquet'",
            &["bad/a.parquet", "bad/b.parquet", "'v'"],
        )
        .await;
}

/// A file of `parquet-testing`, under another name.
fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/parquet-testing");
    std::fs::read(folder.join(name)).expect("a sample")
}

#[tokio::test]
async fn unreadable_parquet_files_have_specific_errors() {
    let files = Files::new(&[("x.arrow", "a,b\n1,2\n")]);
    let mut long = sample("alltypes_plain.snappy.parquet");
    let footer = long.len() - 8;
    long[footer..footer + 4].fill(0xff);
    files.write("long.parquet", &long);
    long[footer..footer + 4].copy_from_slice(&100_000_u32.to_le_bytes());
    files.write("longer.parquet", &long);
    files.write("keys.parquet", sample("plaintext_footer.encrypted"));
    files.write("all.parquet", sample("encrypted_footer.encrypted"));
    for name in ["long", "longer"] {
        let name = format!("{name}.parquet");
        let parts = [name.as_str(), "cut off, damaged, or not Parquet"];
        files
            .refuse(&format!("SELECT count(*) FROM '@/{name}'"), &parts)
            .await;
    }
    for name in ["keys.parquet", "all.parquet"] {
        let parts = [name, "the file is encrypted", "not supported without keys"];
        files.refuse(&format!("SELECT * FROM '@/{name}'"), &parts).await;
    }
    files
        .refuse("SELECT * FROM '@/x.arrow'", &["x.arrow", "not an Arrow file"])
        .await;
}

/// For all contents of a damaged file, no decoder's panic ends a query, and errors name the file.
#[tokio::test]
async fn flipped_bits_are_errors_that_name_the_file() {
    let files = Files::new(&[]);
    let whole = sample("alltypes_plain.snappy.parquet");
    let mut failed = 0;
    for (number, at) in (4..whole.len()).step_by(23).enumerate() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (number % 8);
        let path = files.write(&format!("{number}.parquet"), &damaged);
        let sql = format!("SELECT * FROM '{}' ORDER BY 1", path.display());
        for (name, ctx) in [&files.sessions[1], &files.sessions[3]] {
            if let Err(error) = rows(ctx, &sql).await {
                failed += 1;
                assert!(
                    error.contains(&format!("{number}.parquet")),
                    "{name}, byte {at}: {error}"
                );
            }
        }
    }
    assert!(failed > 20, "{failed}");
}
