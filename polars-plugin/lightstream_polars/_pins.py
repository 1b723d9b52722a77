"""One snapshot for all scans of a table in one query, so that a join of a table with itself joins one state of it.

Polars resolves every scan of a query by itself, but those of one query in threads of one pool. Where that is not so,
each scan is of the newest state.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

T = TypeVar("T")

_POOL: Final = re.compile(r"(ThreadPoolExecutor-\d+)_\d+")
_REMEMBERED: Final = 64


class Pins:
    """The snapshots that queries under way have begun to read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pins: OrderedDict[Hashable, _Pin] = OrderedDict()

    def plan(self, table: Hashable, make: Callable[[str | None], T], snapshot_of: Callable[[T], str | None]) -> T:
        """What `make` gives for the snapshot that this query reads of the table; who asks first gets the newest."""
        pool = _POOL.fullmatch(threading.current_thread().name)
        if pool is None:
            return make(None)
        pin = self._pin((pool.group(1), table))
        with pin.lock:
            made = make(pin.snapshot)
            if pin.snapshot is None:
                pin.snapshot = snapshot_of(made)
            return made

    def _pin(self, key: Hashable) -> _Pin:
        with self._lock:
            pin = self._pins.setdefault(key, _Pin())
            self._pins.move_to_end(key)
            while len(self._pins) > _REMEMBERED:
                self._pins.popitem(last=False)
            return pin


class _Pin:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.snapshot: str | None = None
