"""Serving: tables in memory, in mapped files, and made anew by a callable."""

from __future__ import annotations

import functools
import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any, Iterator

import pyarrow as pa
import pytest
from conftest import CEILING, until

import lightstream_core as ls

SCHEMA = pa.schema({"n": pa.int64()})


def batch(n: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([n], pa.int64())], SCHEMA)


def test_memory_is_served_without_a_copy_from_whatever_exports_it(numbers: pa.Table) -> None:
    first = numbers.to_batches()[0]
    tables = {
        "table": numbers,
        "batch": first,
        "reader": numbers.to_reader(),
        "none": SCHEMA.empty_table(),
    }
    before = pa.total_allocated_bytes()
    with ls.serve(tables) as server:
        assert pa.total_allocated_bytes() - before < 1_000_000
        client = ls.connect(server.url)
        assert client.tables() == sorted(tables)
        assert pa.table(client.scan("batch")).combine_chunks() == pa.Table.from_batches([first]).combine_chunks()
        for name in ("table", "reader"):
            assert pa.table(client.scan(name, ordered=True)) == numbers
        assert pa.table(client.scan("none")) == SCHEMA.empty_table()
        # A scan, which is a stream of Arrow like any other.
        with ls.serve({"again": client.scan("table", ordered=True)}) as second:
            assert pa.table(ls.connect(second.url).scan("again", ordered=True)) == numbers


