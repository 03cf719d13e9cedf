"""The code of the guide, and the example."""

import subprocess
import sys
from pathlib import Path

from adbc_driver_manager import dbapi

ROOT = Path(__file__).parents[4]


def test_code_of_the_guide_runs(driver, monkeypatch):
    text = (ROOT / "docs/src/guide/adbc.md").read_text()
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert len(blocks) == 2
    connect = dbapi.connect

    def with_path(*, driver, **options):
        assert driver == "galatea"
        return connect(driver=path, **options)

    path = driver
    monkeypatch.setattr(dbapi, "connect", with_path)
    names = {}
    for block in blocks:
        exec(block, names)  # noqa: S102


def test_example_runs(driver, tmp_path):
    for folder in ["", str(tmp_path / "my.db")]:
        run = [sys.executable, ROOT / "examples/adbc.py", driver, folder]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        lines = done.stdout.splitlines()
        assert lines[0].startswith("Galatea ") and lines[1] == "1000000 rows written"
        assert lines[2] == "{'shop': [0, 1, 2], 'sales': [166667, 166666, 166667], 'total': [125000250000, 124999416667, 125000083333]}", lines[2]
        assert lines[3] == "142858 multiples of 7" and lines[4].startswith("42703 ")
