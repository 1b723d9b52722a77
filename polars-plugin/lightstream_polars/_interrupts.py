"""Waits that end when the user interrupts the query, and when the interpreter ends.

Python runs signal handlers in the main thread alone, which waits within Polars; sources run in other threads. Polars
knows of the interrupt, and any of its own methods raises it. At its end the interpreter waits for the threads of Polars,
which wait for a source: nothing else would end that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import lightstream_core as core
import polars as pl

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.2

_ANYTHING: Final = pl.Series([0])

_ending: Final = threading.Event()

# It is private, but there is no other call before threads are waited for. Without it such a wait is only longer.
_at_end = getattr(threading, "_register_atexit", None)
if _at_end is not None:
    _at_end(_ending.set)


def wait_for(changed: threading.Condition, condition: Callable[[], object]) -> None:
    """Wait, with the lock of `changed`, until something holds. Raises ``KeyboardInterrupt``."""
    while not changed.wait_for(condition, _LOOK_SECONDS):
        if _ending.is_set():
            raise core.CancelledError("the interpreter ends")
        _ANYTHING.rechunk()


def call(work: Callable[[], T]) -> T:
    """What `work` gives, which waits for a server. Raises ``KeyboardInterrupt``, and leaves the work to itself then."""
    if threading.current_thread() is threading.main_thread():
        return work()
    changed = threading.Condition()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # Whatever it is, it belongs to the caller.
            errors.append(error)
        with changed:
            changed.notify_all()

    threading.Thread(target=run, name="lightstream-request", daemon=True).start()
    with changed:
        wait_for(changed, lambda: results or errors)
    if errors:
        raise errors[0]
    return results[0]
