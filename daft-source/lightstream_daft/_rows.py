"""The rows of a task as Daft takes them: one batch after the other, no faster than they are taken.

Daft drains a task's iterator into a queue without a bound, and never says when it has had enough. But it takes each
batch out of that queue by its native half, in the thread that works on it: until then a batch is not imported, and only
a few are read ahead. And it lets go of the task when it wants no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Final

import lightstream_core as core
import pyarrow as pa
from daft.recordbatch import RecordBatch

if TYPE_CHECKING:
    from daft.daft import PyRecordBatch

_MOST_WAITING: Final = 4
"""Batches of a task that are read and not taken."""


def imported(batch: core.Batch) -> RecordBatch:
    """The rows in Daft's memory, which is the same."""
    if batch.num_columns == 0:
        return RecordBatch._from_series([], num_rows=batch.num_rows)
    rows = pa.record_batch(batch)
    return RecordBatch.from_arrow_record_batches([rows], rows.schema)


class _Waiting(RecordBatch):
    """Rows that are imported once they are taken."""

    def __init__(self, batch: core.Batch, rows: Rows) -> None:
        self._batch: core.Batch | None = batch
        self._rows = rows

    @property
    def _recordbatch(self) -> PyRecordBatch:  # type: ignore[override]
        batch, self._batch = self._batch, None
        if batch is not None:
            self._taken = imported(batch)._recordbatch
            self._rows.taken()
        return self._taken


class Rows:
    """The batches of a reader, for one event loop."""

    def __init__(self, reader: core.Reader, task: object) -> None:
        self._reader = reader
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._changed = asyncio.Event()
        self._is_given_up = False
        self._task = weakref.ref(task, self._give_up)

    def __aiter__(self) -> Rows:
        return self

    async def __anext__(self) -> RecordBatch:
        self._loop = asyncio.get_running_loop()
        while self._waiting >= _MOST_WAITING and not self._is_given_up:
            self._changed.clear()
            await self._changed.wait()
        if self._is_given_up:
            raise core.CancelledError("nobody wants these rows any more")
        batch = await self._reader.__anext__()
        self._waiting += 1
        return _Waiting(batch, self)

    def taken(self) -> None:
        """One batch fewer waits. May be called by any thread."""
        self._call(self._count_taken)

    def _count_taken(self) -> None:
        self._waiting -= 1
        self._changed.set()

    def _give_up(self, _: Any) -> None:
        self._is_given_up = True
        self._reader.close()
        self._call(self._changed.set)

    def _call(self, change: Any) -> None:
        # A loop that has ended waits for nothing.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(change)