def test_a_file_is_mapped_and_another_in_its_place_is_seen(tmp_path: Path, numbers: pa.Table) -> None:
    path = tmp_path / "t.arrow"

    def put(table: pa.Table) -> None:
        with pa.OSFile(str(tmp_path / "next"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        os.replace(tmp_path / "next", path)

    put(numbers)
    with ls.serve({"path": path, "text": str(path)}) as server:
        client = ls.connect(server.url)
        for name in ("path", "text"):
            assert pa.table(client.scan(name, ordered=True)) == numbers
        old = client.scan("path", ordered=True)
        put(numbers.select(["n", "pad"]).slice(0, 10))
        assert pa.table(client.scan("path", columns=["pad"])).num_rows == 10
        assert pa.table(old) == numbers
    with pytest.raises(ls.NotFoundError):
        ls.serve({"t": tmp_path / "nowhere"})
    (tmp_path / "rubbish").write_bytes(b"rubbish" * 100)
    with pytest.raises(ls.DataLossError):
        ls.serve({"t": tmp_path / "rubbish"})


def test_a_callable_makes_a_fresh_stream_for_each_scan() -> None:
    calls = 0

    def make() -> pa.RecordBatchReader:
        nonlocal calls
        calls += 1
        first = calls
        return pa.RecordBatchReader.from_batches(SCHEMA, (batch(first * 100 + n) for n in range(3)))

    with ls.serve({"t": make}) as server:
        assert calls == 0
        client = ls.connect(server.url)
        table = client.table("t")
        assert (table.snapshot, table.num_rows, calls) == (None, None, 1)
        scan = client.scan("t", where="n % 100 > 0", partitions=8)
        assert len(scan.partitions) == 1
        assert scan.filters == ["unsupported"] or scan.filters == ["exact"]
        for call in (2, 3):
            assert pa.table(scan)["n"].to_pylist() == [call * 100 + 1, call * 100 + 2]
        assert calls == 3
        with pytest.raises(ls.ExpiredError):
            client.scan("t", snapshot="yesterday")


def test_a_callable_may_return_whatever_has_rows() -> None:
    made: list[Any] = [batch(1), pa.Table.from_batches([batch(2), batch(3)]), pa.array([{"n": 4}])]
    for rows, expected in zip(made, ([1], [2, 3], [4]), strict=True):
        with ls.serve({"t": functools.partial(lambda rows: rows, rows)}) as server:
            assert pa.table(ls.connect(server.url).scan("t"))["n"].to_pylist() == expected
    with ls.serve({"t": lambda: 5}) as server:  # type: ignore[dict-item, return-value]
        with pytest.raises(ls.InternalError, match="__arrow_c_stream__"):
            ls.connect(server.url).scan("t")


def test_what_a_callable_raises_reaches_the_client() -> None:
    def fails_at_once() -> pa.Table:
        raise ValueError("the well is dry")

    def fails_later() -> pa.RecordBatchReader:
        def make() -> Iterator[pa.RecordBatch]:
            yield batch(1)
            raise OSError("the pump is broken")

        return pa.RecordBatchReader.from_batches(SCHEMA, make())

    with ls.serve({"once": fails_at_once, "later": fails_later}) as server:
        client = ls.connect(server.url)
        with pytest.raises(ls.InternalError, match="ValueError: the well is dry") as raised:
            client.scan("once")
        assert (raised.value.table, raised.value.retryable) == ("once", False)
        reader = client.scan("later").read()
        assert pa.record_batch(next(reader))["n"].to_pylist() == [1]
        with pytest.raises(ls.InternalError, match="the pump is broken") as raised:
            next(reader)
        assert raised.value.partition == 0
        with pytest.raises(Exception, match="the pump is broken"):
            pa.table(client.scan("later"))
        assert server.stats()["errors"] == 3


def test_a_schema_that_changes_is_an_error() -> None:
    schemas = iter([SCHEMA, pa.schema({"other": pa.string()})])
    with ls.serve({"t": lambda: next(schemas).empty_table()}) as server:
        with pytest.raises(ls.InternalError, match="another schema"):
            list(ls.connect(server.url).scan("t"))


class Endless:
    """Rows without an end, which knows how many streams of them are under way."""

    def __init__(self) -> None:
        self.pulled = 0
        self.under_way = 0

    def __call__(self) -> pa.RecordBatchReader:
        def make() -> Iterator[pa.RecordBatch]:
            self.under_way += 1
            try:
                while True:
                    self.pulled += 1
                    yield pa.record_batch([pa.array([0] * 1000, pa.int64())], SCHEMA)
            finally:
                self.under_way -= 1

        return pa.RecordBatchReader.from_batches(SCHEMA, make())


@pytest.mark.parametrize("how", ["close", "drop", "limit", "stream"])
def test_a_reader_that_goes_stops_the_pulling(how: str) -> None:
    endless = Endless()
    with ls.serve({"t": endless}) as server:
        scan = ls.connect(server.url).scan("t", limit=10 if how == "limit" else None)
        reader = scan.read()
        next(reader)
        if how == "close":
            reader.close()
        elif how == "drop":
            del reader
        elif how == "limit":
            assert list(reader) == []
        else:
            stream = pa.RecordBatchReader.from_stream(reader)
            del reader
            stream.read_next_batch()
            del stream
        gc.collect()
        until(lambda: server.stats()["active_scans"] == 0 and endless.under_way == 0)
        assert endless.pulled > 0


def test_a_reader_that_does_not_read_holds_the_pulling_back() -> None:
    endless = Endless()
    with ls.serve({"t": endless}) as server:
        reader = ls.connect(server.url).scan("t").read()
        next(reader)
        pulled = -1
        while pulled != endless.pulled:
            pulled = endless.pulled
            threading.Event().wait(0.3)
        assert pulled * 8000 < 100 << 20
        reader.close()


def test_a_reader_can_be_closed_from_another_thread() -> None:
    gate = threading.Event()

    def make() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        gate.wait(CEILING)

    with ls.serve({"t": lambda: pa.RecordBatchReader.from_batches(SCHEMA, make())}) as server:
        reader = ls.connect(server.url).scan("t").read()
        next(reader)
        closing = threading.Timer(0.05, reader.close)
        closing.start()
        with pytest.raises(ls.CancelledError):
            next(reader)
        gate.set()


def test_stopping_frees_the_address_and_the_tables(tmp_path: Path) -> None:
    class Rows:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return SCHEMA.empty_table().__arrow_c_stream__()

    rows = Rows()
    make = lambda: rows  # noqa: E731
    gone = weakref.ref(rows)
    socket = tmp_path / "s.sock"
    server = ls.serve({"t": make}, listen=[f"lightstream+unix://{socket}", "lightstream://127.0.0.1:0"])
    assert server.urls[0] == server.url == f"lightstream+unix://{socket}"
    for url in server.urls:
        assert ls.connect(url).tables() == ["t"]
    assert server.stop()
    assert not socket.exists()
    stats = server.stats()
    assert (stats["connections"], stats["active_scans"]) == (2, 0)
    assert server.stop()
    with pytest.raises(ls.UnavailableError):
        ls.connect(server.urls[1], retries=0)
    ls.serve({}, listen=server.url).stop()
    del rows, make
    until(lambda: gc.collect() >= 0 and gone() is None)


def test_scans_under_way_finish_while_a_server_drains(numbers: pa.Table) -> None:
    server = ls.serve({"t": numbers})
    # One partition: a server that drains takes no more connections.
    reader = ls.connect(server.url).scan("t", partitions=1).read()
    first = next(reader)
    thread = threading.Thread(target=server.stop, kwargs={"drain": 20.0})
    thread.start()
    assert first.num_rows + sum(batch.num_rows for batch in reader) == numbers.num_rows
    thread.join(CEILING)
    assert not thread.is_alive()
    assert server.stats()["rows_sent"] == numbers.num_rows


def test_stats_settle(client: ls.Client, server: ls.Server, numbers: pa.Table) -> None:
    scan = client.scan("numbers", partitions=2)
    list(scan)
    until(lambda: server.stats()["active_scans"] == 0)
    stats = server.stats()
    assert (stats["plans"], stats["scans"], stats["rows_sent"]) == (1, 2, numbers.num_rows)
    assert stats["batches_sent"] > 2 and stats["bytes_sent"] > numbers.nbytes // 2
    assert (stats["errors"], stats["connections"]) == (0, stats["active_connections"])


def test_places_to_listen_at_are_checked() -> None:
    for wrong in ("nonsense", "lightstream://127.0.0.1:0/table", "lightstream://127.0.0.1:0?retries=2"):
        with pytest.raises(ls.InvalidArgumentError):
            ls.serve({}, listen=wrong)
    with pytest.raises(ls.InvalidArgumentError):
        ls.serve({}, listen=[])
    with pytest.raises(ls.InvalidArgumentError, match="32 bytes"):
        ls.serve({}, ticket_key=b"short")


def test_tables_are_named(numbers: pa.Table) -> None:
    with pytest.raises(ls.InvalidArgumentError, match="empty name"):
        ls.serve({"": numbers})
    with pytest.raises(TypeError, match="tables"):
        ls.serve([numbers])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names in tables are text, not int"):
        ls.serve({1: numbers})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match='table "t"'):
        ls.serve({"t": 5})  # type: ignore[dict-item]


def test_limits_are_kept(numbers: pa.Table) -> None:
    with ls.serve({"t": numbers}, max_connections=1, max_scans=1) as server:
        first = ls.connect(server.url)
        with pytest.raises(ls.ResourceExhaustedError, match="too many connections"):
            ls.connect(server.url, retries=0)
        assert pa.table(first.scan("t", partitions=1, ordered=True)) == numbers
    wrongs: list[dict[str, Any]] = [{"max_connections": 0}, {"max_scans": -1}]
    for wrong in wrongs:
        with pytest.raises(ls.InvalidArgumentError, match=f"{next(iter(wrong))} is 1 or more"):
            ls.serve({}, **wrong)
    with pytest.raises(TypeError, match="max_scans is a whole number, not str"):
        ls.serve({}, max_scans="5")  # type: ignore[arg-type]
