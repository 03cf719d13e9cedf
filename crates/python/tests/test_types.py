"""Types: from Arrow to the engine and back, and as Python values."""

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow
import pytest

import galatea

UTC = dt.timezone.utc
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)

COLUMNS = {
    "bool": (pyarrow.bool_(), [True, False, None]),
    "int8": (pyarrow.int8(), [-128, 127, None]),
    "uint64": (pyarrow.uint64(), [0, 2**64 - 1, None]),
    "float32": (pyarrow.float32(), [0.5, -1.25, None]),
    "float64": (pyarrow.float64(), [1e300, float("-inf"), None]),
    "decimal": (pyarrow.decimal128(20, 3), [Decimal("123.456"), Decimal("-0.001"), None]),
    "wide_decimal": (pyarrow.decimal256(60, 2), [Decimal("1" * 50 + ".25"), Decimal("0.00"), None]),
    "string": (pyarrow.string(), ["", "größe 🚀", None]),
    "large_string": (pyarrow.large_string(), ["a", "b" * 1000, None]),
    "string_view": (pyarrow.string_view(), ["short", "a string that is not inlined", None]),
    "binary": (pyarrow.binary(), [b"\x00\xff", b"", None]),
    "fixed": (pyarrow.binary(3), [b"abc", b"\x00\x01\x02", None]),
    "date": (pyarrow.date32(), [DAY, dt.date(1, 1, 1), None]),
    "time": (pyarrow.time64("us"), [dt.time(23, 59, 59, 999999), dt.time(0), None]),
    "timestamp": (pyarrow.timestamp("us"), [NOON, dt.datetime(1900, 1, 1), None]),
    "nanoseconds": (pyarrow.timestamp("ns"), [NOON, dt.datetime(1969, 12, 31, 23, 59, 59, 5), None]),
    "zoned": (pyarrow.timestamp("us", "Europe/Berlin"), [NOON.replace(tzinfo=UTC), None, None]),
    "offset": (pyarrow.timestamp("ms", "+02:00"), [dt.datetime(2024, 1, 1, tzinfo=UTC), None, None]),
    "duration": (pyarrow.duration("us"), [dt.timedelta(days=3, microseconds=7), dt.timedelta(-1), None]),
    "list": (pyarrow.list_(pyarrow.int64()), [[1, None, 3], [], None]),
    "nested": (pyarrow.list_(pyarrow.list_(pyarrow.string())), [[["a"], None], [[]], None]),
    "struct": (
        pyarrow.struct([("a", pyarrow.int32()), ("b", pyarrow.string())]),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    ),
    "dictionary": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), ["x", "y", None]),
    "null": (pyarrow.null(), [None, None, None]),
}


def column(name):
    kind, values = COLUMNS[name]
    if pyarrow.types.is_dictionary(kind):
        return pyarrow.array(values).dictionary_encode()
    return pyarrow.array(values, kind)


@pytest.mark.parametrize("name", COLUMNS)
def test_values_pass_through_the_engine(con, name):
    values = COLUMNS[name][1]
    table = pyarrow.table({"i": [0, 1, 2], "v": column(name)})
    result = con.register("types", table).sql("SELECT v FROM types ORDER BY i")
    assert [value for (value,) in result.fetchall()] == values
    assert result.arrow()["v"].to_pylist() == values
    assert result.df().shape == (3, 1)


@pytest.mark.parametrize("name", COLUMNS)
def test_types_are_preserved_without_operators(con, name):
    kind = column(name).type
    relation = con.register("types", pyarrow.table({"v": column(name)})).table("types")
    assert pyarrow.table(relation).schema.field("v").type == kind
    without_views = {pyarrow.string_view(): pyarrow.string()}
    assert relation.arrow().schema.field("v").type == without_views.get(kind, kind)


def test_zone_of_a_timestamp_is_preserved(con):
    zoned = con.register("zoned", pyarrow.table({"v": column("zoned")})).table("zoned").fetchone()[0]
    assert zoned.tzinfo == ZoneInfo("Europe/Berlin")
    assert zoned.hour == 13
    offset = con.register("offsets", pyarrow.table({"v": column("offset")})).table("offsets").fetchone()[0]
    assert offset.utcoffset() == dt.timedelta(hours=2)


def test_maps_are_dictionaries(con):
    assert con.sql("SELECT MAP {'a': 1, 'b': 2} AS m").fetchall() == [({"a": 1, "b": 2},)]


def test_intervals(con):
    assert con.sql("SELECT INTERVAL '1 day 2 seconds'").fetchall() == [(dt.timedelta(days=1, seconds=2),)]
    with pytest.raises(galatea.NotSupportedError, match="which has months"):
        con.sql("SELECT INTERVAL '1 month'").fetchall()


def test_dates_beyond_python_are_errors(con):
    dates = pyarrow.table({"v": pyarrow.array([10_000_000], pyarrow.int32()).cast(pyarrow.date32())})
    con.register("far", dates)
    with pytest.raises(galatea.DataError, match="Python cannot represent"):
        con.table("far").fetchall()
    assert con.table("far").arrow().num_rows == 1


def test_decimals_keep_their_scale(con):
    assert con.sql("SELECT CAST('1.50' AS DECIMAL(5, 2)) AS v").fetchall()[0][0].as_tuple().exponent == -2
    assert con.sql("SELECT sum(v) FROM (VALUES (0.1), (0.2)) AS t(v)").fetchall()[0][0] == pytest.approx(0.3)
