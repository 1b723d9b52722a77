"""What tests of every engine share: servers of tables, what they sent, and waits that end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import lightstream_core as core

DEADLINE_SECONDS = 60
"""For what takes a second or less: a wait that is longer means that it never ends."""


@dataclass
class Traffic:
    """What a server sent meanwhile."""

    plans: int = 0
    scans: int = 0
    rows: int = 0
    nbytes: int = 0


@contextmanager
def traffic(server: core.Server) -> Iterator[Traffic]:
    """Counts what a server sends within the block."""
    before, counted = settled(server), Traffic()
    yield counted
    after = settled(server)
    counted.plans = after["plans"] - before["plans"]
    counted.scans = after["scans"] - before["scans"]
    counted.rows = after["rows_sent"] - before["rows_sent"]
    counted.nbytes = after["bytes_sent"] - before["bytes_sent"]


def settled(server: core.Server) -> dict[str, int]:
    """The counters of a server once it reads for nobody."""
    until(lambda: server.stats()["active_scans"] == 0, "a scan does not end")
    return server.stats()


def until(condition: Callable[[], bool], otherwise: str) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)


def within_deadline(work: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """What `work` gives, in a thread of its own; fails if it hangs."""
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]
    return outcome[0]


@contextmanager
def served(tables: Mapping[str, Any]) -> Iterator[core.Server]:
    with core.serve(tables) as server:
        yield server
