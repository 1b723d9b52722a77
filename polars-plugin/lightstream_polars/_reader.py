"""The planned partitions of a read as sources of Polars' external reader, one source each.

Polars asks for slices and heights here; predicates are settled before, in the plan.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import lightstream_core as core
import polars as pl
from polars.io.external_reader import FileReader, FileReaderBuilder, ReaderCapabilities

from lightstream_polars._progress import Progress
from lightstream_polars._rows import ReadAhead, short_read
from lightstream_polars._table import Plan

READ_AT_ONCE: Final = max(4, os.cpu_count() or 1)
"""Partitions of one scan that are read at the same time."""

_READS: Final = "lightstream reads"


class PartitionsBuilder(FileReaderBuilder):
    """Makes a reader for each partition, of which the source is the number."""

    def __init__(
        self,
        plan: Plan,
        schema: pl.Schema,
        shown: dict[str, str],
        progress: Progress | None,
    ) -> None:
        self.schema = schema
        """The columns as they are given on: those of the plan under other names, perhaps after one of nothing."""
        self.progress = progress
        self._plan = plan
        self._shown = shown

    @property
    def partitions(self) -> list[core.Partition]:
        return self._plan.partitions

    def explain_properties(self) -> dict[str, str]:
        return self._shown

    def reader_capabilities(self) -> ReaderCapabilities:
        return ReaderCapabilities(pre_slice=True)

    @property
    def has_columns(self) -> bool:
        """Whether rows come with columns, or only their number does."""
        return bool(self._plan.schema)

    def build_file_reader(self, source: str | bytes, multi_scan_context: dict[Any, Any]) -> FileReader:
        # One dictionary for each time that the scan runs; setdefault is atomic.
        reads: _Reads = multi_scan_context.setdefault(_READS, _Reads(self.partitions))
        reads.enter()
        return _PartitionReader(self, int(source), reads)


class _Reads:
    """What the readers of one run share; ends with the last of them."""

    def __init__(self, partitions: list[core.Partition]) -> None:
        self.ahead = ReadAhead(partitions, READ_AT_ONCE)
        self._lock = threading.Lock()
        self._readers = 0

    def enter(self) -> None:
        with self._lock:
            self._readers += 1

    def leave(self) -> None:
        with self._lock:
            self._readers -= 1
            is_last = self._readers == 0
        if is_last:
            self.ahead.close()


class _PartitionReader(FileReader):
    def __init__(self, builder: PartitionsBuilder, index: int, reads: _Reads) -> None:
        self._builder = builder
        self._index = index
        # A table without rows may have no partition at all.
        self._partition = builder.partitions[index] if index < len(builder.partitions) else None
        self._reads = reads
        self._has_feed = False
        self._height: int | None = None

    def schema(self) -> pl.Schema:
        return self._builder.schema

    def collect_batches(
        self,
        *,
        columns: Sequence[str] = (),
        row_index: tuple[str, int] | None = None,
        pre_slice: tuple[int, int] | None = None,
        filters: Sequence[object] = (),
        num_pipelines: int,
    ) -> Iterator[pl.DataFrame]:
        if row_index is not None or filters:
            raise NotImplementedError("Polars asked for what this reader did not offer: a row index or a filter")
        progress = self._builder.progress
        for rows in self._all() if pre_slice is None else self._slice(*pre_slice):
            if progress is not None:
                progress(rows.height)
            yield self._shaped(rows, columns)

    def _all(self) -> Iterator[pl.DataFrame]:
        partition = self._partition
        if partition is None:
            return
        if not self._builder.has_columns and partition.rows is not None:
            yield pl.DataFrame(height=partition.rows)
            return
        self._has_feed = True
        try:
            yield from self._reads.ahead.take(self._index)
        finally:
            self._reads.ahead.give_back(self._index)

    def _slice(self, offset: int, length: int) -> Iterator[pl.DataFrame]:
        """Some rows of the partition. These are few or soon reached, so nothing is read ahead."""
        if self._partition is None or length == 0:
            return
        height = self._partition.rows
        if height is not None:
            # Polars asks for what lies behind the last row, too.
            length = min(length, height - offset)
            if length <= 0:
                return
            if not self._builder.has_columns:
                yield pl.DataFrame(height=length)
                return
        yield from short_read(self._partition, offset, length)

    def _shaped(self, rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        height = rows.height
        if not columns:
            return pl.DataFrame(height=height)
        names = list(self._builder.schema)
        if len(names) > rows.width:
            nothing = pl.Series(names[0], [None], dtype=pl.Null).new_from_index(0, height)
            rows = pl.DataFrame([nothing, *rows.get_columns()])
        # Not by methods of data frames that start a query: this is part of one.
        rows.columns = names
        return rows if names == list(columns) else rows[list(columns)]

    def n_rows_in_file(self, limit: int | None = None) -> int:
        partition = self._partition
        if partition is None:
            return 0
        if partition.rows is not None:
            return partition.rows
        if self._height is None:
            height = sum(rows.height for rows in short_read(partition, 0, limit))
            if limit is not None and height >= limit:
                return height
            self._height = height
        return self._height

    def on_drop(self) -> None:
        if self._has_feed:
            self._reads.ahead.give_back(self._index)
        self._reads.leave()
