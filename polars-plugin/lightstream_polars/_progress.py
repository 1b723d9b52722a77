"""A progress bar for reads that take long, on a terminal, where tqdm is installed.

``LIGHTSTREAM_PROGRESS=0`` turns it off.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

Progress = Callable[[int], object]
"""What is called with each number of rows that comes in."""

_SILENT_SECONDS: Final = 1.0


@contextlib.contextmanager
def progress(title: str, total: int | None) -> Iterator[Progress | None]:
    """What to call with numbers of rows as they come in; None where nobody would see it."""
    if os.environ.get("LIGHTSTREAM_PROGRESS", "1") == "0" or not sys.stderr.isatty():
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc=title, total=total, unit=" rows", unit_scale=True, delay=_SILENT_SECONDS, file=sys.stderr) as bar:
        lock = threading.Lock()

        def count(rows: int) -> None:
            with lock:
                bar.update(rows)

        yield count
