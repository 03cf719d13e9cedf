"""Tables from Python objects: registered ones, and variables."""

import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import galatea

in_module = pandas.DataFrame({"a": [100]})


class Exporter:
    """An object with Arrow's interface, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


ROWS = {"a": [1, 2, 3], "b": ["x", "y", None]}
OBJECTS = {
    "pandas": lambda: pandas.DataFrame(ROWS),
    "polars": lambda: polars.DataFrame(ROWS),
    "polars lazy": lambda: polars.LazyFrame(ROWS),
    "table": lambda: pyarrow.table(ROWS),
    "batch": lambda: pyarrow.RecordBatch.from_pydict(ROWS),
    "reader": lambda: pyarrow.table(ROWS).to_reader(),
    "exporter": lambda: Exporter(pyarrow.table(ROWS)),
    "dataset": lambda: pyarrow.dataset.dataset(pyarrow.table(ROWS)),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_are_registered(con, kind):
    con.register("t", OBJECTS[kind]())
    for _ in range(2):
        assert con.sql("SELECT sum(a), count(b) FROM t").fetchall() == [(6, 2)]


@pytest.mark.parametrize("kind", OBJECTS)
def test_variables_are_tables(con, kind):
    frame = OBJECTS[kind]()
    assert con.sql("SELECT sum(a), count(b) FROM frame").fetchall() == [(6, 2)]
    assert frame is not None


def test_local_variables_precede_those_of_the_module(con):
    assert con.sql("SELECT a FROM in_module").fetchall() == [(100,)]

    def local():
        in_module = pandas.DataFrame({"a": [1]})
        assert len(in_module) == 1
        return con.sql("SELECT a FROM in_module").fetchall()

    assert local() == [(1,)]


def test_tables_precede_variables(con):
    con.sql("CREATE TABLE t AS SELECT 'table' AS a")
    t = pandas.DataFrame({"a": ["variable"]})
    assert con.sql("SELECT a FROM t").fetchall() == [("table",)]
    con.sql("DROP TABLE t")
    assert con.sql("SELECT a FROM t").fetchall() == [("variable",)]
    assert len(t) == 1


def test_names_in_another_case_find_variables(con):
    Orders = pandas.DataFrame({"a": [5]})
    assert con.sql("SELECT a FROM Orders").fetchall() == con.sql('SELECT a FROM "Orders"').fetchall() == [(5,)]
    assert len(Orders) == 1


def test_variables_are_read_when_the_query_is_planned(con):
    frame = pandas.DataFrame({"a": [1]})
    first = con.sql("SELECT sum(a) FROM frame")
    frame = pandas.DataFrame({"a": [1, 2]})
    assert con.sql("SELECT sum(a) FROM frame").fetchall() == [(3,)]
    assert first.fetchall() == [(1,)]
    assert len(frame) == 2


def test_relations_are_tables_of_other_queries(con):
    base = con.sql("SELECT value AS v FROM generate_series(1, 10)")
    even = con.sql("SELECT v FROM base WHERE v % 2 = 0")
    assert con.sql("SELECT count(*), sum(v) FROM even").fetchall() == [(5, 30)]
    con.register("registered", even)
    assert con.sql("SELECT max(v) FROM registered").fetchall() == [(10,)]
    with galatea.connect(device="cpu") as other:
        assert other.sql("SELECT sum(v) FROM even").fetchall() == [(30,)]
    assert base.columns == ["v"]


def test_variables_join_with_tables_and_with_themselves(con):
    con.sql("CREATE TABLE names AS SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS t(k, name)")
    frame = polars.DataFrame({"k": [1, 2, 2]})
    assert con.sql("SELECT name, count(*) FROM frame JOIN names USING (k) GROUP BY 1 ORDER BY 1").fetchall() == [
        ("one", 1),
        ("two", 2),
    ]
    assert con.sql("WITH f AS (SELECT * FROM frame) SELECT count(*) FROM f, frame").fetchall() == [(9,)]
    assert len(frame) == 3


def test_tables_are_created_from_variables(con):
    frame = pandas.DataFrame(ROWS)
    con.sql("CREATE TABLE kept AS SELECT * FROM frame")
    del frame
    assert con.sql("SELECT count(*) FROM kept").fetchall() == [(3,)]


def test_statements_change_tables_and_not_variables(con):
    frame = pandas.DataFrame(ROWS)
    con.sql("CREATE TABLE frame AS SELECT a + 10 AS a FROM frame")
    con.sql("INSERT INTO frame VALUES (14)")
    assert con.sql("SELECT sum(a) FROM frame").fetchall() == [(50,)]
    con.sql("DROP TABLE frame")
    con.sql("CREATE SCHEMA other")
    con.sql("CREATE TABLE other.frame AS SELECT * FROM frame")
    assert con.sql("INSERT INTO other.frame SELECT * FROM frame").fetchall() == [(3,)]
    with pytest.raises(galatea.ProgrammingError, match="frame is a variable, which statements cannot change"):
        con.sql("INSERT INTO frame VALUES (4, 'z')")
    with pytest.raises(galatea.Error):
        con.sql("DROP TABLE frame")
    assert len(frame) == 3


def test_index_of_pandas_is_no_column(con):
    frame = pandas.DataFrame({"a": [1, 2]}, index=["x", "y"])
    assert con.sql("SELECT * FROM frame").columns == ["a"]
    result = con.sql("SELECT * FROM frame").df()
    assert list(result.index) == [0, 1] and len(frame) == 2


def test_buffers_are_not_copied(con):
    values = pyarrow.array(range(1000), pyarrow.int64())
    con.register("t", pyarrow.table({"a": values}))
    result = con.sql("SELECT a FROM t").arrow()["a"].chunk(0)
    assert result.buffers()[1].address == values.buffers()[1].address


def test_chunks_and_slices(con):
    chunks = pyarrow.chunked_array([[1, 2], [], [3, None]])
    con.register("t", pyarrow.table({"a": chunks}).slice(1, 3))
    assert con.sql("SELECT a FROM t").fetchall() == [(2,), (3,), (None,)]
    con.register("big", pyarrow.table({"a": pyarrow.array(range(200_000))}))
    assert con.sql("SELECT sum(a), count(*) FROM big").fetchall() == [(19999900000, 200000)]


def test_registered_tables_are_replaced_and_removed(con):
    con.register("t", pandas.DataFrame({"a": [1]})).register("t", pandas.DataFrame({"b": ["x"]}))
    assert con.table("t").fetchall() == [("x",)]
    con.unregister("t")
    with pytest.raises(galatea.ProgrammingError, match="no such table: t"):
        con.table("t")
    with pytest.raises(galatea.ProgrammingError, match="no such table: t"):
        con.unregister("t")


def test_names_of_registered_tables_are_sql(con):
    con.register("Orders", pandas.DataFrame({"a": [1]})).register('"Two words"', pandas.DataFrame({"a": [2]}))
    assert con.sql("SELECT a FROM ORDERS").fetchall() == con.table("Orders").fetchall() == [(1,)]
    assert con.sql('SELECT a FROM "Two words"').fetchall() == con.table('"Two words"').fetchall() == [(2,)]
    con.unregister("Orders")
    con.sql("CREATE SCHEMA other")
    con.register("other.t", pandas.DataFrame({"a": [3]}))
    assert con.table("other.t").fetchall() == [(3,)]


def test_objects_that_are_no_tables_are_refused(con):
    number = 5
    with pytest.raises(galatea.InterfaceError, match="an object of type int is not a table\nhint: tables are"):
        con.register("t", number)
    with pytest.raises(galatea.ProgrammingError, match="no such table: number"):
        con.sql("SELECT * FROM number")
    mixed = pandas.DataFrame({"a": [1, "x"]})
    with pytest.raises(Exception, match="Conversion failed for column a"):
        con.sql("SELECT * FROM mixed")
    assert con.sql("SELECT 1").fetchall() == [(1,)] and len(mixed) == 2
    with pytest.raises(galatea.InterfaceError, match="cannot be read as a table"):
        con.register("t", polars.Series([1, 2]))


def test_errors_of_an_object_are_raised(con):
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("out of paper")

    broken = Broken()
    with pytest.raises(galatea.InterfaceError, match="out of paper") as raised:
        con.sql("SELECT * FROM broken")
    assert isinstance(raised.value.__cause__, RuntimeError) and broken is not None

    def batches():
        yield pyarrow.record_batch({"a": [1]})
        raise ValueError("the source ended")

    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("a", pyarrow.int64())]), batches())
    with pytest.raises(galatea.InterfaceError, match="the source ended"):
        con.register("t", reader)


def test_metadata_of_pandas_is_not_passed_on(con):
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]}).set_index("a")
    con.register("t", pyarrow.Table.from_pandas(frame))
    assert list(con.sql("SELECT b, b AS a FROM t").df().columns) == ["b", "a"]
