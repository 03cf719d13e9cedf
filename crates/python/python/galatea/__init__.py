"""SQL over files, Arrow tables and data frames, on the GPU where it is faster and on the CPU elsewhere.

    >>> import galatea
    >>> galatea.sql("SELECT 6 * 7 AS answer").fetchall()
    [(42,)]

`connect` opens a connection with settings of its own; `sql` uses a default connection. A query is a
`Relation`: it runs when its rows are fetched, as a table of pyarrow, a data frame of pandas or polars, or
tuples. The module follows DB-API 2.0 (PEP 249).
"""

from __future__ import annotations

import atexit as _atexit
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import _galatea
from ._connection import Connection, connect, default_connection, sql
from ._cursor import BINARY, DATETIME, NUMBER, ROWID, STRING, Cursor
from ._galatea import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    __version__,
)
from ._magic import load_ipython_extension
from ._relation import Relation
from ._report import Device, DeviceInfo, Report, device_info

if _TYPE_CHECKING:
    from ._kmeans import KMeans

apilevel = "2.0"
"""The version of DB-API."""
threadsafety = 2
"""Threads may share the module and connections, but not cursors."""
paramstyle = "qmark"
"""Placeholders are `?`. `$1` and `$name` are supported, too."""

__all__ = [
    "BINARY",
    "Connection",
    "Cursor",
    "DATETIME",
    "DataError",
    "DatabaseError",
    "Device",
    "DeviceInfo",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "KMeans",
    "NUMBER",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ROWID",
    "Relation",
    "Report",
    "STRING",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "default_connection",
    "device_info",
    "load_ipython_extension",
    "paramstyle",
    "sql",
    "threadsafety",
]


def __getattr__(name: str) -> _Any:
    # scikit-learn is imported only if it is used.
    if name == "KMeans":
        from ._kmeans import KMeans

        return KMeans
    raise AttributeError(f"module 'galatea' has no attribute {name!r}")


_atexit.register(_galatea.shut_down)
