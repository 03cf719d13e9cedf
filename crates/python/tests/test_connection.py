"""Connections: settings, statements, reports, closing."""

import subprocess
import sys

import pytest

import galatea


def test_version_and_module_attributes():
    assert galatea.__version__.count(".") == 2
    assert (galatea.apilevel, galatea.threadsafety, galatea.paramstyle) == ("2.0", 2, "qmark")
    assert all(hasattr(galatea, name) for name in galatea.__all__)


def test_settings_of_galatea_and_of_datafusion(con):
    con = galatea.connect(
        {"datafusion.execution.target_partitions": 3}, device="cpu", memory__store_limit="1 GiB"
    )
    setting = lambda name: con.sql(f"SHOW {name}").fetchall()[0][1]
    assert setting("datafusion.execution.target_partitions") == "3"
    assert setting("galatea.device") == "cpu"
    assert setting("galatea.memory.store_limit") == "1 GiB"


def test_unknown_setting_is_refused():
    with pytest.raises(galatea.ProgrammingError, match="unknown setting: galatea.devise\nhint: did you mean"):
        galatea.connect(devise="cpu")
    with pytest.raises(galatea.ProgrammingError, match="galatea.device"):
        galatea.connect(device="tpu")


def test_connections_have_separate_tables(con):
    con.sql("CREATE TABLE t AS SELECT 1 AS a")
    with galatea.connect(device="cpu") as other, pytest.raises(galatea.ProgrammingError, match="no such table: t"):
        other.sql("SELECT * FROM t")


def test_statements_run_at_once(con):
    con.sql("CREATE TABLE t (a BIGINT)")
    assert con.sql("INSERT INTO t VALUES (1), (2)").fetchall() == [(2,)]
    inserted = con.sql("INSERT INTO t VALUES (3)")
    assert inserted.fetchall() == inserted.fetchall() == [(1,)]
    assert con.sql("SELECT count(*) FROM t").fetchall() == [(3,)]
    assert con.sql("DROP TABLE t").fetchall() == []


def test_queries_are_lazy_and_run_again(con):
    con.sql("CREATE TABLE t AS SELECT 1 AS a")
    counted = con.sql("SELECT count(*) FROM t")
    assert counted.fetchall() == [(1,)]
    con.sql("INSERT INTO t VALUES (2)")
    assert counted.fetchall() == [(2,)]
    assert con.sql("SELECT 1 / 0").columns == ["1 / 0"]


def test_statements_beyond_datafusion(con):
    assert con.sql("FROM (VALUES (1), (2)) AS t(v)").fetchall() == [(1,), (2,)]
    con.sql("SET datafusion.execution.batch_size = 17")
    con.sql("RESET datafusion.execution.batch_size")
    assert con.sql("SHOW datafusion.execution.batch_size").fetchall()[0][1] == "8192"


def test_files_are_tables(con, tmp_path):
    file = tmp_path / "fares.csv"
    file.write_text("k,fare\na,1.5\nb,2.5\n")
    assert con.sql(f"SELECT sum(fare) FROM '{file}'").fetchall() == [(4.0,)]
    assert con.read(file).filter("k = 'b'").fetchall() == [("b", 2.5)]
    con.sql(f"CREATE EXTERNAL TABLE fares STORED AS CSV LOCATION '{file}'")
    assert con.table("fares").columns == ["k", "fare"]


def test_report_names_the_device(con):
    con.sql("SELECT count(*) FROM generate_series(1, 10)").fetchall()
    report = con.last_report()
    assert report.device == "CPU"
    assert report.reasons and "galatea.device = cpu" in str(report)
    assert set(report.seconds) == {"planning", "compile", "load", "transfer", "kernel", "total"}
    con.sql("SET datafusion.execution.batch_size = 100")
    assert con.last_report() is None


def test_device_info_without_a_gpu_names_the_missing_part():
    info = galatea.device_info()
    assert info.available == (info.missing is None)
    if not info.available:
        assert {"part", "reason", "remedy"} == set(info.missing)
        assert str(info).startswith("Queries run on the CPU: no ")


def test_closed_connection_is_refused(con):
    con.close()
    for use in (lambda: con.sql("SELECT 1"), con.cursor, con.last_report):
        with pytest.raises(galatea.ProgrammingError, match="the connection is closed"):
            use()


def test_default_connection_keeps_its_tables():
    galatea.sql("CREATE OR REPLACE TABLE default_table AS SELECT 7 AS a")
    assert galatea.sql("SELECT a FROM default_table").fetchall() == [(7,)]
    assert galatea.default_connection() is galatea.default_connection()


def test_interpreter_ends_during_a_query():
    program = """
import galatea, threading, time
def work():
    galatea.sql("SELECT count(*) FROM generate_series(1, 1000000000000) AS t(v) WHERE v % 3 = 1").fetchall()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_package_needs_no_other_one():
    program = """
import sys
for name in ("numpy", "pandas", "polars", "pyarrow", "sklearn"):
    sys.modules[name] = None
import galatea
relation = galatea.sql("SELECT ? AS a, DATE '2024-01-01' AS d", ["x"])
assert relation.fetchall()[0][0] == "x" and "2024-01-01" in repr(relation)
try:
    relation.arrow()
except ImportError:
    print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


def test_forked_process_gets_an_error():
    program = """
import galatea, os
galatea.sql("SELECT 1").fetchall()
if os.fork() == 0:
    try:
        galatea.sql("SELECT 1").fetchall()
    except galatea.OperationalError as error:
        os._exit(0 if "forked" in str(error) else 2)
    os._exit(1)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
