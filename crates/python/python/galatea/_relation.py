"""A query over a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _galatea
from ._display import html_table, text_table

if TYPE_CHECKING:
    import os

    import pandas
    import polars
    import pyarrow

    from ._connection import Connection

_SHOWN = 20


def quoted(name: str) -> str:
    """A name in SQL, with its letters as they are."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A string in SQL."""
    return "'" + value.replace("'", "''") + "'"


class Rows:
    """The rows of a query, fetched in order."""

    def __init__(self, frame: _galatea.Frame, connection: Connection) -> None:
        self._stream: _galatea.Stream | None = frame.stream(connection._progress())
        self._next: deque[tuple[Any, ...]] = deque()

    def fetch(self, count: int | None) -> list[tuple[Any, ...]]:
        """At most `count` rows; all of the remaining ones if it is `None`."""
        while self._stream is not None and (count is None or len(self._next) < count):
            rows = self._stream.next_rows()
            if rows is None:
                self._stream = None
            else:
                self._next.extend(rows)
        size = len(self._next) if count is None else min(count, len(self._next))
        return [self._next.popleft() for _ in range(size)]

    def close(self) -> None:
        """Ends the query."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._next.clear()


class Relation:
    """A query. It runs each time its rows are fetched, and its results are not kept.

    A relation is itself a table of further queries, by the name of its variable. Libraries that read Arrow
    streams (`__arrow_c_stream__`) read it directly: `pyarrow.table(relation)`, `polars.DataFrame(relation)`.
    """

    def __init__(self, connection: Connection, frame: _galatea.Frame) -> None:
        self._connection = connection
        self._frame = frame
        self._rows: Rows | None = None

    # Metadata

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._frame.columns

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns."""
        return self._frame.types

    def explain(self, analyze: bool = False) -> str:
        """The plan, with the device of each part. `analyze` runs the query, and shows rows and times."""
        return self._frame.explain(analyze, self._connection._progress())

    # Results

    def _collect(self, views: bool = True) -> _galatea.Batches:
        return self._frame.collect(self._connection._progress(), views)

    def arrow(self) -> pyarrow.Table:
        """Runs the query and returns a table of pyarrow. Only columns of string and binary views are copied,
        to strings and binaries: most functions of pyarrow do not support views."""
        import pyarrow

        return pyarrow.table(self._collect(views=False))

    fetch_arrow_table = arrow

    def record_batch_reader(self) -> pyarrow.RecordBatchReader:
        """Starts the query and returns a reader of pyarrow. The query computes a few batches ahead of it."""
        import pyarrow

        stream = self._frame.stream(self._connection._progress(), views=False)

        # A generator passes exceptions on, which a stream of Arrow's C data interface cannot.
        def batches() -> Iterator[pyarrow.RecordBatch]:
            while (batch := stream.next_batch()) is not None:
                yield from pyarrow.table(batch).to_batches()

        return pyarrow.RecordBatchReader.from_batches(pyarrow.schema(stream), batches())

    def df(self) -> pandas.DataFrame:
        """Runs the query and returns a data frame of pandas."""
        return self.arrow().to_pandas()

    def pl(self) -> polars.DataFrame:
        """Runs the query and returns a data frame of polars."""
        import polars

        return polars.DataFrame(self._collect())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that were not fetched yet, as tuples of Python values."""
        if self._rows is None:
            return self._collect().rows()
        return self._fetch(None)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; `None` after the last one."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`."""
        return self._fetch(size)

    def _fetch(self, count: int | None) -> list[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = Rows(self._frame, self._connection)
        return self._rows.fetch(count)

    def __arrow_c_schema__(self) -> Any:
        return self._frame.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)

    # Display

    def _head(self, rows: int) -> tuple[list[list[str]], bool]:
        """The first rows as strings, and whether others follow."""
        cells = self._frame.head(rows + 1).collect(self._connection._progress()).cells(rows + 1)
        return cells[:rows], len(cells) > rows

    def show(self, rows: int = _SHOWN, width: int | None = None) -> None:
        """Prints the first rows. `width` is that of the terminal by default."""
        print(self._text(rows, width))

    def _text(self, rows: int, width: int | None = None) -> str:
        if not self.columns:
            return "(no rows)"
        cells, more = self._head(rows)
        return text_table(self.columns, self.types, cells, more, width)

    def __repr__(self) -> str:
        return self._text(_SHOWN)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text and HTML of one run, for notebooks."""
        if not self.columns:
            return {"text/plain": repr(self)}
        rows = (self.columns, self.types, *self._head(_SHOWN))
        return {"text/plain": text_table(*rows), "text/html": html_table(*rows)}

    def _repr_html_(self) -> str | None:
        if not self.columns:
            return None
        cells, more = self._head(_SHOWN)
        return html_table(self.columns, self.types, cells, more)

    # Further queries. Arguments are SQL: names of columns, or expressions. A relation with two columns of one
    # name is no table of a further query.

    def _derive(self, statement: str, **tables: Relation) -> Relation:
        tables = {"relation": self, **tables}
        frames = {name: relation._frame for name, relation in tables.items()}
        frame = self._connection._session.sql(statement, None, frames.get, self._connection._progress())
        return Relation(self._connection, frame)

    def project(self, *columns: str) -> Relation:
        """The values of these expressions: `relation.project("a", "b + 1 AS c")`."""
        return self._derive(f"SELECT {', '.join(columns)} FROM relation")

    def filter(self, condition: str) -> Relation:
        """The rows that fulfil the condition."""
        return self._derive(f"SELECT * FROM relation WHERE {condition}")

    def aggregate(self, aggregates: str | Iterable[str], group_by: str | Iterable[str] = ()) -> Relation:
        """Aggregates of groups: `relation.aggregate("sum(v) AS s", group_by="k")`. The columns of the groups
        precede them."""
        keys = [group_by] if isinstance(group_by, str) else list(group_by)
        values = [aggregates] if isinstance(aggregates, str) else list(aggregates)
        statement = f"SELECT {', '.join([*keys, *values])} FROM relation"
        if keys:
            statement += f" GROUP BY {', '.join(keys)}"
        return self._derive(statement)

    def order(self, *keys: str) -> Relation:
        """The rows in order: `relation.order("k", "v DESC")`."""
        return self._derive(f"SELECT * FROM relation ORDER BY {', '.join(keys)}")

    def limit(self, rows: int, offset: int = 0) -> Relation:
        """The first `rows` rows after `offset` others."""
        return self._derive(f"SELECT * FROM relation LIMIT {int(rows)} OFFSET {int(offset)}")

    def distinct(self) -> Relation:
        """The rows without duplicates."""
        return self._derive("SELECT DISTINCT * FROM relation")

    def union(self, other: Relation) -> Relation:
        """The rows of both relations, with duplicates."""
        return self._derive("SELECT * FROM relation UNION ALL SELECT * FROM other", other=other)

    def join(self, other: Relation, on: str | Sequence[str] = (), how: str = "inner") -> Relation:
        """A join. `on` is a list of columns that both have, or a condition over `l` (this relation) and `r`
        (the other): `a.join(b, on="l.id = r.a_id", how="left")`."""
        kinds = ("inner", "left", "right", "full", "left semi", "left anti", "cross")
        if how not in kinds:
            raise _galatea.ProgrammingError(f"unknown join: {how}\nhint: joins are {', '.join(kinds)}")
        condition = f"ON {on}" if isinstance(on, str) else f"USING ({', '.join(map(quoted, on))})"
        if how == "cross":
            condition = ""
        return self._derive(f"SELECT * FROM relation AS l {how} JOIN other AS r {condition}", other=other)

    # Files

    def write_parquet(
        self,
        path: str | os.PathLike[str],
        compression: str | None = None,
        partition_by: Sequence[str] = (),
    ) -> int:
        """Writes a Parquet file, or with `partition_by` a folder of them. Returns the number of rows.

        `compression` is a codec such as `"zstd(3)"`, `"snappy"` or `"uncompressed"`."""
        options = {"format.compression": compression} if compression else {}
        return self._copy(path, "PARQUET", options, partition_by)

    def write_csv(
        self,
        path: str | os.PathLike[str],
        header: bool = True,
        delimiter: str = ",",
        partition_by: Sequence[str] = (),
    ) -> int:
        """Writes a CSV file, or with `partition_by` a folder of them. Returns the number of rows."""
        options = {"format.has_header": str(header).lower(), "format.delimiter": delimiter}
        return self._copy(path, "CSV", options, partition_by)

    def _copy(
        self,
        path: str | os.PathLike[str],
        form: str,
        options: Mapping[str, str],
        partition_by: Sequence[str],
    ) -> int:
        statement = f"COPY (SELECT * FROM relation) TO {literal(str(path))} STORED AS {form}"
        if partition_by:
            # The engine reads these names as they are written, also those without quotes.
            statement += f" PARTITIONED BY ({', '.join(partition_by)})"
        if options:
            pairs = [f"{literal(name)} {literal(value)}" for name, value in options.items()]
            statement += f" OPTIONS ({', '.join(pairs)})"
        return self._derive(statement)._frame.affected or 0
