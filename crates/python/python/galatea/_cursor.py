"""Cursors of DB-API 2.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _galatea
from ._relation import Rows
from ._variables import find_in_caller

if TYPE_CHECKING:
    from ._connection import Connection, Parameters


class TypeObject:
    """A group of SQL types, which equals the type of a column in `Cursor.description`."""

    def __init__(self, *prefixes: str) -> None:
        self._prefixes = prefixes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(self._prefixes)

    def __hash__(self) -> int:
        return hash(self._prefixes)


STRING = TypeObject("VARCHAR")
BINARY = TypeObject("BYTEA")
NUMBER = TypeObject("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "REAL", "DOUBLE")
DATETIME = TypeObject("DATE", "TIME")
ROWID = TypeObject("ROWID")

Description = list[tuple[str, str, None, None, None, None, None]]


class Cursor:
    """Executes statements and fetches their rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """The connection of the cursor."""
        self.arraysize = 1
        """The number of rows that `fetchmany` returns by default."""
        self._frame: _galatea.Frame | None = None
        self._rows: Rows | None = None
        self._changed = -1
        self._closed = False

    def execute(self, query: str, parameters: Parameters | None = None) -> Cursor:
        """Executes a statement. Returns the cursor."""
        return self._execute(query, parameters)

    def executemany(self, query: str, parameters: Iterable[Parameters]) -> Cursor:
        """Executes a statement once for each set of parameters. Returns the cursor."""
        changed = 0
        for values in parameters:
            changed += max(self._execute(query, values).rowcount, 0)
        self._changed = changed
        return self

    def _execute(self, query: str, parameters: Parameters | None) -> Cursor:
        if self._closed:
            raise _galatea.ProgrammingError("the cursor is closed")
        self._release()
        frame = self.connection._query(query, parameters, find_in_caller())
        changed = frame.affected
        if changed is not None:
            self._changed = changed
        elif frame.columns:
            self._frame = frame
            self._rows = Rows(frame, self.connection)
        return self

    def _release(self) -> None:
        if self._rows is not None:
            self._rows.close()
        self._frame, self._rows, self._changed = None, None, -1

    @property
    def description(self) -> Description | None:
        """The name and the SQL type of each column, in tuples of seven values; `None` without a result."""
        if self._frame is None:
            return None
        columns = zip(self._frame.columns, self._frame.types)
        return [(name, kind, None, None, None, None, None) for name, kind in columns]

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed; -1 for queries."""
        return self._changed

    def _fetch(self, count: int | None) -> list[tuple[Any, ...]]:
        if self._rows is None:
            raise _galatea.ProgrammingError("the cursor has no result: execute a query first")
        return self._rows.fetch(count)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; `None` after the last one."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`, by default `arraysize`."""
        return self._fetch(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The remaining rows."""
        return self._fetch(None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing."""

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Closes the cursor, and ends its query."""
        self._release()
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
