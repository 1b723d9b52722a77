"""Partitions in other processes."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import run

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
