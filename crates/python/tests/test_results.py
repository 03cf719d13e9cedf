"""Results as tables, data frames, streams and tuples."""

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

import galatea

NUMBERS = "SELECT value AS a, value * 2 AS b, CAST(value AS VARCHAR) AS s FROM generate_series(1, {})"


def test_arrow_table(con):
    table = con.sql(NUMBERS.format(3)).arrow()
    assert isinstance(table, pyarrow.Table)
    assert table.to_pydict() == {"a": [1, 2, 3], "b": [2, 4, 6], "s": ["1", "2", "3"]}
    assert con.sql(NUMBERS.format(3)).fetch_arrow_table().equals(table)


def test_pandas_frame(con):
    frame = con.sql(NUMBERS.format(3)).df()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("list") == {"a": [1, 2, 3], "b": [2, 4, 6], "s": ["1", "2", "3"]}


def test_polars_frame(con):
    frame = con.sql(NUMBERS.format(3)).pl()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_dict(as_series=False) == {"a": [1, 2, 3], "b": [2, 4, 6], "s": ["1", "2", "3"]}


def test_tuples_are_fetched_in_order(con):
    rows = con.sql("SELECT value FROM generate_series(1, 20000) ORDER BY 1")
    assert rows.fetchone() == (1,)
    assert rows.fetchmany(2) == [(2,), (3,)]
    assert rows.fetchmany(9999)[-1] == (10002,)
    assert rows.fetchall()[-1] == (20000,)
    assert (rows.fetchone(), rows.fetchmany(5), rows.fetchall()) == (None, [], [])


def test_million_rows(con):
    table = con.sql(NUMBERS.format(10**6)).arrow()
    assert table.num_rows == 10**6
    assert pyarrow.compute.sum(table["b"]).as_py() == 10**6 * (10**6 + 1)
    assert len(con.sql(NUMBERS.format(10**6)).df()) == 10**6


def test_empty_results_keep_their_columns(con):
    empty = con.sql(NUMBERS.format(3) + " WHERE value > 9")
    table = empty.arrow()
    assert (table.num_rows, table.column_names) == (0, ["a", "b", "s"])
    assert empty.df().shape == (0, 3)
    assert empty.pl().shape == (0, 3)
    assert (empty.fetchall(), empty.fetchone()) == ([], None)
    assert empty.record_batch_reader().read_all().num_rows == 0


def test_big_strings(con):
    size = 3 << 20
    query = con.sql(f"SELECT repeat('xyz', {size // 3}) AS s FROM generate_series(1, 4)")
    assert [len(value) for (value,) in query.fetchall()] == [size] * 4
    assert pyarrow.compute.binary_length(query.arrow()["s"].cast("large_string")).to_pylist() == [size] * 4


def test_reader_streams_a_result_larger_than_memory(con):
    reader = con.sql("SELECT value AS a, repeat('x', 1000) AS s FROM generate_series(1, 1000000000000)").record_batch_reader()
    rows = 0
    for batch in reader:
        rows += batch.num_rows
        if rows > 100_000:
            break
    assert rows > 100_000
    reader.close()


def test_other_libraries_read_a_relation(con):
    relation = con.sql(NUMBERS.format(5))
    assert pyarrow.table(relation).num_rows == 5
    assert pyarrow.schema(relation).names == ["a", "b", "s"]
    assert polars.DataFrame(relation)["a"].sum() == 15
    assert duckdb.sql("SELECT sum(b), max(s) FROM relation").fetchall() == [(30, "5")]
    assert pandas.DataFrame.from_arrow(relation)["b"].sum() == 30


def test_reader_requests_another_schema(con):
    relation = con.sql("SELECT CAST(1 AS INTEGER) AS a")
    wide = pyarrow.schema([pyarrow.field("a", pyarrow.int64())])
    reader = pyarrow.RecordBatchReader.from_stream(relation, schema=wide)
    assert reader.read_all().schema.field("a").type == pyarrow.int64()


