"""The `lightstream` command of this repository."""

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]


@cache
def lightstream() -> str:
    """Where it is, once it is built: by the tests of the workspace, so that after them nothing is left to do."""
    subprocess.run(["cargo", "test", "--locked", "--quiet", "--workspace", "--no-run"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    return str(ROOT / target / "debug" / "lightstream")
