"""The package is typed, strictly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import HAS_RESOLVERS

PACKAGE = Path(__file__).parents[1]


@pytest.mark.skipif(not HAS_RESOLVERS, reason="checked against the newest Polars alone")
def test_the_package_type_checks() -> None:
    command = ["mypy", "--strict", "--config-file", "pyproject.toml", "lightstream_polars"]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=PACKAGE)
    assert done.returncode == 0, done.stdout + done.stderr