def test_pyarrow_gets_strings_instead_of_views(con):
    words = pyarrow.array(["a", None, "a string that is longer than a view"], pyarrow.string_view())
    nested = pyarrow.array([["x"], [], None], pyarrow.list_(pyarrow.string_view()))
    con.register("t", pyarrow.table({"w": words, "n": nested, "b": words.cast(pyarrow.binary_view())}))
    relation = con.table("t")
    types = [pyarrow.string(), pyarrow.list_(pyarrow.string()), pyarrow.binary()]
    for table in (relation.arrow(), relation.record_batch_reader().read_all()):
        assert table.schema.types == types
        assert table["w"].to_pylist() == words.to_pylist() and table["n"].to_pylist() == [["x"], [], None]
        assert table.sort_by("w")["w"].to_pylist()[0] == "a"
    assert pyarrow.table(relation).schema.field("w").type == pyarrow.string_view()
    assert relation.pl()["w"].to_list() == words.to_pylist()


def test_error_while_streaming_has_the_message_of_the_terminal(con):
    query = "SELECT 10 / (value - 90000) AS q FROM generate_series(1, 100000)"
    with pytest.raises(pyarrow.ArrowException, match="division by zero in 10 / "):
        pyarrow.table(con.sql(query))
    with pytest.raises(galatea.DataError, match="division by zero in 10 / "):
        con.sql(query).record_batch_reader().read_all()
    with pytest.raises(galatea.DataError, match="division by zero in 10 / "):
        con.sql(query).fetchmany(100000)


def test_columns_and_types(con):
    relation = con.sql("SELECT 1 AS a, 'x' AS b, CAST(1.5 AS DECIMAL(10, 2)) AS c, [1.5] AS d, arrow_cast(now(), 'Timestamp(Second, Some(\"UTC\"))') AS e")
    assert relation.columns == ["a", "b", "c", "d", "e"]
    assert relation.types[:4] == ["BIGINT", "VARCHAR", "DECIMAL(10, 2)", "DOUBLE[]"]
    assert relation.types[4] == "TIMESTAMP(0) WITH TIME ZONE"


def test_duplicate_column_names_and_no_columns(con):
    twice = con.sql("SELECT l.v, r.v FROM (VALUES (1)) AS l(v), (VALUES (2)) AS r(v)")
    assert (twice.columns, twice.fetchall()) == (["v", "v"], [(1, 2)])
    assert twice.arrow().num_rows == 1


def test_relations_are_derived(con):
    base = con.sql("SELECT value AS v, value % 3 AS k FROM generate_series(1, 10)")
    assert base.filter("v > 8").project("v", "v * 10 AS w").order("v DESC").fetchall() == [(10, 100), (9, 90)]
    assert base.aggregate("sum(v) AS s", "k").order("k").fetchall() == [(0, 18), (1, 22), (2, 15)]
    assert base.aggregate(["count(*)", "max(v)"]).fetchall() == [(10, 10)]
    assert base.order("v").limit(2, offset=3).fetchall() == [(4, 1), (5, 2)]
    assert base.project("k").distinct().order("k").fetchall() == [(0,), (1,), (2,)]
    assert base.union(base).aggregate("count(*)").fetchall() == [(20,)]
    names = con.sql("SELECT * FROM (VALUES (0, 'zero'), (1, 'one')) AS n(k, name)")
    joined = base.join(names, on=["k"]).aggregate("count(*) AS n", "name").order("name")
    assert joined.fetchall() == [("one", 4), ("zero", 3)]
    assert base.join(names, on="l.k = r.k AND l.v > 8", how="left anti").fetchall().__len__() == 8
    assert base.join(names.project("name"), how="cross").aggregate("count(*)").fetchall() == [(20,)]
    with pytest.raises(galatea.ProgrammingError, match="unknown join: outer"):
        base.join(names, on=["k"], how="outer")


def test_files_are_written(con, tmp_path):
    relation = con.sql(NUMBERS.format(1000))
    assert relation.write_parquet(tmp_path / "t.parquet", compression="zstd(3)") == 1000
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").num_rows == 1000
    assert relation.write_csv(tmp_path / "t.csv", delimiter=";") == 1000
    assert (tmp_path / "t.csv").read_text().splitlines()[:2] == ["a;b;s", "1;2;1"]
    parts = con.sql("SELECT value AS v, value % 2 AS k FROM generate_series(1, 10)")
    parts.write_parquet(tmp_path / "parts", partition_by=["k"])
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["k=0", "k=1"]


def test_explain_shows_the_device(con):
    relation = con.sql("SELECT count(*) FROM generate_series(1, 10)")
    assert "AggregateExec" in relation.explain() and "(1 rows)" not in relation.explain()
    assert "10" in relation.explain(analyze=True)
