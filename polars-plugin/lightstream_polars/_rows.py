"""Rows of partitions as data frames: read ahead by threads of their own, several partitions at once, a bounded amount.

Calls no query engine: a source that does may wait for itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

import lightstream_core as core
import polars as pl

from lightstream_polars import _interrupts as interrupts

_QUEUED: Final = 2
"""Data frames that one partition is read ahead."""

_FIRST_ROWS_SECONDS: Final = 0.05
_HEAD_START_SECONDS: Final = 0.04
_HEAD_START_FRAMES: Final = 8
"""How long the first partition is read alone: until it has rows, and then for a while or for some more of them. A query
that wants only the first rows has mostly ended by then."""


def frame(batch: core.Batch) -> pl.DataFrame:
    """A batch without a copy; one without columns is only so many rows high."""
    return pl.DataFrame(batch) if batch.num_columns else pl.DataFrame(height=batch.num_rows)


class HeadStart:
    """Lets the first partition begin alone."""

    def __init__(self) -> None:
        self._has_rows = threading.Event()
        self._is_over = threading.Event()
        self._taken = 0

    def wait(self, index: int) -> None:
        """Wait for one's turn."""
        if index > 0:
            self._has_rows.wait(_FIRST_ROWS_SECONDS)
            self._is_over.wait(_HEAD_START_SECONDS)
            # Whoever waited that long waited for all.
            self.end(0)

    def arrived(self, index: int) -> None:
        """Rows of a partition have come."""
        if index == 0:
            self._has_rows.set()

    def taken(self, index: int) -> None:
        """Rows of a partition were taken, and more are wanted."""
        if index == 0:
            self._taken += 1
            if self._taken >= _HEAD_START_FRAMES:
                self._is_over.set()

    def end(self, index: int) -> None:
        """A partition has no more rows."""
        if index == 0:
            self._has_rows.set()
            self._is_over.set()


class Feed:
    """The rows of one partition, read by a thread. To be closed, whether or not all were taken."""

    def __init__(
        self,
        partition: core.Partition,
        offset: int = 0,
        limit: int | None = None,
        head_start: HeadStart | None = None,
        index: int = 0,
    ) -> None:
        self._head_start = head_start if head_start is not None else HeadStart()
        self._index = index
        self._changed = threading.Condition()
        self._frames: deque[pl.DataFrame] = deque()
        self._error: BaseException | None = None
        self._is_over = False
        self._reader = partition.read(offset=offset, limit=limit)
        threading.Thread(target=self._read, name="lightstream-read", daemon=True).start()

    def _read(self) -> None:
        try:
            self._head_start.wait(self._index)
            if self._is_over:
                return
            for batch in self._reader:
                self._head_start.arrived(self._index)
                if not self._put(frame(batch)):
                    break
        except BaseException as error:  # Whatever it is, it belongs to who wants the rows.
            if not self._is_over:
                self._error = error
        finally:
            self._reader.close()
            self._head_start.end(self._index)
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _put(self, rows: pl.DataFrame) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or len(self._frames) < _QUEUED)
            if self._is_over:
                return False
            self._frames.append(rows)
            self._changed.notify_all()
            return True

    def __iter__(self) -> Iterator[pl.DataFrame]:
        while True:
            with self._changed:
                interrupts.wait_for(self._changed, lambda: self._is_over or self._frames)
                if not self._frames:
                    break
                rows = self._frames.popleft()
                self._changed.notify_all()
            yield rows
            self._head_start.taken(self._index)
        if self._error is not None:
            raise self._error

    def close(self) -> bool:
        """Read no further, and let go of what was read. Returns whether there was nothing left anyway."""
        with self._changed:
            was_at_end = self._is_over and not self._frames
            if not was_at_end and self._error is None:
                # Nobody should look, but whoever does is not to take this for the end.
                self._error = core.CancelledError("the read was given up before its end")
            self._is_over = True
            self._frames.clear()
            self._changed.notify_all()
        self._reader.close()
        return was_at_end


def short_read(partition: core.Partition, offset: int, limit: int | None) -> Iterator[pl.DataFrame]:
    """Some rows of a partition, without reading others ahead."""
    feed = Feed(partition, offset, limit)
    try:
        yield from feed
    finally:
        feed.close()


class ReadAhead:
    """The partitions of one read: while one is taken, those that come next are read already."""

    def __init__(self, partitions: list[core.Partition], width: int) -> None:
        self._partitions = partitions
        self._width = width
        self._head_start = HeadStart()
        self._lock = threading.Lock()
        self._feeds: dict[int, Feed] = {}
        self._taken: dict[int, Feed] = {}

    def take(self, index: int) -> Feed:
        """The rows of a partition, for whoever takes them to give back."""
        with self._lock:
            own = self._taken[index] = self._feeds.pop(index) if index in self._feeds else self._feed(index)
            for at in range(index + 1, min(index + self._width, len(self._partitions))):
                if at not in self._feeds and at not in self._taken:
                    self._feeds[at] = self._feed(at)
            return own

    def give_back(self, index: int) -> None:
        """Take no more of a partition. If there was more, nobody wants what comes after it either."""
        feed = self._taken[index]
        if not feed.close():
            with self._lock:
                feeds = {**self._feeds, **self._taken}
            for at, later in feeds.items():
                if at > index:
                    later.close()

    def _feed(self, index: int) -> Feed:
        return Feed(self._partitions[index], head_start=self._head_start, index=index)

    def close(self) -> None:
        """Give up what was read ahead and nobody took."""
        with self._lock:
            feeds, self._feeds = self._feeds, {}
        for feed in feeds.values():
            feed.close()
