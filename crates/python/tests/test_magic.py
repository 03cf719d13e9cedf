"""The extension of IPython."""

import pandas
import pytest
from IPython.testing.globalipapp import start_ipython

import galatea


@pytest.fixture(scope="module")
def shell():
    shell = start_ipython()
    shell.run_line_magic("load_ext", "galatea")
    return shell


def test_line_and_cell(shell):
    assert shell.run_line_magic("sql", "SELECT 42 AS a").fetchall() == [(42,)]
    assert shell.run_cell_magic("sql", "", "SELECT 1 AS a\nUNION ALL SELECT 2;\n").arrow().num_rows == 2


def test_variables_of_the_notebook_are_tables(shell):
    shell.user_ns["cells"] = pandas.DataFrame({"a": [1, 2]})
    assert shell.run_cell_magic("sql", "result", "SELECT sum(a) AS s FROM cells") is None
    assert shell.user_ns["result"].fetchall() == [(3,)]
    assert shell.run_line_magic("sql", "SELECT s + 1 FROM result").fetchall() == [(4,)]


def test_wrong_name_is_refused(shell):
    with pytest.raises(galatea.ProgrammingError, match="not the name of a variable: SELECT 1"):
        shell.run_cell_magic("sql", "SELECT 1", "SELECT 2")
