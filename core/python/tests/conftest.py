"""What the tests share: real servers on loopback, and programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from typing import Callable, Iterator

import pyarrow as pa
import pytest

import lightstream_core as ls

#: The longest that anything may take, in seconds: reaching it is a failure, not a measurement.
CEILING = 30


@pytest.fixture
def numbers() -> pa.Table:
    """100 000 rows in several chunks: enough for several partitions."""
    count = 100_000
    whole = pa.table(
        {
            "n": pa.array(range(count), pa.int64()),
            "text": [None if n % 11 == 0 else f"text {n % 97}" for n in range(count)],
            "half": pa.array([n / 2 for n in range(count)], pa.float64()),
            "items": pa.array([[n, n + 1] for n in range(count)], pa.list_(pa.int32())),
            "pad": ["x" * 100] * count,
        }
    )
    return pa.Table.from_batches(whole.to_batches(max_chunksize=7_000))


@pytest.fixture
def server(numbers: pa.Table) -> Iterator[ls.Server]:
    with ls.serve({"numbers": numbers, "empty": numbers.slice(0, 0)}) as server:
        yield server


@pytest.fixture
def client(server: ls.Server) -> ls.Client:
    return ls.connect(server.url)


def run(program: str, *arguments: str, ceiling: float = CEILING) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=ceiling,
    )


def until(holds: Callable[[], bool], ceiling: float = CEILING) -> None:
    """Wait until something holds."""
    end = time.monotonic() + ceiling
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.005)
