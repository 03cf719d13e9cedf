"""The driver through adbc_driver_manager, as programs in Python use it."""

import datetime
import decimal
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import adbc_driver_manager
import pyarrow
import pytest
from adbc_driver_manager import dbapi

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000000) AS t(v) WHERE v % 7 = 3"


def test_query_returns_arrow(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT v, v * 1.5 AS w, 'x' || v AS s FROM (VALUES (1), (NULL), (3)) AS t(v) ORDER BY v NULLS LAST")
        assert [column[0] for column in cursor.description] == ["v", "w", "s"]
        table = cursor.fetch_arrow_table()
        assert table.to_pydict() == {"v": [1, 3, None], "w": [1.5, 4.5, None], "s": ["x1", "x3", None]}
        cursor.execute("SELECT 1 AS a WHERE false")
        assert cursor.fetch_arrow_table().schema.field("a").type == pyarrow.int64()
        assert cursor.fetchall() == []


def test_rows_are_values_of_python(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT DATE '2026-11-29', 1.25::DECIMAL(5, 2), true, [1, NULL], TIMESTAMP '2026-11-29 10:00:00'")
        row = cursor.fetchone()
        assert row[:3] == (datetime.date(2026, 11, 29), decimal.Decimal("1.25"), True)
        assert list(row[3]) == [1, None]
        assert row[4] == datetime.datetime(2026, 11, 29, 10)
        assert cursor.fetchone() is None


def test_rows_arrive_while_the_query_runs(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM generate_series(1, 1000000000000000) AS t(value)")
        reader = cursor.fetch_record_batch()
        batches = [reader.read_next_batch() for _ in range(3)]
        assert batches[0].column(0)[0].as_py() == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT 42")
        assert cursor.fetchone() == (42,)


def test_parameters(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT ? + 1, ?, ? IS NULL", (41, "a'b", None))
        assert cursor.fetchall() == [(42, "a'b", True)]
        cursor.execute("SELECT $2 - $1", (1, 43))
        assert cursor.fetchall() == [(42,)]
        cursor.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, None), (3, "z")])
        assert cursor.rowcount == 3
        cursor.execute("SELECT a, b FROM t WHERE a >= ? ORDER BY a", (2,))
        table = cursor.fetch_arrow_table()
        assert table.to_pydict() == {"a": [2, 3], "b": [None, "z"]}
        assert table.schema.field("a").type == pyarrow.int32()
        schema = cursor.adbc_prepare("SELECT * FROM t WHERE a = ?")
        assert schema.types == [pyarrow.int32()]


def test_query_runs_for_each_row_of_a_table(connection):
    with connection.cursor() as cursor:
        rows = pyarrow.table({"low": [1, 5], "high": [2, 6]})
        cursor.execute("SELECT v FROM (VALUES (1), (2), (6)) AS t(v) WHERE v BETWEEN $low AND $high ORDER BY v", rows)
        assert cursor.fetchall() == [(1,), (2,), (6,)]


@pytest.mark.parametrize("on_disk", [False, True])
def test_ingestion(connect, tmp_path, on_disk):
    connection = connect(str(tmp_path / "my.db") if on_disk else "")
    table = pyarrow.table({"n": [1, 2, 3], "s": ["a", None, "c"]})
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("t", table, mode="create") == 3
        with pytest.raises(dbapi.ProgrammingError) as raised:
            cursor.adbc_ingest("t", table, mode="create")
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.ALREADY_EXISTS
        assert cursor.adbc_ingest("t", table.to_reader(max_chunksize=1), mode="append") == 3
        cursor.execute("SELECT count(*), sum(n), count(s) FROM t")
        assert cursor.fetchone() == (6, 12, 4)
        assert cursor.adbc_ingest("t", table.slice(2), mode="replace") == 1
        assert cursor.adbc_ingest("t", table.select(["n"]), mode="create_append") == 3
        cursor.execute("SELECT n, s FROM t ORDER BY n, s")
        assert cursor.fetchall() == [(1, None), (2, None), (3, "c"), (3, None)]
        with pytest.raises(dbapi.ProgrammingError) as raised:
            cursor.adbc_ingest("absent", table, mode="append")
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.NOT_FOUND
        with pytest.raises(dbapi.NotSupportedError):
            cursor.adbc_ingest("temporary", table, mode="create", temporary=True)


def test_rows_of_a_generator_are_ingested(connection):
    schema = pyarrow.schema([("n", pyarrow.int64())])
    batches = (pyarrow.record_batch([[number]], schema=schema) for number in range(100))
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("t", pyarrow.RecordBatchReader.from_batches(schema, batches), mode="create") == 100
        cursor.execute("SELECT sum(n) FROM t")
        assert cursor.fetchone() == (4950,)


@pytest.mark.parametrize(
    ("sql", "error", "status", "sqlstate"),
    [
        ("SELEC 1", dbapi.ProgrammingError, "INVALID_ARGUMENT", "42601"),
        ("SELECT * FROM absent", dbapi.ProgrammingError, "NOT_FOUND", "42P01"),
        ("SELECT absent FROM t", dbapi.ProgrammingError, "INVALID_ARGUMENT", "42703"),
        ("CREATE TABLE t AS SELECT 1", dbapi.ProgrammingError, "ALREADY_EXISTS", "42P07"),
        ("SELECT 1 / (a - 1) FROM t", dbapi.DataError, "INVALID_DATA", "22012"),
        ("INSERT INTO t VALUES (2) RETURNING a", dbapi.NotSupportedError, "NOT_IMPLEMENTED", "0A000"),
    ],
)
def test_errors(connection, sql, error, status, sqlstate):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(error) as raised:
            cursor.execute(sql)
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode[status]
        assert raised.value.sqlstate == sqlstate
        cursor.execute("SELECT a FROM t")
        assert cursor.fetchone() == (1,)


def test_error_of_a_later_batch(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT CASE WHEN v < 200000 THEN 1 ELSE 1 / (v - 250000) END FROM generate_series(1, 300000) AS t(v)")
        with pytest.raises(Exception, match=r"division by zero in 1 / \(v - 250000\)(.|\n)*22012"):
            cursor.fetchall()
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_message_has_the_position_and_the_hint(connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE people AS SELECT 'x' AS name")
        with pytest.raises(dbapi.ProgrammingError, match=r"no such column: nme\nline 1: SELECT nme FROM people\n +\^\^\^\nhint: did you mean name"):
            cursor.execute("SELECT nme FROM people")


@pytest.mark.parametrize("cancels", ["cursor", "connection"])
def test_query_is_cancelled_from_a_thread(connection, cancels):
    with connection.cursor() as cursor:
        cancel = cursor.adbc_cancel if cancels == "cursor" else connection.adbc_cancel
        timer = threading.Timer(0.3, cancel)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(dbapi.OperationalError) as raised:
            cursor.execute(ENDLESS)
        assert time.monotonic() - begun < 10
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.CANCELLED
        timer.join()
        cursor.execute("SELECT 42")
        assert cursor.fetchone() == (42,)


def test_limit_of_time(connection):
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.galatea.timeout_seconds": "0.3"})
        with pytest.raises(dbapi.OperationalError) as raised:
            cursor.execute(ENDLESS)
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.TIMEOUT


def test_connections_share_tables_and_not_settings(connection):
    with connection.adbc_clone() as other, connection.cursor() as cursor, other.cursor() as second:
        cursor.execute("CREATE TABLE t AS SELECT 41 AS a")
        cursor.execute("CREATE MACRO more(x) AS x + 1")
        cursor.execute("SET datafusion.execution.batch_size = 77")
        second.execute("SELECT more(a) FROM t")
        assert second.fetchall() == [(42,)]
        setting = "SELECT value FROM information_schema.df_settings WHERE name = 'datafusion.execution.batch_size'"
        second.execute(setting)
        assert second.fetchone() == ("8192",)
        cursor.execute(setting)
        assert cursor.fetchone() == ("77",)


def test_threads_have_connections_of_their_own(connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a BIGINT)")

    def insert(start):
        with connection.adbc_clone() as own, own.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (?)", [(start + number,) for number in range(25)])

    threads = [threading.Thread(target=insert, args=(start,)) for start in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), sum(a) FROM t")
        assert cursor.fetchone() == (100, 4950)


def test_database_lasts(tmp_path, driver):
    path = str(tmp_path / "my.db")
    with dbapi.connect(driver=driver, db_kwargs={"path": path, "galatea.device": "cpu"}, autocommit=True) as first:
        with first.cursor() as cursor:
            cursor.execute("CREATE TABLE t AS SELECT 40 AS a")
            cursor.execute("INSERT INTO t VALUES (2)")
            cursor.execute("CREATE VIEW v AS SELECT sum(a) AS s FROM t")
        # The same folder in the same process.
        with dbapi.connect(driver=driver, db_kwargs={"uri": path}, autocommit=True) as second, second.cursor() as cursor:
            cursor.execute("SELECT s FROM v")
            assert cursor.fetchone() == (42,)
    program = textwrap.dedent(
        f"""
        from adbc_driver_manager import dbapi
        with dbapi.connect(driver={driver!r}, db_kwargs={{"uri": {path!r}, "galatea.device": "cpu"}}, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT s FROM v")
                print(cursor.fetchone())
        """
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(42,)", done


def test_database_of_another_process_is_locked(connect, tmp_path, driver):
    path = str(tmp_path / "my.db")
    connect(path)
    program = textwrap.dedent(
        f"""
        from adbc_driver_manager import dbapi
        dbapi.connect(driver={driver!r}, db_kwargs={{"uri": {path!r}}}, autocommit=True)
        """
    )
    locked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "is open in another process" in locked.stderr, locked


def test_metadata(connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR)")
        cursor.execute("CREATE VIEW v AS SELECT a FROM t")
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Galatea" and info["driver_adbc_version"] == 1_001_000
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW", "LOCAL TEMPORARY"]
    assert connection.adbc_get_table_schema("t").names == ["a", "b"]
    assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("datafusion", "public")
    objects = connection.adbc_get_objects(table_name_filter="t").read_all().to_pylist()
    (table,) = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
    columns = [(column["column_name"], column["xdbc_type_name"], column["xdbc_is_nullable"]) for column in table["table_columns"]]
    assert columns == [("a", "BIGINT", "NO"), ("b", "VARCHAR", "YES")]
    objects = connection.adbc_get_objects(depth="tables", table_types_filter=["VIEW"]).read_all().to_pylist()
    assert [table["table_name"] for table in objects[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["v"]
    with connection.cursor() as cursor:
        assert cursor.adbc_execute_schema("SELECT a FROM v").types == [pyarrow.int64()]


def test_transactions_are_refused(driver):
    with pytest.warns(Warning, match="Cannot disable autocommit"):
        dbapi.connect(driver=driver, db_kwargs={"galatea.device": "cpu"}).close()
    with pytest.raises(dbapi.ProgrammingError, match="such a setting|unknown|colour"):
        dbapi.connect(driver=driver, db_kwargs={"galatea.colour": "red"}, autocommit=True)


def test_string_views_are_an_option(connect):
    sql = "SELECT arrow_cast('a', 'Utf8View') AS s"
    for value, expected in [("true", pyarrow.string_view()), ("false", pyarrow.string())]:
        with connect(**{"adbc.galatea.string_views": value}).cursor() as cursor:
            cursor.execute(sql)
            assert cursor.fetch_arrow_table().schema.types == [expected]


def test_polars_and_pandas_read(connection):
    polars = pytest.importorskip("polars")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS s UNION ALL SELECT 2, NULL")
    frame = polars.read_database("SELECT a, s FROM t ORDER BY a", connection)
    assert frame.to_dict(as_series=False) == {"a": [1, 2], "s": ["x", None]}
    pandas = pytest.importorskip("pandas")
    assert pandas.read_sql("SELECT a FROM t ORDER BY a", connection)["a"].tolist() == [1, 2]


def test_manifest_names_the_driver(driver, tmp_path):
    """The manifest of the release archive, with this library, in a folder of ADBC_DRIVER_PATH."""
    manifest = (Path(__file__).parents[2] / "galatea.toml").read_text()
    assert "@FOLDER@/libadbc_driver_galatea.so" in manifest
    folder = tmp_path / "drivers"
    folder.mkdir()
    (folder / "galatea.toml").write_text(manifest.replace("@FOLDER@", str(Path(driver).parent)))
    program = textwrap.dedent(
        """
        from adbc_driver_manager import dbapi
        with dbapi.connect(driver="galatea", db_kwargs={"galatea.device": "cpu"}, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 40 + 2")
                print(cursor.fetchone()[0])
        """
    )
    environment = os.environ | {"ADBC_DRIVER_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["42"], done


def test_forked_process_is_refused(driver):
    program = textwrap.dedent(
        f"""
        import os
        from adbc_driver_manager import dbapi
        connection = dbapi.connect(driver={driver!r}, db_kwargs={{"galatea.device": "cpu"}}, autocommit=True)
        if os.fork() == 0:
            try:
                connection.cursor().execute("SELECT 1")
            except dbapi.Error as error:
                os.write(1, str(error).encode())
            os._exit(0)
        os.wait()
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT 42")
            print(cursor.fetchone())
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert "before the process was forked" in done.stdout and "(42,)" in done.stdout, done


def test_process_ends_while_a_query_runs(driver):
    program = textwrap.dedent(
        f"""
        from adbc_driver_manager import dbapi
        connection = dbapi.connect(driver={driver!r}, db_kwargs={{"galatea.device": "cpu"}}, autocommit=True)
        cursor = connection.cursor()
        cursor.execute("SELECT value FROM generate_series(1, 1000000000000000) AS t(value)")
        print(cursor.fetchone()[0], flush=True)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["1"], done
