"""Coroutines: the same as without, and what happens to them when they are cancelled or their loop is closed."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Iterator

import pyarrow as pa
import pytest
from conftest import CEILING, run, until

import lightstream_core as ls


def test_everything_that_waits_can_be_awaited(server: ls.Server, numbers: pa.Table) -> None:
    async def main() -> None:
        client = await ls.connect_async(server.url)
        assert await client.ping_async() > 0
        assert await client.tables_async() == ["empty", "numbers"]
        assert (await client.table_async("numbers")).num_rows == numbers.num_rows
        scan = await client.scan_async("numbers", where="n < 70000", partitions=3)
        assert sum([batch.num_rows async for batch in scan]) == 70_000
        assert sum([batch.num_rows async for batch in scan.partitions[0].read(limit=5)]) == 5
        with pytest.raises(ls.NotFoundError):
            await client.table_async("flights")
        with pytest.raises(ls.UnimplementedError):
            await client.query_async("SELECT 1")
        coroutine = client.ping_async()
        assert inspect.iscoroutine(coroutine)
        assert await asyncio.create_task(coroutine) > 0

    asyncio.run(main())


def test_many_partitions_are_read_at_once(client: ls.Client, numbers: pa.Table) -> None:
    async def rows(partition: ls.Partition) -> int:
        return sum([batch.num_rows async for batch in partition.read()])

    async def main() -> None:
        scan = await client.scan_async("numbers", partitions=8)
        assert sum(await asyncio.gather(*map(rows, scan.partitions))) == numbers.num_rows

    asyncio.run(main())


def gated(gate: threading.Event, batches: int = 3) -> pa.RecordBatchReader:
    """Rows of which all but the first batch wait for a gate."""
    schema = pa.schema({"n": pa.int64()})

    def make() -> Iterator[pa.RecordBatch]:
        for batch in range(batches):
            if batch > 0:
                assert gate.wait(CEILING)
            yield pa.record_batch([pa.array([batch], pa.int64())], schema)

    return pa.RecordBatchReader.from_batches(schema, make())


def test_a_cancelled_await_loses_no_rows() -> None:
    gate = threading.Event()
    with ls.serve({"t": lambda: gated(gate)}) as server:

        async def main() -> None:
            client = await ls.connect_async(server.url)
            reader = (await client.scan_async("t")).read()
            seen = [pa.record_batch(await reader.__anext__())["n"].to_pylist()]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.__anext__(), 0.05)
            gate.set()
            seen += [pa.record_batch(batch)["n"].to_pylist() async for batch in reader]
            assert seen == [[0], [1], [2]]

        asyncio.run(main())


def test_awaits_that_are_cancelled_as_rows_come_lose_none(client: ls.Client, numbers: pa.Table) -> None:
    async def main() -> None:
        scan = await client.scan_async("numbers", columns=["n"], ordered=True)
        for pauses in range(8):
            reader, seen = scan.read(), []
            while True:
                task = asyncio.ensure_future(reader.__anext__())
                for _ in range(pauses):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    seen.append(pa.record_batch(await task))
                except asyncio.CancelledError:
                    pass
                except StopAsyncIteration:
                    break
                try:
                    seen.append(pa.record_batch(await reader.__anext__()))
                except StopAsyncIteration:
                    break
            assert pa.Table.from_batches(seen)["n"].to_pylist() == numbers["n"].to_pylist()

    asyncio.run(main())


def test_cancelling_an_await_drops_the_work(client: ls.Client) -> None:
    gate = threading.Event()
    with ls.serve({"t": lambda: gated(gate)}) as server:

        async def main() -> None:
            client = await ls.connect_async(server.url)
            reader = (await client.scan_async("t")).read()
            await reader.__anext__()
            task = asyncio.ensure_future(reader.__anext__())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        gate.set()
        until(lambda: server.stats()["active_scans"] == 0)


def test_a_loop_that_is_closed_before_the_answer_is_no_trouble() -> None:
    program = """
        import asyncio, gc, threading
        import pyarrow as pa
        import lightstream_core as ls

        gate = threading.Event()
        schema = pa.schema({"n": pa.int64()})

        def make():
            gate.wait(20)
            yield pa.record_batch([pa.array([1])], schema)

        server = ls.serve({"t": lambda: pa.RecordBatchReader.from_batches(schema, make())})
        client = ls.connect(server.url)
        reader = client.scan("t").read()
        loop = asyncio.new_event_loop()
        task = loop.create_task(reader.__anext__())
        loop.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False
        loop.close()
        gate.set()
        # The rows that nobody awaited any more are the next.
        assert [batch.num_rows for batch in reader] == [1]
        print("done")
    """
    done = run(program)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_a_coroutine_that_is_never_awaited_does_nothing(client: ls.Client, server: ls.Server) -> None:
    before = server.stats()["plans"]
    client.scan_async("numbers").close()
    assert server.stats()["plans"] == before


def test_tables_that_hang_do_not_hold_up_others(server: ls.Server) -> None:
    go_on = threading.Event()

    def hangs() -> pa.Table:
        go_on.wait(CEILING)
        return pa.table({"n": [1]})

    async def main(url: str) -> None:
        hanging = ls.connect(url)
        other = ls.connect(server.url)
        # More than there are threads that may wait.
        tasks = [asyncio.ensure_future(hanging.scan_async("hangs")) for _ in range(520)]
        await asyncio.sleep(0.5)
        assert await asyncio.wait_for(other.ping_async(), CEILING / 2) > 0
        go_on.set()
        await asyncio.gather(*tasks)

    with ls.serve({"hangs": hangs}) as hung:
        asyncio.run(main(hung.url))
