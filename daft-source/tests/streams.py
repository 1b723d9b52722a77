"""Tables whose rows are made as they are read: long ones, those that wait, and those that break."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64())])

Made = Callable[[], pa.RecordBatchReader]


def batch(ids: Iterable[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA)


def stream(batches: Callable[[], Iterable[pa.RecordBatch]]) -> Made:
    """A table of what a generator gives, anew for each scan."""
    return lambda: pa.RecordBatchReader.from_batches(SCHEMA, iter(batches()))


def long(count: int, rows: int = 1 << 16, pulled: list[int] | None = None) -> Made:
    """So many batches of numbers from 0 on; `pulled` is told of each that is made."""

    def batches() -> Iterable[pa.RecordBatch]:
        for n in range(count):
            if pulled is not None:
                pulled.append(n)
            yield batch(range(n * rows, (n + 1) * rows))

    return stream(batches)


def held(until: threading.Event) -> Made:
    """One row, and no end before the event."""

    def batches() -> Iterable[pa.RecordBatch]:
        yield batch([1])
        until.wait(60)

    return stream(batches)


def broken(reason: str) -> Made:
    """Some rows, then an error."""

    def batches() -> Iterable[pa.RecordBatch]:
        yield batch(range(10))
        raise RuntimeError(reason)

    return stream(batches)
