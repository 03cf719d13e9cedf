"""Queries on the emulated device."""

import numpy
import pandas
import pyarrow


def rows():
    random = numpy.random.default_rng(1)
    return pandas.DataFrame(
        {
            "k": random.integers(0, 20, 50_000),
            "v": random.integers(-1000, 1000, 50_000),
            "s": random.choice(["a", "bb", "ccc"], 50_000),
        }
    )


def test_query_over_a_registered_table(emulated):
    frame = rows()
    emulated.register("frame", frame)
    result = emulated.sql("SELECT k, sum(v) AS s, count(*) AS n FROM frame WHERE s <> 'bb' GROUP BY k ORDER BY k").df()
    expected = frame[frame.s != "bb"].groupby("k").v.agg(["sum", "count"]).reset_index()
    assert result.values.tolist() == expected.values.tolist()
    assert emulated.last_report().device == "emulated GPU"
    assert emulated.last_report().placed > 0


def test_query_over_a_variable_and_a_file(emulated, tmp_path):
    frame = rows()
    names = pyarrow.table({"k": list(range(20)), "name": [f"name {k}" for k in range(20)]})
    emulated.sql("SELECT * FROM frame").write_parquet(tmp_path / "t.parquet")
    query = "SELECT name, sum(v) AS s FROM {} AS t JOIN names USING (k) GROUP BY name ORDER BY name"
    of_variable = emulated.sql(query.format("frame")).fetchall()
    of_file = emulated.sql(query.format(f"'{tmp_path / 't.parquet'}'")).fetchall()
    assert of_variable == of_file and len(of_file) == names.num_rows
    assert "emulated" in emulated.last_report().device


def test_explain_names_the_emulated_device(emulated):
    frame = rows()
    plan = emulated.sql("SELECT k, sum(v) FROM frame GROUP BY k").explain()
    assert "emulated GPU" in plan and len(frame) == 50_000


def test_streams_of_the_device(emulated):
    emulated.register("frame", rows())
    reader = emulated.sql("SELECT k, v FROM frame WHERE v > 500").record_batch_reader()
    assert reader.read_all().num_rows == int((rows().v > 500).sum())


def test_emulated_device_needs_the_permission_of_the_process(con):
    import galatea
    import pytest

    con.sql("SET galatea.device = 'emulated'")
    with pytest.raises(galatea.Error, match="emulated"):
        con.sql("SELECT count(*) FROM generate_series(1, 10)").fetchall()
