"""Parameters of statements."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy
import pyarrow
import pytest

import galatea


def test_positions_and_names(con):
    assert con.sql("SELECT ? + ?, ?", [1, 2, "x"]).fetchall() == [(3, "x")]
    assert con.sql("SELECT $2, $1, $2 + $1", (1, 2)).fetchall() == [(2, 1, 3)]
    assert con.sql("SELECT $a || $b", {"a": "x", "b": "y"}).fetchall() == [("xy",)]
    assert con.sql("SELECT 1", []).fetchall() == con.sql("SELECT 1", {}).fetchall() == [(1,)]


def test_inserted_values_have_the_types_of_their_columns(con):
    con.sql("CREATE TABLE narrow (a SMALLINT, b VARCHAR)")
    con.sql("INSERT INTO narrow VALUES (?, ?)", [7, "x"])
    assert con.sql("SELECT a, b FROM narrow").fetchall() == [(7, "x")]
    assert con.sql("SELECT a FROM narrow").arrow().schema.types == [pyarrow.int16()]
    with pytest.raises(galatea.Error, match="70000"):
        con.sql("INSERT INTO narrow VALUES (?, ?)", [70000, "x"])


def test_placeholders_in_strings_and_comments_are_none(con):
    query = "SELECT '?', \"?\", -- ?\n /* ? */ ? FROM (VALUES ('ü')) AS t(\"?\")"
    assert con.sql(query, ["größe"]).fetchall() == [("?", "ü", "größe")]
    assert con.sql("SELECT 'ü', ?\n,\t?", [1, 2]).fetchall() == [("ü", 1, 2)]


VALUES = [
    True,
    -5,
    2**63,
    10**30,
    1.5,
    "größe",
    "'; DROP TABLE t; --",
    b"\x00\xff",
    Decimal("1.50"),
    Decimal("-1E+3"),
    Decimal("0.00001"),
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12, 30, 15, 5),
    dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    dt.time(1, 2, 3, 4),
    dt.timedelta(days=2, microseconds=3),
    [1, None, 3],
    [1, 2.5],
    ["a", "b"],
    None,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_return_unchanged(con, value):
    assert con.sql("SELECT ? AS v", [value]).fetchall() == [(value,)]


def test_values_of_other_libraries(con):
    identity = uuid.UUID(int=7)
    values = [numpy.int32(3), numpy.float64(0.5), numpy.str_("x"), pyarrow.scalar(9), identity]
    assert con.sql("SELECT ?, ?, ?, ?, ?", values).fetchall() == [(3, 0.5, "x", 9, str(identity))]


def test_parameters_of_conditions_and_statements(con):
    con.sql("CREATE TABLE t (k BIGINT, d DATE, s VARCHAR)")
    con.sql("INSERT INTO t VALUES (?, ?, ?), (?, ?, ?)", [1, dt.date(2024, 1, 1), "a", 2, None, None])
    assert con.sql("SELECT k FROM t WHERE d >= $since", {"since": dt.date(2023, 1, 1)}).fetchall() == [(1,)]
    assert con.sql("SELECT k FROM t WHERE s IS NOT DISTINCT FROM ?", [None]).fetchall() == [(2,)]
    assert con.sql("SELECT k FROM t ORDER BY k LIMIT ?", [1]).fetchall() == [(1,)]
    assert con.sql("SELECT count(*) FROM t WHERE k IN (?, ?)", [2, 3]).fetchall() == [(1,)]


def test_prepared_statements_of_sql(con):
    con.sql("PREPARE add(BIGINT, BIGINT) AS SELECT $1 + $2")
    assert con.sql("EXECUTE add(3, 4)").fetchall() == [(7,)]


@pytest.mark.parametrize(
    ("statement", "parameters", "message"),
    [
        ("SELECT ?", [1, 2], "the statement has 1 placeholder, the list 2 values"),
        ("SELECT ?, ?", [1], "the statement has 2 placeholders, the list 1 value"),
        ("SELECT $3", [1], "the statement has 3 placeholders"),
        ("SELECT ?, $1", [1, 2], "either placeholders \\? or"),
        ("SELECT $a", [1], "needs a dictionary"),
        ("SELECT ?", {"a": 1}, "needs a list of values"),
        ("SELECT $a", {"b": 1}, "no value for the placeholder \\$a"),
        ("SELECT $a", {"a": 1, "b": 1}, "no placeholder \\$b"),
    ],
)
def test_placeholders_and_values_match(con, statement, parameters, message):
    with pytest.raises(galatea.ProgrammingError, match=message):
        con.sql(statement, parameters)


def test_values_without_a_type_are_refused(con):
    with pytest.raises(galatea.InterfaceError, match="a parameter cannot have the type object\nhint"):
        con.sql("SELECT ?", [object()])
    with pytest.raises(galatea.InterfaceError, match="parameters are a list, a tuple or a dictionary, not str"):
        con.sql("SELECT ?", "x")
    with pytest.raises(galatea.InterfaceError, match="digits is too long"):
        con.sql("SELECT ?", [10**100])
