"""Partitions are read side by side, and many scans at once neither wait for each other for ever nor leave anything."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import lightstream_core as core
import polars as pl
import pytest
from conftest import padded, served, settled, until, within_deadline
from gate import Gate

from lightstream_polars import scan_lightstream

ROWS = 2_000_000
LOCAL = pl.DataFrame(
    {
        "id": pl.int_range(ROWS, eager=True),
        "group": pl.int_range(ROWS, eager=True) % 7,
        "value": pl.int_range(ROWS, eager=True).cast(pl.Float64),
    }
)


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({"t": LOCAL, "short": LOCAL.head(1000)}) as server:
        yield server


@pytest.fixture
def remote(server: core.Server) -> pl.LazyFrame:
    return scan_lightstream(f"{server.url}/t")


def reading_threads() -> int:
    # What an error refers to is let go of only with the error.
    gc.collect()
    return sum(thread.name == "lightstream-read" for thread in threading.enumerate())


def nothing_is_left(server: core.Server) -> None:
    settled(server)
    until(lambda: reading_threads() == 0, "a thread still reads")


def test_four_partitions_are_read_at_the_same_time(server: core.Server, engine: str) -> None:
    target = urlsplit(server.url)
    with Gate(target.hostname, target.port, width=4) as gate:
        remote = scan_lightstream(f"lightstream://127.0.0.1:{gate.port}/t", storage_options={"partitions": 8})
        total = within_deadline(lambda: remote.select(pl.col("id").sum()).collect(engine=engine).item())
        assert gate.is_open
    assert total == LOCAL["id"].sum()
    nothing_is_left(server)


def test_more_partitions_than_are_read_at_once_keep_their_order(engine: str) -> None:
    local = LOCAL.head(1000)
    with served({"t": padded(local)}) as server:
        remote = scan_lightstream(f"{server.url}/t", storage_options={"partitions": 1000}).select(local.columns)
        for _ in range(20):
            assert within_deadline(lambda: remote.collect(engine=engine)).equals(local)
        nothing_is_left(server)


def test_ten_scans_collected_together(server: core.Server, engine: str) -> None:
    frames = [
        scan_lightstream(f"{server.url}/t").filter(pl.col("group") == at % 7).select(pl.col("value").sum())
        for at in range(10)
    ]
    results = within_deadline(lambda: pl.collect_all(frames, engine=engine))
    for at, result in enumerate(results):
        assert result.item() == LOCAL.filter(pl.col("group") == at % 7)["value"].sum()
    nothing_is_left(server)


def test_one_scan_used_ten_times_in_a_query(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    query = pl.concat([remote.filter(pl.col("group") == at % 7).select(pl.col("id").max()) for at in range(10)])
    assert within_deadline(lambda: query.collect(engine=engine)).height == 10
    nothing_is_left(server)


@pytest.mark.skipif(
    not hasattr(pl.LazyFrame, "collect_batches"), reason=f"Polars {pl.__version__} has no collect_batches"
)
@pytest.mark.filterwarnings("ignore")
def test_batches_that_are_not_all_taken(server: core.Server, remote: pl.LazyFrame) -> None:
    def some() -> int:
        batches = iter(remote.collect_batches(chunk_size=1000))
        first = next(batches)
        assert first["id"][0] == 0
        del batches
        return first.height

    for _ in range(5):
        assert within_deadline(some) > 0
    nothing_is_left(server)


@pytest.mark.skipif(
    not hasattr(pl.LazyFrame, "collect_batches"), reason=f"Polars {pl.__version__} has no collect_batches"
)
@pytest.mark.filterwarnings("ignore")
def test_batches_that_are_all_taken(server: core.Server, remote: pl.LazyFrame) -> None:
    rows = within_deadline(lambda: sum(batch.height for batch in remote.collect_batches(maintain_order=True)))
    assert rows == ROWS
    nothing_is_left(server)


def test_a_pool_of_threads_that_scan(server: core.Server, engine: str) -> None:
    def scan(at: int) -> int:
        remote = scan_lightstream(f"{server.url}/{'t' if at % 4 == 0 else 'short'}")
        return remote.filter(pl.col("group") == at % 7).select(pl.len()).collect(engine=engine).item()

    def all_of_them() -> list[int]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(scan, range(40)))

    for at, rows in enumerate(within_deadline(all_of_them)):
        local = LOCAL if at % 4 == 0 else LOCAL.head(1000)
        assert rows == local.filter(pl.col("group") == at % 7).height
    nothing_is_left(server)


def test_a_scan_within_a_scan(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    names = scan_lightstream(f"{server.url}/short")

    def look_up(frame: pl.DataFrame) -> pl.DataFrame:
        other = names.select(pl.col("id"), pl.col("value").alias("other")).collect(engine=engine)
        return frame.join(other, on="id", how="inner").select("id", "other")

    query = remote.filter(pl.col("id") < 5000).map_batches(look_up, schema={"id": pl.Int64, "other": pl.Float64})
    assert within_deadline(lambda: query.collect(engine=engine)).height == 1000
    nothing_is_left(server)


def test_reads_that_end_early_leave_nothing(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    for count in (1, 10, 100_000, 500_000):
        for _ in range(5):
            query = remote.filter(pl.col("id") >= 10).head(count)
            rows = within_deadline(partial(query.collect, engine=engine))
            assert rows["id"].to_list() == list(range(10, 10 + count))
    nothing_is_left(server)


@pytest.mark.parametrize("how", ["a failing function", "a failing cast"])
def test_queries_that_fail_leave_nothing(server: core.Server, remote: pl.LazyFrame, engine: str, how: str) -> None:
    def fail(frame: pl.DataFrame) -> pl.DataFrame:
        raise RuntimeError("enough")

    query = remote.map_batches(fail) if how == "a failing function" else remote.select(pl.col("id").cast(pl.Int8))
    for _ in range(3):
        with pytest.raises((RuntimeError, pl.exceptions.PolarsError)):
            within_deadline(lambda: query.collect(engine=engine))
    nothing_is_left(server)


def test_a_server_that_goes_away_ends_the_read(engine: str) -> None:
    target_server = core.serve({"t": LOCAL})
    target = urlsplit(target_server.url)
    with Gate(target.hostname, target.port, width=1_000) as gate:
        options = {"retries": 0, "partitions": 8}
        remote = scan_lightstream(f"lightstream://127.0.0.1:{gate.port}/t", storage_options=options)
        failures: list[BaseException] = []

        def collect() -> None:
            try:
                remote.collect(engine=engine)
            except BaseException as failure:
                failures.append(failure)

        reader = threading.Thread(target=collect, daemon=True)
        reader.start()
        until(lambda: gate._waiting > 0, "nothing is read")
    target_server.stop()
    reader.join(60)
    assert not reader.is_alive()
    assert any(code in str(failures[0]) for code in ("unavailable", "data_loss"))
    until(lambda: reading_threads() == 0, "a thread still reads")
