"""The types that are promised, and documentation for all that is public."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lightstream_daft

ROOT = Path(__file__).parent.parent


def test_the_package_type_checks() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), "lightstream_daft"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", lightstream_daft.__all__)
def test_everything_public_is_documented(name: str) -> None:
    assert getattr(lightstream_daft, name).__doc__
