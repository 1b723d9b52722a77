"""Partitions in other processes."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import run, until

import lightstream_core as ls


def count_rows(partition: ls.Partition) -> int:
    return sum(batch.num_rows for batch in partition.read())


def test_a_fresh_interpreter_reads_a_pickled_partition(client: ls.Client, tmp_path: Path) -> None:
    scan = client.scan(
        "numbers",
        columns=["text", "n"],
        where="half IN (0.0, 4.0, 40000.0)",
        partitions=3,
        types={"utf8": "large_utf8"},
    )
    pickled = tmp_path / "partitions"
    pickled.write_bytes(pickle.dumps(scan.partitions))
    program = """
        import pickle, sys
        import pyarrow as pa
        partitions = pickle.load(open(sys.argv[1], "rb"))
        parts = [pa.table(partition.read()) for partition in partitions * 2]
        assert {part.schema for part in parts} == {pa.schema({"text": pa.large_utf8(), "n": pa.int64()})}
        assert {pa.schema(partition.schema) for partition in partitions} == {parts[0].schema}
        print(sorted(row for part in parts for row in part["n"].to_pylist()))
    """
    done = run(program, str(pickled))
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.strip() == "[0, 0, 8, 8, 80000, 80000]"


def test_a_pool_of_spawned_processes(client: ls.Client, numbers: pa.Table) -> None:
    scan = client.scan("numbers", partitions=4)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert sum(pool.map(count_rows, scan.partitions)) == numbers.num_rows


def test_no_secret_is_pickled(server: ls.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ls.connect(server.url + "/numbers?retries=7", read_timeout=9)
    state = client.scan(partitions=2).partitions[0].__reduce__()[1][0]
    assert state[2] == {"retries": "7", "read_timeout": "9.000000000s"}


def test_what_is_no_partition_is_refused(client: ls.Client) -> None:
    make, (state,) = client.scan("numbers").partitions[0].__reduce__()
    with pytest.raises(ls.InvalidArgumentError, match="form 99"):
        make((99, *state[1:]))
    with pytest.raises(ls.InvalidArgumentError):
        make((*state[:3], b"rubbish", *state[4:]))


def test_a_partition_reads_on_after_its_scan_and_client_are_gone(server: ls.Server, numbers: pa.Table) -> None:
    partition = ls.connect(server.url).scan("numbers", partitions=1).partitions[0]
    assert count_rows(partition) == numbers.num_rows
    assert count_rows(pickle.loads(pickle.dumps(partition))) == numbers.num_rows


def test_servers_that_share_a_key_read_each_others_partitions(tmp_path: Path, numbers: pa.Table) -> None:
    path = tmp_path / "numbers.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, numbers.schema) as writer:
        writer.write_table(numbers)
    key = b"k" * 32
    socket = f"lightstream+unix://{tmp_path}/s.sock"
    with ls.serve({"t": path}, listen=socket, ticket_key=key):
        pickled = pickle.dumps(ls.connect(socket).scan("t", partitions=2).partitions)
    with ls.serve({"t": path}, listen=socket, ticket_key=key):
        assert sum(map(count_rows, pickle.loads(pickled))) == numbers.num_rows
    assert not (tmp_path / "s.sock").exists()


def rows_of(reader: ls.Reader) -> list[int]:
    return [n for batch in reader for n in pa.record_batch(batch)["n"].to_pylist()]


@pytest.mark.parametrize("where", [None, "n % 3 = 0"], ids=["all", "filtered"])
def test_a_partition_is_read_from_any_row_on(client: ls.Client, server: ls.Server, where: str | None) -> None:
    for partition in client.scan("numbers", where=where, partitions=3).partitions:
        rows = rows_of(partition.read())
        for offset, limit in ((0, 5), (1, None), (len(rows) - 7, 3), (len(rows), None), (len(rows) + 5, 2), (1 << 63, 1)):
            expected = rows[offset:] if limit is None else rows[offset : offset + limit]
            assert rows_of(partition.read(offset=offset, limit=limit)) == expected
        assert rows_of(pickle.loads(pickle.dumps(partition)).read(offset=9, limit=2)) == rows[9:11]
        until(lambda: server.stats()["active_scans"] == 0)
        before = server.stats()["rows_sent"]
        assert len(rows_of(partition.read(offset=len(rows) - 7))) == 7
        until(lambda: server.stats()["active_scans"] == 0)
        assert server.stats()["rows_sent"] - before == 7
    with pytest.raises(ls.InvalidArgumentError, match="offset is 0 or more, not -1"):
        client.scan("numbers").partitions[0].read(offset=-1)


def test_rows_that_are_left_out_count_towards_the_limit_of_the_scan(client: ls.Client) -> None:
    partition = client.scan("numbers", limit=20_000, partitions=1).partitions[0]
    rows = rows_of(partition.read())
    assert len(rows) == 20_000
    for offset in (19_990, 20_000, 20_001):
        assert rows_of(partition.read(offset=offset)) == rows[offset:]
    few = client.scan("numbers", limit=10).partitions[0]
    assert rows_of(few.read(offset=4)) == rows_of(few.read())[4:]


def test_what_is_applied_here_is_applied_before_rows_are_left_out() -> None:
    table = pa.table({"n": range(1000)})
    with ls.serve({"t": lambda: table}) as server:
        scan = ls.connect(server.url).scan("t", where="n % 7 = 0")
        [partition] = scan.partitions
        assert rows_of(partition.read(offset=10, limit=3)) == [70, 77, 84]
