"""The progress of a query, on standard error."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

_BAR = 30


class Progress:
    """A line that is drawn again and again, and removed at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def draw(self, step: str, done: int, total: int | None, seconds: float) -> None:
        """Draws the step of the query, and the share of it that is done, if it is known."""
        line = f"{step:>10} "
        if total:
            share = min(done / total, 1.0)
            full = int(share * _BAR)
            line += f"[{'#' * full}{'.' * (_BAR - full)}] {share:4.0%} "
        elif done:
            line += f"{done:,} "
        line += f"{seconds:.0f} s, Ctrl-C cancels"
        width = shutil.get_terminal_size().columns - 4
        self._write("\r" + line[:width].ljust(width))

    def clear(self) -> None:
        """Removes the line."""
        width = shutil.get_terminal_size().columns - 4
        self._write("\r" + " " * width + "\r")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def progress(enabled: bool | None) -> Progress | None:
    """The display of progress. `None` shows it on terminals and in Jupyter."""
    out = sys.stderr
    if enabled is False or out is None:
        return None
    # Standard error of a Jupyter kernel is an object of ipykernel.
    in_jupyter = type(out).__module__.partition(".")[0] == "ipykernel"
    if enabled or in_jupyter or out.isatty():
        return Progress(out)
    return None
