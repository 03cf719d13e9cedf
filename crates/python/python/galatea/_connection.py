"""Connections: sessions of the engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _galatea
from ._progress import Progress, progress
from ._relation import Relation, literal
from ._report import Report, report
from ._variables import Find, as_table, find_in_caller

if TYPE_CHECKING:
    from ._cursor import Cursor

Parameters = Sequence[Any] | Mapping[str, Any]


class Connection:
    """A session of the engine, with its own settings and tables. Connections share devices, columns and
    compiled kernels. Threads may share a connection; their queries run at the same time.

    Use `connect` to open one.
    """

    def __init__(
        self,
        settings: Sequence[tuple[str, str]],
        show_progress: bool | None = None,
        database: str | None = None,
    ) -> None:
        self._opened: _galatea.Session | None = _galatea.Session(settings, database)
        self._show_progress = show_progress

    @property
    def _session(self) -> _galatea.Session:
        if self._opened is None:
            raise _galatea.ProgrammingError("the connection is closed")
        return self._opened

    def _progress(self) -> Progress | None:
        return progress(self._show_progress)

    def _query(self, statement: str, parameters: Parameters | None, find: Find | None) -> _galatea.Frame:
        return self._session.sql(statement, parameters, find, self._progress())

    def sql(self, query: str, parameters: Parameters | None = None) -> Relation:
        """Plans a query, which runs when its rows are fetched. Other statements (CREATE, INSERT, SET, COPY,
        ...) run at once.

        `parameters` are a list of values for the placeholders `?` or `$1`, or a dictionary for `$name`. A name
        that is no table of the catalog is a variable: a data frame, an Arrow table, another relation.
        """
        return Relation(self, self._query(query, parameters, find_in_caller()))

    def execute(self, query: str, parameters: Parameters | None = None) -> Cursor:
        """Executes a statement on a new cursor."""
        return self.cursor().execute(query, parameters)

    def cursor(self) -> Cursor:
        """A new cursor of DB-API."""
        from ._cursor import Cursor

        self._session
        return Cursor(self)

    def table(self, name: str) -> Relation:
        """The rows of a table. The name is written as in SQL: `orders`, `schema.orders`, `"Orders"`."""
        return Relation(self, self._query(f"SELECT * FROM {name}", None, None))

    def read(self, path: str | os.PathLike[str]) -> Relation:
        """The rows of a file, of the files that match a pattern, or of a folder: Parquet, CSV, JSON, Arrow,
        Avro, by the extension of the name."""
        return Relation(self, self._query(f"SELECT * FROM {literal(str(path))}", None, None))

    def register(self, name: str, table: Any) -> Connection:
        """Registers an object as a table, without a copy of its rows: a data frame of pandas or polars, a
        table of pyarrow, a relation (as a view), or any object that exports Arrow streams. It replaces a
        table of that name. The name is written as in SQL. Returns the connection."""
        found = as_table(table)
        self._session.register(name, table if found is None else found)
        return self

    def unregister(self, name: str) -> Connection:
        """Removes a table. Returns the connection."""
        self._session.unregister(name)
        return self

    def last_report(self) -> Report | None:
        """The report of the query that was planned last: its device, and the reasons if that is not the GPU.
        `None` if the last statement planned no query."""
        return report(self._session.report())

    def finish_background(self) -> None:
        """Waits until the warm-up in the background has loaded columns and compiled kernels."""
        self._session.finish_background()

    def commit(self) -> None:
        """Does nothing: each statement is its own transaction."""
        self._session

    def rollback(self) -> None:
        """Raises `NotSupportedError`: each statement is its own transaction."""
        raise _galatea.NotSupportedError("ROLLBACK is not supported: each statement is its own transaction")

    def close(self) -> None:
        """Closes the connection. Relations of it remain usable until they are dropped."""
        self._opened = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def connect(
    database: str | os.PathLike[str] | Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    progress: bool | None = None,
    **galatea_settings: object,
) -> Connection:
    """Opens a connection.

    `database` is the folder of a database, such as `"my.db"`: its tables, views, macros and settings last. It is
    created if it does not exist. Without it, tables live as long as the connection. A mapping in its
    place is `settings`.

    `settings` has full names: `{"datafusion.execution.target_partitions": 4}`. Keywords are settings of
    galatea, with two underscores for a point: `device="cpu"`, `memory__gpu_limit="8 GiB"`. `progress` shows
    the progress of queries that run for more than a second: `None` on terminals and in Jupyter only.
    """
    if isinstance(database, Mapping):
        settings = {**database, **(settings or {})}
        database = None
    pairs = [(name, _value(value)) for name, value in (settings or {}).items()]
    pairs += [
        ("galatea." + name.replace("__", "."), _value(value)) for name, value in galatea_settings.items()
    ]
    return Connection(pairs, progress, None if database is None else os.fspath(database))


_default: Connection | None = None
_lock = threading.Lock()


def default_connection() -> Connection:
    """The connection of `sql`. It is opened at the first call, with default settings."""
    global _default
    with _lock:
        if _default is None or _default._opened is None:
            _default = connect()
        return _default


def sql(query: str, parameters: Parameters | None = None) -> Relation:
    """`Connection.sql` of the default connection."""
    return default_connection().sql(query, parameters)
