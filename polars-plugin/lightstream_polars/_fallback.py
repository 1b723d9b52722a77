"""Remote tables for a Polars without resolvers: one source that applies projection, predicate and limit itself.

Polars pulls its rows one after another, so the partitions are read ahead.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from polars.io.plugins import register_io_source

from lightstream_polars._progress import Progress
from lightstream_polars._rows import ReadAhead
from lightstream_polars._table import RemoteTable

_READ_AT_ONCE = 4


def io_source_frame(table: RemoteTable, progress: Progress | None = None) -> pl.LazyFrame:
    """The table as a source of rows."""

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del batch_size
        return _rows(table, with_columns, predicate, n_rows, progress)

    return register_io_source(source, schema=table.schema, is_pure=False)


def _rows(
    table: RemoteTable,
    with_columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    progress: Progress | None,
) -> Iterator[pl.DataFrame]:
    kept = list(table.schema) if with_columns is None else with_columns
    plan = table.plan(kept, [] if predicate is None else [table.predicate(predicate)], limit=n_rows)
    ahead = ReadAhead(plan.partitions, _READ_AT_ONCE if n_rows is None else 1)
    left = n_rows
    try:
        for index in range(len(plan.partitions)):
            try:
                for rows in ahead.take(index):
                    # The limit comes before the predicate.
                    part = rows if left is None else rows.head(left)
                    left = None if left is None else left - part.height
                    if progress is not None:
                        progress(part.height)
                    if predicate is not None and not plan.applied:
                        part = part.filter(predicate)
                    yield part if part.columns == kept else part[kept]
                    if left == 0:
                        return
            finally:
                ahead.give_back(index)
    finally:
        ahead.close()
