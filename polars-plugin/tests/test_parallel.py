"""Many reads at once: of one scan, of many scans, from many threads and from within other queries, and given up half-way."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import lightstream_core as core
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from conftest import HAS_RESOLVERS, settled, until, within_deadline
from gate import Gate
from lightstream_polars import scan_lightstream

ROWS = 1_000_000
LOCAL = pl.DataFrame({"n": range(ROWS)}).with_columns(
    (pl.col("n") % 10).alias("group"), (pl.col("n") * 3).cast(pl.String).alias("text")
)


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with core.serve({"rows": LOCAL}) as server:
        yield server


@pytest.fixture
def remote(server: core.Server) -> pl.LazyFrame:
    return scan_lightstream(f"{server.url}/rows")


def test_four_partitions_are_read_at_the_same_time(server: core.Server, engine: str) -> None:
    gate = Gate(server.url, width=4, after_bytes=200_000)
    try:
        frame = scan_lightstream(f"{gate.url}/rows", storage_options={"partitions": "8"})
        read = within_deadline(lambda: frame.collect(engine=engine))
        assert gate.opened
    finally:
        gate.close()
    assert_frame_equal(read, LOCAL)


def test_ten_scans_are_collected_together(remote: pl.LazyFrame, engine: str) -> None:
    def queries(frame: pl.LazyFrame) -> list[pl.LazyFrame]:
        return [frame.filter(pl.col("group") == group).select(pl.col("n").sum(), pl.len()) for group in range(10)]

    together = within_deadline(lambda: pl.collect_all(queries(remote), engine=engine))
    for got, expected in zip(together, pl.collect_all(queries(LOCAL.lazy())), strict=True):
        assert_frame_equal(got, expected)


def test_ten_tables_are_collected_together(server: core.Server, engine: str) -> None:
    frames = [scan_lightstream(f"{server.url}/rows").select("n", "text") for _ in range(10)]
    for got in within_deadline(lambda: pl.collect_all(frames, engine=engine)):
        assert_frame_equal(got, LOCAL.select("n", "text"))


def test_threads_scan_at_the_same_time(server: core.Server, engine: str) -> None:
    def scan(number: int) -> int:
        frame = scan_lightstream(f"{server.url}/rows").filter(pl.col("n") % 32 == number)
        return frame.select(pl.col("n").sum()).collect(engine=engine).item()

    with ThreadPoolExecutor(8) as pool:
        sums = within_deadline(lambda: list(pool.map(scan, range(32))))
    assert sums == [sum(range(number, ROWS, 32)) for number in range(32)]


def test_a_scan_may_run_within_another_query(remote: pl.LazyFrame, engine: str) -> None:
    def inner(frame: pl.DataFrame) -> pl.DataFrame:
        totals = remote.group_by("group").agg(pl.col("n").sum().alias("total")).collect(engine=engine)
        return frame.join(totals, on="group")

    def query(frame: pl.LazyFrame) -> pl.LazyFrame:
        schema = {**LOCAL.schema, "total": pl.Int64}
        return frame.filter(pl.col("n") < 1000).map_batches(inner, schema=schema).sort("n")

    got = within_deadline(lambda: query(remote).collect(engine=engine))
    totals = LOCAL.group_by("group").agg(pl.col("n").sum().alias("total"))
    expected = LOCAL.filter(pl.col("n") < 1000).join(totals, on="group").sort("n")
    assert_frame_equal(got, expected)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not hasattr(pl.LazyFrame, "collect_batches"), reason="this Polars has no collect_batches")
def test_batches_that_are_given_up_half_way_leave_nothing_behind(server: core.Server, remote: pl.LazyFrame) -> None:
    def first_batch() -> pl.DataFrame:
        return next(iter(remote.collect_batches(chunk_size=1000, maintain_order=True)))

    def given_up(times: int) -> None:
        for _ in range(times):
            assert within_deadline(first_batch).height > 0
        gc.collect()
        settled(server)

    given_up(5)
    before = descriptors(), threading.active_count()
    given_up(40)
    until(lambda: threading.active_count() <= before[1] + 4, "threads are left")
    # Connections that were given up are closed, at most as many as a scan opens are kept.
    until(lambda: descriptors() <= before[0] + 16, "descriptors are left")


@pytest.mark.skipif(not HAS_RESOLVERS, reason="without resolvers Polars gives up a source only when it is done")
def test_a_head_ends_the_work_of_the_server(server: core.Server, remote: pl.LazyFrame) -> None:
    within_deadline(lambda: remote.filter(pl.col("group") == 3).head(1).collect(engine="streaming"))
    settled(server)


def test_a_server_that_dies_half_way_is_an_error(engine: str) -> None:
    with core.serve({"rows": LOCAL}) as server:
        gate = Gate(server.url, width=100, after_bytes=300_000)
        options = {"retries": "0", "partitions": "4"}
        frame = scan_lightstream(f"{gate.url}/rows", storage_options=options)
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(lambda: frame.collect(engine=engine))
            until(lambda: server.stats()["active_scans"] > 0, "nothing is read")
            server.stop()
            gate.close()
            with pytest.raises(Exception, match="rows"):
                within_deadline(read.result)
