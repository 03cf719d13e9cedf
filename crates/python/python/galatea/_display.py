"""Rows as a table of text or HTML."""

from __future__ import annotations

import html
import shutil
import unicodedata
from collections.abc import Sequence

LEFT_OUT = "…"
_LONG = 32


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    narrow = sum(unicodedata.combining(letter) != 0 for letter in text)
    return len(text) + wide - narrow


def _cut(text: str, width: int) -> str:
    text = text.replace("\n", " ")
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return text + LEFT_OUT


def _select(widths: Sequence[int], room: int) -> list[int | None]:
    """The columns that fit into `room`, from both ends; `None` marks omitted ones."""
    if sum(width + 3 for width in widths) + 1 <= room:
        return list(range(len(widths)))
    room -= 1 + 4
    front: list[int | None] = []
    back: list[int | None] = []
    first, last = 0, len(widths)
    while first < last:
        from_front = len(front) <= len(back)
        column = first if from_front else last - 1
        if widths[column] + 3 > room and front:
            break
        room -= widths[column] + 3
        if from_front:
            front.append(column)
            first += 1
        else:
            back.append(column)
            last -= 1
    return [*front, None, *reversed(back)] if first < last else [*front, *reversed(back)]


def text_table(
    columns: Sequence[str],
    types: Sequence[str],
    rows: Sequence[Sequence[str]],
    more: bool,
    width: int | None = None,
) -> str:
    """A table for a terminal. `more`: the result has rows after these. `width`: that of the terminal by
    default. Long values and columns in the middle are cut."""
    room = width or shutil.get_terminal_size((120, 24)).columns
    long = _LONG if len(columns) > 1 else max(room - 4, 8)
    lines = [[_cut(name, long) for name in columns], [_cut(kind.lower(), long) for kind in types]]
    lines += [[_cut(value, long) for value in row] for row in rows]
    if more:
        lines.append([LEFT_OUT] * len(columns))
    widths = [max(_width(line[column]) for line in lines) for column in range(len(columns))]
    kept = _select(widths, room)
    sizes = [1 if column is None else widths[column] for column in kept]

    def border(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (size + 2) for size in sizes) + right

    def line(cells: Sequence[str]) -> str:
        shown = [LEFT_OUT if column is None else cells[column] for column in kept]
        padded = [f" {cell}{' ' * (size - _width(cell))} " for cell, size in zip(shown, sizes)]
        return "│" + "│".join(padded) + "│"

    head, body = lines[:2], lines[2:]
    return "\n".join(
        [
            border("┌", "┬", "┐"),
            *map(line, head),
            border("├", "┼", "┤"),
            *map(line, body),
            border("└", "┴", "┘"),
        ]
    )


def html_table(
    columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[str]], more: bool
) -> str:
    """A table for a notebook. `more`: the result has rows after these."""
    head = "".join(
        f"<th>{html.escape(name)}<br><small>{html.escape(kind.lower())}</small></th>"
        for name, kind in zip(columns, types)
    )
    shown = list(rows) + ([[LEFT_OUT] * len(columns)] if more else [])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in row) + "</tr>" for row in shown
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
