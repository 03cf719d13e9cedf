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


def test_settings_may_be_the_first_argument():
    with galatea.connect({"galatea.device": "cpu"}) as con:
        assert con.sql("SHOW galatea.device").fetchall() == [("galatea.device", "cpu")]


def test_other_files_are_no_databases(tmp_path):
    path = tmp_path / "my.db"
    path.write_text("SQLite format 3")
    with pytest.raises(galatea.Error, match="is not a database of Galatea: it is a file"):
        galatea.connect(path)
