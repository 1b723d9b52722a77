"""Connections that are cut, reset, stalled and changed, as engines see them: the exact result, or an error that says where.

Without retries an engine may fail, and then names table, partition and server; with them it must not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

os.environ.setdefault("DAFT_ANALYTICS_ENABLED", "0")
os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
os.environ.setdefault("DAFT_RUNNER", "native")

import daft
import lightstream_core as core
import polars as pl
import pyarrow as pa
import pytest
from lightstream_daft import read_lightstream
from lightstream_polars import scan_lightstream
from proxy import Kind, Proxy
from serving import served, settled, within_deadline

ROWS = 6000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "text": pa.array([f"row {n}, and what there is to say about it" for n in range(ROWS)], pa.large_string()),
    }
)
PLACES: dict[Kind, int] = {"cut": 24, "reset": 24, "stall": 8, "change": 24}

OPTIONS: dict[str, Any] = {"partitions": 4, "batch_rows": 250, "read_timeout": "300ms", "checksum": "crc32c"}
"""Small frames, silence that is noticed soon, and checksums, without which a changed byte goes unseen."""


def _polars(engine: Any) -> Callable[[str, dict[str, Any]], pa.Table]:
    def read(url: str, options: dict[str, Any]) -> pa.Table:
        return scan_lightstream(url, storage_options=options).collect(engine=engine).to_arrow()

    return read


def _daft(url: str, options: dict[str, Any]) -> pa.Table:
    return read_lightstream(url, storage_options=options).to_arrow()


def _pyarrow(url: str, options: dict[str, Any]) -> pa.Table:
    return pa.table(core.connect(url, **options).scan())


ENGINES: dict[str, Callable[[str, dict[str, Any]], pa.Table]] = {
    "Polars, streaming": _polars("streaming"),
    "Polars, in memory": _polars("in-memory"),
    "Daft": _daft,
    "pyarrow": _pyarrow,
}


def exact(rows: pa.Table) -> bool:
    """Whether these are the rows, each once, in any order."""
    rows = rows.sort_by("id").combine_chunks()
    return rows["id"].to_pylist() == list(range(ROWS)) and rows["text"].to_pylist() == TABLE["text"].to_pylist()


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({"t": TABLE}) as server:
        yield server


@pytest.fixture(scope="module")
def places(server: core.Server) -> dict[Kind, list[int]]:
    """Where each kind of fault strikes a whole read: after so many bytes."""
    with Proxy(urlsplit(server.url).port or 0) as proxy:
        assert exact(_pyarrow(f"lightstream://127.0.0.1:{proxy.port}/t", OPTIONS))
        every = proxy.forwarded_bytes
    return {kind: [every * n // count + n for n in range(count)] for kind, count in PLACES.items()}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["cut", "reset", "stall", "change"])
def test_with_retries_every_row_comes_once(server: core.Server, places: dict[Kind, list[int]], engine: str, kind: Kind) -> None:
    struck = 0
    for place in places[kind]:
        with Proxy(urlsplit(server.url).port or 0, kind, place) as proxy:
            options = OPTIONS | {"retries": 5, "retry_backoff": "1ms"}
            url = f"lightstream://127.0.0.1:{proxy.port}/t"
            assert exact(within_deadline(lambda url=url: ENGINES[engine](url, options))), place
            struck += proxy.has_struck
    assert struck >= PLACES[kind] - 4
    settled(server)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["cut", "reset", "stall", "change"])
def test_without_retries_an_error_says_where(server: core.Server, places: dict[Kind, list[int]], engine: str, kind: Kind) -> None:
    failed, named = 0, 0
    for place in places[kind]:
        with Proxy(urlsplit(server.url).port or 0, kind, place) as proxy:
            url = f"lightstream://127.0.0.1:{proxy.port}/t"
            try:
                rows = within_deadline(lambda url=url: ENGINES[engine](url, OPTIONS | {"retries": 0}))
            except Exception as error:
                failed += 1
                said = str(error)
                assert any(code in said for code in ("unavailable", "data_loss", "deadline_exceeded")), said
                assert f"127.0.0.1:{proxy.port}" in said, said
                named += 'table "t"' in said and "partition" in said
            else:
                assert exact(rows), place
    assert failed >= PLACES[kind] // 2
    # The others fail before there is a partition: they connect, or plan.
    assert named >= failed // 2
    settled(server)
