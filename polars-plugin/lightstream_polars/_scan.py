"""What users call: a remote table as a lazy frame, or read at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, SupportsIndex

import polars as pl
from lightstream_core import Connection, CredentialProvider

from lightstream_polars._progress import Progress, progress
from lightstream_polars._table import RemoteTable

_HAS_RESOLVERS: Final = tuple(int(part) for part in pl.__version__.split(".")[:2]) >= (2, 1)
"""Those of Polars 2.0 panic on some predicates, such as a look-up in a list of an enum's values."""


def scan_lightstream(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: CredentialProvider | Literal["auto"] | None = "auto",
    n_rows: int | None = None,
    snapshot: str | None = None,
) -> pl.LazyFrame:
    """Scan a table of a Lightstream server lazily.

    Columns, conditions and limits go to the server, which sends what passes in parallel partitions. The table's order
    is kept. Rows are read when the frame is collected, and each time as the table is then, unless `snapshot` says
    otherwise. ``explain()`` shows what is asked of the server, and reads no rows.

    Parameters
    ----------
    url
        Server and table, as in ``lightstream://host:7654/table``.
    storage_options
        Options by name, such as ``token`` or ``read_timeout``. They go before those of the URL.
    credential_provider
        A callable that returns options such as ``{"token": "..."}``. It is called when connecting, and again when the
        server refuses what it gave. ``"auto"`` leaves credentials to options and environment.
    n_rows
        Stop after so many rows.
    snapshot
        The state of the table to read; by default the newest.

    Raises
    ------
    lightstream_core.LightstreamError
        If the server or table cannot be reached, or the table has a type that Polars has not, named with its column.
    """
    _check(n_rows)
    connection = Connection(url, storage_options, credential_provider)
    return _frame(RemoteTable(connection, snapshot), n_rows)


def read_lightstream(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: CredentialProvider | Literal["auto"] | None = "auto",
    n_rows: int | None = None,
    snapshot: str | None = None,
) -> pl.DataFrame:
    """Read a table of a Lightstream server. The parameters are those of :func:`scan_lightstream`.

    On a terminal a read that takes long shows its progress if tqdm is installed, unless ``LIGHTSTREAM_PROGRESS=0``.
    """
    _check(n_rows)
    table = RemoteTable(Connection(url, storage_options, credential_provider), snapshot)
    total = table.estimated_rows
    if n_rows is not None:
        total = n_rows if total is None else min(total, n_rows)
    with progress(f"reading {table.name}", total) as count:
        return _frame(table, n_rows, count).collect()


def _check(n_rows: int | None) -> None:
    if n_rows is None:
        return
    if isinstance(n_rows, bool) or not isinstance(n_rows, SupportsIndex):
        raise TypeError(f"n_rows is a whole number or None, not {type(n_rows).__name__}")
    if n_rows < 0:
        raise ValueError(f"n_rows is 0 or more, not {n_rows}")


def _frame(table: RemoteTable, n_rows: int | None, count: Progress | None = None) -> pl.LazyFrame:
    if _HAS_RESOLVERS:
        from lightstream_polars._resolver import TableResolver

        return TableResolver(table, n_rows, count).frame()
    from lightstream_polars._fallback import io_source_frame

    frame = io_source_frame(table, count)
    return frame if n_rows is None else frame.head(n_rows)
