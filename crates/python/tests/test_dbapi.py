"""DB-API 2.0: cursors."""

import pytest

import galatea


def test_rows_and_description(con):
    cursor = con.cursor()
    assert cursor.description is None
    assert cursor.execute("SELECT 1 AS a, 'x' AS b, now() AS c, CAST(1 AS DECIMAL(3, 1)) AS d") is cursor
    names = [column[0] for column in cursor.description]
    kinds = [column[1] for column in cursor.description]
    assert names == ["a", "b", "c", "d"]
    assert all(len(column) == 7 for column in cursor.description)
    assert kinds[0] == galatea.NUMBER and kinds[1] == galatea.STRING
    assert kinds[2] == galatea.DATETIME and kinds[3] == galatea.NUMBER
    assert kinds[1] != galatea.NUMBER and kinds[0] != galatea.BINARY
    assert cursor.fetchone()[:2] == (1, "x") and cursor.fetchone() is None


def test_fetching_and_iteration(con):
    cursor = con.execute("SELECT value FROM generate_series(1, 10) ORDER BY 1")
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 3
    assert cursor.fetchmany() == [(2,), (3,), (4,)]
    assert [value for (value,) in cursor] == [5, 6, 7, 8, 9, 10]
    assert cursor.fetchall() == []


def test_changes_are_counted(con):
    cursor = con.cursor()
    cursor.execute("CREATE TABLE t (a BIGINT, b VARCHAR)")
    assert (cursor.rowcount, cursor.description) == (-1, None)
    cursor.execute("INSERT INTO t VALUES (?, ?)", [1, "x"])
    assert cursor.rowcount == 1
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(2, "y"), (3, None)])
    assert cursor.rowcount == 2
    cursor.execute("SELECT count(*) FROM t")
    assert (cursor.rowcount, cursor.fetchall()) == (-1, [(3,)])


def test_cursors_without_a_result_are_refused(con):
    cursor = con.cursor()
    with pytest.raises(galatea.ProgrammingError, match="the cursor has no result"):
        cursor.fetchone()
    cursor.execute("SELECT 1")
    cursor.close()
    with pytest.raises(galatea.ProgrammingError, match="the cursor is closed"):
        cursor.execute("SELECT 1")
    with pytest.raises(galatea.ProgrammingError):
        cursor.fetchone()


def test_transactions(con):
    con.commit()
    with pytest.raises(galatea.NotSupportedError, match="ROLLBACK is not supported"):
        con.rollback()


def test_variables_are_tables_of_cursors(con):
    import pandas

    frame = pandas.DataFrame({"a": [4]})
    with con.cursor() as cursor:
        assert cursor.execute("SELECT a FROM frame").fetchall() == [(4,)]
    assert len(frame) == 1


def test_pandas_reads_from_a_connection(con):
    import warnings

    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = pandas.read_sql("SELECT 1 AS a, 'x' AS b", con)
    assert frame.to_dict("list") == {"a": [1], "b": ["x"]}
