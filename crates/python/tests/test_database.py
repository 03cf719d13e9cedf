"""Databases: folders with tables that last."""

import pytest

import galatea


def test_tables_of_a_database_last(tmp_path):
    path = tmp_path / "my.db"
    with galatea.connect(path, device="cpu") as con:
        con.sql("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS v(a, b)")
        con.sql("INSERT INTO t VALUES (?, ?)", [3, "z"])
        con.sql("CREATE VIEW v AS SELECT sum(a) AS s FROM t")
    with galatea.connect(str(path), {"galatea.device": "cpu"}) as con:
        assert con.sql("SELECT * FROM t ORDER BY a").fetchall() == [(1, "x"), (2, None), (3, "z")]
        assert con.sql("SELECT s FROM v").fetchall() == [(6,)]
        with pytest.raises(galatea.Error, match="is open in another process: process"):
            galatea.connect(path)


def test_changes_macros_and_settings_of_a_database_last(tmp_path):
    path = tmp_path / "my.db"
    with galatea.connect(path, device="cpu") as con:
        con.sql("CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 5)")
        cursor = con.cursor()
        cursor.execute("DELETE FROM t WHERE v > ?", [3])
        assert cursor.rowcount == 2
        cursor.execute("UPDATE t SET v = v * 10 WHERE v IN (SELECT max(v) FROM t)")
        assert cursor.rowcount == 1
        cursor.execute("DELETE FROM t WHERE v = NULL")
        assert cursor.rowcount == 0
        con.sql("PREPARE change AS UPDATE t SET v = 31 WHERE v = $1")
        cursor.execute("EXECUTE change(30)")
        assert cursor.rowcount == 1
        con.sql("CREATE MACRO twice(x) AS x * 2")
        con.sql("SET galatea.overflow = 'wrap'")
        with pytest.raises(galatea.Error, match="by zero"):
            con.sql("UPDATE t SET v = 1 / (v - 1)")
        with pytest.raises(galatea.Error, match="missing"):
            con.sql("DELETE FROM t WHERE missing = 1")
        con.sql("CREATE TABLE gone AS SELECT 1 AS a")
        con.sql("TRUNCATE gone")
        con.sql("INSERT INTO gone VALUES (NULL)")
    with galatea.connect(path, device="cpu") as con:
        assert con.sql("SELECT twice(v) FROM t ORDER BY v").fetchall() == [(2,), (4,), (62,)]
        assert con.sql("SELECT a FROM gone").fetchall() == [(None,)]
        assert con.sql("SHOW galatea.overflow").fetchall() == [("galatea.overflow", "wrap")]
        con.sql("DROP TABLE gone")
        with pytest.raises(galatea.Error, match="gone"):
            con.sql("SELECT * FROM gone")


def test_a_closed_database_can_be_opened_again(tmp_path):
    path = tmp_path / "my.db"
    for number in range(3):
        con = galatea.connect(path, device="cpu")
        con.sql(f"CREATE TABLE t{number} AS SELECT {number} AS n")
        con.close()
    with galatea.connect(path, device="cpu") as con:
        assert con.sql("SELECT n FROM t0 UNION ALL FROM t2 ORDER BY n").fetchall() == [(0,), (2,)]


def test_relations_and_frames_become_tables(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    rows = pyarrow.table({"a": [1, None, 3], "b": ["x", "y", None]})
    with galatea.connect(tmp_path / "my.db", device="cpu") as con:
        con.sql("CREATE TABLE t AS SELECT * FROM rows")
        con.sql("INSERT INTO t VALUES (NULL, NULL)")
        con.sql("UPDATE t SET b = 'new' WHERE a IN (SELECT a FROM rows WHERE b IS NULL)")
        expected = [(1, "x"), (3, "new"), (None, None), (None, "y")]
        assert con.sql("SELECT * FROM t ORDER BY a NULLS LAST, b NULLS FIRST").fetchall() == expected


def test_settings_may_be_the_first_argument():
    with galatea.connect({"galatea.device": "cpu"}) as con:
        assert con.sql("SHOW galatea.device").fetchall() == [("galatea.device", "cpu")]


def test_other_files_are_no_databases(tmp_path):
    path = tmp_path / "my.db"
    path.write_text("SQLite format 3")
    with pytest.raises(galatea.Error, match="is not a database of Galatea: it is a file"):
        galatea.connect(path)
