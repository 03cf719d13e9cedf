"""Relations as text and HTML, and progress."""

import io

from galatea._display import text_table
from galatea._progress import Progress, progress


def test_table_of_a_relation(con):
    relation = con.sql("SELECT * FROM (VALUES (1, 'x'), (20, NULL)) AS t(number, s)")
    assert repr(relation) == (
        "┌────────┬─────────┐\n"
        "│ number │ s       │\n"
        "│ bigint │ varchar │\n"
        "├────────┼─────────┤\n"
        "│ 1      │ x       │\n"
        "│ 20     │ NULL    │\n"
        "└────────┴─────────┘"
    )


def test_first_rows_are_shown(con, capsys):
    relation = con.sql("SELECT value FROM generate_series(1, 1000000000000)")
    assert repr(relation).count("\n") == 25 and "│ …" in repr(relation)
    relation.show(3)
    assert capsys.readouterr().out.count("\n") == 9


def test_html_of_a_relation(con):
    html = con.sql("SELECT '<b>' AS \"a&b\" FROM generate_series(1, 30)")._repr_html_()
    assert "<th>a&amp;b<br>" in html and html.count("<td>&lt;b&gt;</td>") == 20 and "…" in html


def test_notebooks_show_text_and_html_of_one_run(con):
    relation = con.sql("SELECT random() AS v")
    shown = relation._repr_mimebundle_()
    value = shown["text/html"].split("<td>")[1].split("<")[0]
    assert value in shown["text/plain"]


def test_statement_without_rows(con):
    done = con.sql("CREATE TABLE t (a BIGINT)")
    assert (repr(done), done._repr_html_()) == ("(no rows)", None)
    assert done._repr_mimebundle_() == {"text/plain": "(no rows)"}


def test_wide_tables_fit_the_terminal():
    names = [f"column_{number}" for number in range(30)]
    text = text_table(names, ["VARCHAR"] * 30, [["value" * 20] * 30], True, 80)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert "column_0" in text and "column_29" in text and "…" in text
    wide = text_table(["名前"], ["VARCHAR"], [["東京"]], False, 80).split("\n")
    assert wide[1] == "│ 名前    │" and wide[4] == "│ 東京    │"


def test_progress_is_drawn_and_removed():
    out = io.StringIO()
    bar = Progress(out)
    bar.draw("reading", 50, 200, 2.0)
    assert "reading [#######......................." in out.getvalue() and "25%" in out.getvalue()
    bar.draw("computing", 0, None, 3.0)
    bar.clear()
    assert out.getvalue().endswith("\r")


def test_progress_needs_a_terminal(monkeypatch):
    import sys

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress(None) is None and progress(False) is None
    assert isinstance(progress(True), Progress)


def test_progress_of_a_long_query(monkeypatch):
    import sys

    import galatea

    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    con = galatea.connect(device="cpu", progress=True)
    con.sql("SELECT 1").fetchall()
    assert out.getvalue() == ""
    con.sql("SELECT count(*) FROM generate_series(1, 400000000) AS t(v) WHERE v % 7 = 3").fetchall()
    assert "Ctrl-C cancels" in out.getvalue() and out.getvalue().endswith("\r")
