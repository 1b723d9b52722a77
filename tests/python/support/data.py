"""The tables that whole queries are about: TPC-H, and the flights of the examples."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]

_TPCH = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
_FLIGHTS = ("airlines", "airports", "flights", "planes", "weather")


def tpch(scale: float) -> dict[str, Path]:
    """The tables of TPC-H as Parquet files, made once."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = target / "test-data" / f"tpch-{scale}"
    files = {name: folder / f"{name}.parquet" for name in _TPCH}
    if not all(file.exists() for file in files.values()):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["tpchgen-cli", "parquet", "-s", str(scale), f"--output-dir={folder}"], check=True, capture_output=True
        )
    return files


def tpch_queries() -> dict[str, str]:
    """The 22 queries as SQL."""
    return {file.stem: file.read_text() for file in sorted((ROOT / "tests" / "tpch" / "queries").glob("*.sql"))}


def flights() -> dict[str, Path]:
    """The tables of the flights that left New York in 2013, as Parquet files."""
    return {name: ROOT / "examples" / "data" / f"{name}.parquet" for name in _FLIGHTS}
