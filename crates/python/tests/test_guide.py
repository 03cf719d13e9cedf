"""The examples of docs/src/guide/python.md run."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs/src/guide/python.md"


def test_examples_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    namespace = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), namespace)
