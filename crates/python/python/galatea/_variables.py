"""Tables from Python objects, and the variables of the code that calls the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from ._relation import Relation

Find = Callable[[str], Any]


def as_table(value: Any) -> Any:
    """Returns an object that the engine reads as a table, or `None` if `value` is no table.

    The index of a pandas data frame is not a column.
    """
    if isinstance(value, Relation):
        return value._frame
    package = type(value).__module__.partition(".")[0]
    kind = type(value).__name__
    if package == "pandas" and kind == "DataFrame":
        import pyarrow

        return pyarrow.Table.from_pandas(value, preserve_index=False)
    if package == "polars" and kind == "LazyFrame":
        return value.collect()
    if package == "pyarrow" and hasattr(value, "scanner"):
        return value.to_table()
    if isinstance(value, type):
        return None
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        return value
    return None


def find_in(*namespaces: Callable[[], Mapping[str, Any]]) -> Find:
    """A function that finds the table of a name in these namespaces.

    SQL has the names without quotes in lower case. So a name also finds a variable that differs in case only.
    """

    def find(name: str) -> Any:
        if not name.isidentifier():
            return None
        for namespace in namespaces:
            values = namespace()
            names = [name] if name in values else [key for key in values if key.lower() == name]
            for key in names:
                table = as_table(values[key])
                if table is not None:
                    return table
        return None

    return find


def find_in_caller() -> Find:
    """A function that finds the table of a name among the variables of the code that calls the package: its
    local ones first, then those of its module."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    if frame is None:
        return find_in()
    caller = frame
    return find_in(lambda: caller.f_locals, lambda: caller.f_globals)
