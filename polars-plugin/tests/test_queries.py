"""Whole queries over a served database give what they give over local tables: TPC-H, and the flights of the examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lightstream_core
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import data
import flights
import tpch
from lightstream_polars import scan_lightstream

SCALE = 0.01


class Database:
    """The same tables served and at hand."""

    def __init__(self, files: dict[str, Path]) -> None:
        arrow = {name: pq.read_table(file) for name, file in files.items()}
        self.server = lightstream_core.serve(dict(arrow))
        self.local = {name: pl.from_arrow(table).lazy() for name, table in arrow.items()}
        self.remote = {name: scan_lightstream(f"{self.server.url}/{name}") for name in files}


@pytest.fixture(scope="module")
def orders() -> Iterator[Database]:
    database = Database(data.tpch(SCALE))
    yield database
    database.server.stop()


@pytest.fixture(scope="module")
def trips() -> Iterator[Database]:
    database = Database(data.flights())
    yield database
    database.server.stop()


@pytest.mark.parametrize("engine", ["streaming", "in-memory"])
@pytest.mark.parametrize("name", tpch.QUERIES)
def test_tpch(orders: Database, name: str, engine: str) -> None:
    query = tpch.QUERIES[name]
    expected = query(orders.local).collect(engine=engine)
    assert_frame_equal(query(orders.remote).collect(engine=engine), expected)
    assert expected.height > 0


@pytest.mark.parametrize("engine", ["streaming", "in-memory"])
@pytest.mark.parametrize("name", flights.QUERIES)
def test_flights(trips: Database, name: str, engine: str) -> None:
    query = flights.QUERIES[name]
    expected = query(trips.local).collect(engine=engine)
    assert_frame_equal(query(trips.remote).collect(engine=engine), expected)
    assert expected.height > 0


def test_most_predicates_are_pushed(
    orders: Database, trips: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resolver = pytest.importorskip("lightstream_polars._resolver", reason="this Polars has no resolver to ask")
    resolve = resolver.TableResolver.resolve_lazyframe
    counts = [0, 0]

    def counting(self, **wanted):  # type: ignore[no-untyped-def]
        frame, properties = resolve(self, **wanted)
        counts[0] += len(properties.applied_filters)
        counts[1] += len(wanted["filters"])
        return frame, properties

    monkeypatch.setattr(resolver.TableResolver, "resolve_lazyframe", counting)
    shares = {}
    for title, database, queries in (("TPC-H", orders, tpch.QUERIES), ("flights", trips, flights.QUERIES)):
        counts[:] = [0, 0]
        for query in queries.values():
            query(database.remote).collect()
        shares[title] = tuple(counts)
    with capsys.disabled():
        for title, (pushed, all_) in shares.items():
            print(f"\n{title}: {pushed} of {all_} predicates are applied at the server ({pushed / all_:.0%})", end="")
    assert all(pushed >= 0.8 * all_ > 0 for pushed, all_ in shares.values()), shares
