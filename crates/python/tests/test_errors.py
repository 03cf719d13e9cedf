"""Exceptions: classes and messages."""

import pytest

import galatea


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("SELEC 1", galatea.ProgrammingError, "invalid SQL: .*\nline 1: SELEC 1\n"),
        ("", galatea.ProgrammingError, "the statement is empty"),
        ("SELECT nam FROM (VALUES (1)) AS t(name)", galatea.ProgrammingError, "no such column: nam\n.*\n.*\\^\\^\\^\nhint: did you mean"),
        ("SELECT * FROM missing", galatea.ProgrammingError, "no such table: missing\nline 1: .*\nhint"),
        ("SELECT * FROM 'missing.parquet'", galatea.ProgrammingError, "no such file: 'missing.parquet'"),
        ("SELECT sqrt('x', 1)", galatea.ProgrammingError, "sqrt does not take these arguments"),
        ("SET galatea.devise = 'gpu'", galatea.ProgrammingError, "unknown setting: galatea.devise"),
    ],
)
def test_planning_errors(con, statement, kind, message):
    with pytest.raises(kind, match=f"(?s){message}"):
        con.sql(statement)


def test_errors_of_rows_mark_their_expression(con):
    relation = con.sql("SELECT 10 / (value - 2) AS q FROM generate_series(1, 3)")
    for run in (relation.fetchall, relation.arrow, relation.df, relation.pl, relation.show):
        with pytest.raises(galatea.DataError, match=r"division by zero in 10 / \(value - 2\)\nline 1: .*\n +\^+\nhint"):
            run()
    with pytest.raises(galatea.DataError, match="overflow"):
        con.sql("SELECT sum(v) FROM (VALUES (9223372036854775807), (1)) AS t(v)").fetchall()
    with pytest.raises(galatea.DataError):
        con.sql("SELECT CAST(s AS BIGINT) FROM (VALUES ('x')) AS t(s)").fetchall()


def test_hierarchy_of_exceptions():
    for kind in (
        galatea.DataError,
        galatea.OperationalError,
        galatea.IntegrityError,
        galatea.InternalError,
        galatea.ProgrammingError,
        galatea.NotSupportedError,
    ):
        assert issubclass(kind, galatea.DatabaseError)
    assert issubclass(galatea.DatabaseError, galatea.Error)
    assert issubclass(galatea.InterfaceError, galatea.Error)
    assert issubclass(galatea.Error, Exception)
    assert galatea.Error.__module__ == "galatea"


def test_connection_remains_usable_after_errors(con):
    for _ in range(20):
        with pytest.raises(galatea.Error):
            con.sql("SELECT * FROM missing")
        with pytest.raises(galatea.Error):
            con.sql("SELECT 1 / 0").fetchall()
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_memory_limit_is_an_operational_error():
    con = galatea.connect({"datafusion.runtime.memory_limit": "1M"}, device="cpu")
    with pytest.raises(galatea.OperationalError, match="(?s)out of memory: .*hint"):
        con.sql("SELECT count(DISTINCT value), array_agg(value) FROM generate_series(1, 3000000)").fetchall()


def test_deeply_nested_statement_is_refused(con):
    with pytest.raises(galatea.Error):
        con.sql("SELECT " + "(" * 5000 + "1" + ")" * 5000)
    assert con.sql("SELECT 1").fetchall() == [(1,)]
