"""The types that are promised: those of the module itself, and good for what users write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lightstream_core as ls

HERE = Path(__file__).parent
ROOT = HERE.parent


def check(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_users_write_type_checks() -> None:
    check("mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), ".")


def test_the_stubs_are_those_of_the_module() -> None:
    check("mypy.stubtest", "lightstream_core", "--ignore-disjoint-bases")


@pytest.mark.parametrize("name", [name for name in ls.__all__ if isinstance(getattr(ls, name), type)])
def test_everything_public_is_documented(name: str) -> None:
    public = getattr(ls, name)
    assert public.__doc__
    assert public.__module__.startswith("lightstream_core")
