"""Threads and interruption."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pandas
import pytest

import galatea

ENDLESS = "SELECT count(*) FROM generate_series(1, 10000000000000) AS t(v) WHERE v % 7 = 3"


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_gil_is_released_while_a_query_runs(con):
    counted = 0
    running = True

    def count():
        nonlocal counted
        while running:
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    query = con.sql("SELECT count(*) FROM generate_series(1, 30000000) AS t(v) WHERE v % 7 = 3")
    before, start = counted, time.monotonic()
    query.fetchall()
    took, during = time.monotonic() - start, counted - before
    running = False
    thread.join()
    # The thread counts about once in a millisecond, unless the query holds the GIL.
    assert during > took * 1000 / 20, (during, took)


def test_threads_share_a_connection(con):
    con.sql("CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 1000)")

    def work(number):
        frame = pandas.DataFrame({"n": [number] * 10})
        rows = con.sql("SELECT sum(v) + ? FROM t", [number]).fetchall()
        variable = con.sql("SELECT sum(n), count(*) FROM frame").fetchall()
        return rows == [(500500 + number,)] and variable == [(10 * number, 10)] and len(frame) == 10

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


def test_threads_share_a_relation(con):
    relation = con.sql("SELECT sum(value) FROM generate_series(1, 100000)")
    with ThreadPoolExecutor(8) as pool:
        assert set(map(str, pool.map(lambda _: relation.fetchall(), range(32)))) == {"[(5000050000,)]"}


@pytest.mark.parametrize("fetch", ["fetchall", "fetchone", "arrow", "df", "pl", "show", "explain", "reader"])
def test_ctrl_c_cancels_a_query(con, fetch):
    relation = con.sql(ENDLESS)
    others = {
        "explain": lambda: relation.explain(analyze=True),
        "reader": lambda: relation.record_batch_reader().read_all(),
    }
    run = others[fetch] if fetch in others else getattr(relation, fetch)
    timer = interrupt_after(0.4)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    timer.join()
    assert time.monotonic() - start < 10
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_cancelled_query_stops(con):
    timer = interrupt_after(0.4)
    with pytest.raises(KeyboardInterrupt):
        con.sql(ENDLESS).fetchall()
    timer.join()
    time.sleep(0.5)
    used = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - used < 0.25


def test_ctrl_c_cancels_statements_that_run_at_once(con):
    timer = interrupt_after(0.4)
    with pytest.raises(KeyboardInterrupt):
        con.sql(f"CREATE TABLE t AS {ENDLESS}")
    timer.join()
    with pytest.raises(galatea.ProgrammingError):
        con.table("t")


def test_ctrl_c_cancels_a_reader_of_another_library(con):
    program = f"""
import galatea, os, pandas, pyarrow, signal, threading
relation = galatea.connect(device="cpu").sql({ENDLESS!r})
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    pyarrow.table(relation)
except pyarrow.ArrowException as error:
    print(error)
print(galatea.sql("SELECT 1").fetchall())
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["External error: the query was cancelled", "[(1,)]"], done.stderr


def test_query_of_another_thread_survives_ctrl_c(con):
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(
            lambda: con.sql("SELECT count(*) FROM generate_series(1, 60000000) AS t(v) WHERE v % 7 = 3").fetchall()
        )
        timer = interrupt_after(0.3)
        with pytest.raises(KeyboardInterrupt):
            con.sql(ENDLESS).fetchall()
        timer.join()
        assert other.result() == [(8571429,)]


def test_dropped_reader_ends_its_query(con):
    reader = con.sql("SELECT value FROM generate_series(1, 10000000000000)").record_batch_reader()
    assert reader.read_next_batch().num_rows > 0
    del reader
    time.sleep(0.3)
    used = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - used < 0.2


def test_ctrl_c_ends_a_clustering_with_its_centroids(con):
    con.sql("CREATE TABLE points AS SELECT random() AS x, random() AS y FROM generate_series(1, 500000)")
    query = "SELECT * FROM kmeans((SELECT * FROM points), k => 200, max_iter => 100000, tol => 0, on_interrupt => 'keep')"
    timer = interrupt_after(2)
    start = time.monotonic()
    clusters = con.sql(query).fetchall()
    # On a fast machine the clustering may have converged before.
    timer.cancel()
    assert len(clusters) == 200 and sum(cluster[3] for cluster in clusters) == 500000
    assert time.monotonic() - start < 60
