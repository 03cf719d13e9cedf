"""Times SQL queries on DuckDB. Reads one JSON object from standard input, writes one to standard output.

in:  {"tables": {name: file pattern}, "in_memory": bool, "queries": [[name, sql]], "iterations": n, "warmups": n}
out: {"version": text, "threads": n, "runs": [{"query": name, "iteration": n, "warmup": bool, "seconds": s, "rows": n}]}
"""
import json
import sys
import time

import duckdb

job = json.load(sys.stdin)
connection = duckdb.connect()
# A progress bar would be printed on standard output, before the response.
connection.execute("SET enable_progress_bar = false")
for name, files in job["tables"].items():
    kind = "TABLE" if job["in_memory"] else "VIEW"
    connection.execute(f"""CREATE {kind} "{name}" AS SELECT * FROM read_parquet('{files.replace("'", "''")}')""")
runs = []
for name, sql in job["queries"]:
    for number in range(job["warmups"] + job["iterations"]):
        start = time.perf_counter()
        rows = connection.execute(sql).fetchall()
        seconds = time.perf_counter() - start
        warmup = number < job["warmups"]
        iteration = number if warmup else number - job["warmups"]
        runs.append({"query": name, "iteration": iteration, "warmup": warmup, "seconds": seconds, "rows": len(rows)})
threads = connection.execute("SELECT current_setting('threads')").fetchone()[0]
json.dump({"version": duckdb.__version__, "threads": int(threads), "runs": runs}, sys.stdout)
