"""The same on Ray, where each task reads from the server by itself: see `on_ray.py` for what is checked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "on_ray.py"
CHECKS = re.findall(r"^def (check_\w+)", SCRIPT.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str | None]:
    """The error of each check, or None."""
    environment = {key: value for key, value in os.environ.items() if key not in ("DAFT_RUNNER", "LIGHTSTREAM_TOKEN")}
    environment |= {"DAFT_RUNNER": "ray", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=environment, timeout=1500)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stdout + done.stderr
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", CHECKS)
def test_on_ray(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes.get(name, "it was not run") is None, outcomes.get(name)
