"""Each example in Python runs, and prints what is kept beside it.

``LIGHTSTREAM_WRITE_EXAMPLES=1 pytest tests/python/test_examples.py`` writes what they print anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SECONDS = 600


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_it_prints_what_it_should(example: Path) -> None:
    # What a program writes to a terminal is not of interest, nor are the settings of whoever runs this.
    quiet = {"DAFT_ANALYTICS_ENABLED": "0", "DAFT_PROGRESS_BAR": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {key: value for key, value in os.environ.items() if key != "DAFT_RUNNER"} | quiet
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, env=environment, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    expected = example.with_suffix(".txt")
    if os.environ.get("LIGHTSTREAM_WRITE_EXAMPLES") == "1":
        expected.write_text(done.stdout)
    assert done.stdout == expected.read_text()
