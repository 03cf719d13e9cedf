"""The IPython extension: `%load_ext galatea`, then `%sql` and `%%sql`."""

from __future__ import annotations

from typing import Any

from ._connection import default_connection
from ._galatea import ProgrammingError
from ._relation import Relation
from ._variables import find_in


def load_ipython_extension(shell: Any) -> None:
    """Registers the magic `sql`: `%sql SELECT 1`, or a cell that begins with `%%sql`. `%%sql name` stores the
    relation in the variable `name` instead of showing it. Variables of the notebook are tables."""

    def sql(line: str, cell: str | None = None) -> Relation | None:
        connection = default_connection()
        statement, name = (line, "") if cell is None else (cell, line.strip())
        if name and not name.isidentifier():
            raise ProgrammingError(f"not the name of a variable: {name}\nhint: %%sql name, then SQL on the next lines")
        statement = statement.strip().removesuffix(";")
        frame = connection._query(statement, None, find_in(lambda: shell.user_ns))
        relation = Relation(connection, frame)
        if name:
            shell.user_ns[name] = relation
            return None
        return relation

    shell.register_magic_function(sql, "line_cell", "sql")
