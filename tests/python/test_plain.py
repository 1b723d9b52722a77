"""Plain mode against others that speak it: the published Lightstream package, and pyarrow over a socket."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import daft
import lightstream
import lightstream_core as core
import minarrow
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lightstream_daft import read_lightstream
from lightstream_polars import scan_lightstream
from pyarrow import ipc

import command
from serving import until, within_deadline

ROWS = 20_000


def table(rows: int = ROWS) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "half": pa.array([n / 2 if n % 5 else None for n in numbers], pa.float64()),
            "text": pa.array([f"text {n % 100}" for n in numbers], pa.string()),
            "flag": pa.array([n % 3 == 0 for n in numbers]),
        }
    )


def with_dictionary(rows: int = ROWS) -> pa.Table:
    words = pa.array([("red", "green", "blue", None)[n % 4] for n in range(rows)])
    return table(rows).append_column("color", words.dictionary_encode())


def with_dictionaries() -> pa.Table:
    """The dictionary changes on the way."""
    first, second = with_dictionary(ROWS // 2), table()[ROWS // 2 :]
    words = pa.array(("brown", "red", "black")[n % 3] for n in range(second.num_rows))
    second = second.append_column("color", words.dictionary_encode())
    return pa.concat_tables([first, second])


@contextmanager
def given(give: Callable[[socket.socket], Any]) -> Iterator[str]:
    """The address of somebody who gives this to whoever connects first."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                give(connection)

        giving = pool.submit(run)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        giving.result()


def by_pyarrow(sent: pa.Table, **options: Any) -> Callable[[socket.socket], None]:
    def give(connection: socket.socket) -> None:
        with connection.makefile("wb") as out, ipc.new_stream(
            out, sent.schema, options=ipc.IpcWriteOptions(**options)
        ) as writer:
            writer.write_table(sent, max_chunksize=ROWS // 7)

    return give


def free_port() -> int:
    """A port at which nobody listens, and that the system gives to nobody by itself."""
    while True:
        port = random.randrange(15_000, 30_000)
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def is_listening(port: int) -> bool:
    """Whether somebody listens there, found out without connecting."""
    wanted = f":{port:04X} "
    with open("/proc/net/tcp", encoding="ascii") as sockets:
        return any(wanted in line.split(" rem")[0][:24] and " 0A " in line for line in sockets)


def is_listening_at(path: Path) -> bool:
    """Whether somebody listens at a socket, found out without connecting."""
    with open("/proc/net/unix", encoding="utf-8") as sockets:
        return any(line.endswith(f" {path}\n") and line.split()[3] == "00010000" for line in sockets)


def published(sent: pa.Table, port: int, **options: Any) -> threading.Thread:
    """The published writer, which connects once somebody listens, and sends in parts."""

    def run() -> None:
        until(lambda: is_listening(port), "nobody listens")
        writer = lightstream.write(f"tcp://127.0.0.1:{port}", **options)
        for at in range(0, sent.num_rows, ROWS // 8):
            writer.write(sent.slice(at, ROWS // 8))
        writer.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def read(url: str) -> pa.Table:
    return within_deadline(lambda: pa.table(core.connect(url).scan()))


def same(got: pa.Table, sent: pa.Table) -> None:
    def plain(column: pa.ChunkedArray) -> list[Any]:
        return column.to_pylist()

    assert got.column_names == sent.column_names
    for name in sent.column_names:
        assert plain(got[name]) == plain(sent[name]), name


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("made", [table, with_dictionary])
def test_pyarrow_writes(made: Callable[[], pa.Table], compression: str | None) -> None:
    with given(by_pyarrow(made(), compression=compression)) as address:
        same(read(f"arrow+tcp://{address}"), made())


@pytest.mark.parametrize("made", [table, with_dictionary])
def test_pyarrow_cut_short_is_data_loss(made: Callable[[], pa.Table]) -> None:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, made().schema) as writer:
        writer.write_table(made(), max_chunksize=ROWS // 7)
    whole = sink.getvalue().to_pybytes()
    for end in [0, 7, 300, len(whole) // 2, len(whole) - 8, len(whole) - 1]:
        with given(lambda connection, end=end: connection.sendall(whole[:end])) as address:
            with pytest.raises(core.LightstreamError) as raised:
                within_deadline(lambda: list(core.connect(f"arrow+tcp://{address}?retries=0").scan()))
            assert (raised.value.code, raised.value.retryable) == ("data_loss", False)


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("made", [table, with_dictionary])
def test_the_published_writer_connects(made: Callable[[], pa.Table], compression: str | None) -> None:
    port = free_port()
    writing = published(made(), port, compression=compression)
    same(read(f"arrow+tcp://127.0.0.1:{port}?listen=1"), made())
    writing.join()


def test_the_published_writer_accepts() -> None:
    port = free_port()

    def run() -> None:
        writer = lightstream.write(f"tcp://127.0.0.1:{port}", accept=True)
        writer.write(table())
        writer.close()

    writing = threading.Thread(target=run)
    writing.start()
    until(lambda: is_listening(port), "nobody listens")
    same(read(f"arrow+tcp://127.0.0.1:{port}"), table())
    writing.join()


@pytest.mark.parametrize("made", [table, with_dictionary])
def test_the_published_writer_in_parallel(made: Callable[[], pa.Table]) -> None:
    for parallel in (2, 4):
        port = free_port()
        writing = published(made(), port, parallel=parallel)
        client = within_deadline(
            lambda: core.connect(f"arrow+tcp://127.0.0.1:{port}?listen={parallel}&ordered=false")
        )
        scan = client.scan()
        assert len(scan.partitions) == parallel
        with ThreadPoolExecutor() as pool:
            parts = list(pool.map(lambda part: pa.table(part.read()), scan.partitions))
        writing.join()
        same(pa.concat_tables(parts, promote_options="permissive").sort_by("n"), made())


def by_the_published_reader(uri: str) -> pa.Table:
    return pa.RecordBatchReader.from_stream(lightstream.read(uri, accept=True)).read_all()


def by_the_command(server: core.Server, to: str) -> subprocess.CompletedProcess[str]:
    arguments = ["cat", f"{server.url}/t", "--format", "arrow", "-o", to]
    return subprocess.run([command.lightstream(), *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_the_published_reader_reads(transport: str, tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "socket"
    theirs, ours, is_there = {
        "tcp": (f"tcp://127.0.0.1:{port}", f"arrow+tcp://127.0.0.1:{port}", lambda: is_listening(port)),
        "unix": (f"uds://{path}", f"arrow+unix://{path}", lambda: is_listening_at(path)),
    }[transport]
    sent = table(10 * ROWS)
    with core.serve({"t": sent}) as server, ThreadPoolExecutor() as pool:
        reading = pool.submit(by_the_published_reader, theirs)
        until(is_there, "nobody listens")
        done = by_the_command(server, ours)
        assert done.returncode == 0, done.stderr
        same(reading.result(), sent)


@pytest.mark.parametrize(
    ("made", "options", "parallel"),
    [
        (table, "compression=zstd", 0),
        (with_dictionary, "", 0),
        (with_dictionaries, "", 0),
        (table, "streams=3", 3),
        (with_dictionary, "streams=3", 3),
    ],
)
def test_the_published_reader_reads_all_of(made: Callable[[], pa.Table], options: str, parallel: int) -> None:
    port = free_port()

    def theirs() -> list[pa.RecordBatch]:
        reader = lightstream.read(f"tcp://127.0.0.1:{port}", accept=True, parallel=parallel)
        return [batch.to_arrow() for batch in reader]

    with core.serve({"t": made()}) as server, ThreadPoolExecutor() as pool:
        reading = pool.submit(theirs)
        until(lambda: is_listening(port), "nobody listens")
        done = by_the_command(server, f"arrow+tcp://127.0.0.1:{port}?{options}")
        assert done.returncode == 0, done.stderr
        same(pa.Table.from_batches(reading.result()).sort_by("n"), made())


def test_the_published_reader_refuses_compressed_dictionaries() -> None:
    """It takes them for plain ones. No row is lost in silence."""
    port = free_port()
    with core.serve({"t": with_dictionary()}) as server, ThreadPoolExecutor() as pool:
        reading = pool.submit(lambda: list(lightstream.read(f"tcp://127.0.0.1:{port}", accept=True)))
        until(lambda: is_listening(port), "nobody listens")
        by_the_command(server, f"arrow+tcp://127.0.0.1:{port}?compression=zstd")
        with pytest.raises(Exception, match="dictionary"):
            reading.result()


@pytest.mark.parametrize("made", [table, with_dictionary])
def test_minarrow_tables_are_sent_and_received(made: Callable[[], pa.Table]) -> None:
    (batch,) = made().combine_chunks().to_batches()
    sent = minarrow.Table.from_arrow(batch)
    port = free_port()

    def write() -> None:
        until(lambda: is_listening(port), "nobody listens")
        writer = lightstream.write(f"tcp://127.0.0.1:{port}", compression="zstd")
        # By itself a table of minarrow exports the codes of its dictionaries as if they were its values.
        writer.write(sent.to_arrow())
        writer.close()

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        url = f"arrow+tcp://127.0.0.1:{port}?listen=1"
        received = within_deadline(
            lambda: [minarrow.Table.from_arrow(pa.record_batch(got)) for got in core.connect(url).scan()]
        )
        writing.result()
    same(pa.Table.from_batches([got.to_arrow() for got in received]), made())


def test_minarrow_tables_are_served() -> None:
    sent = minarrow.Table.from_arrow(table().combine_chunks().to_batches()[0])
    with core.serve({"t": sent}) as server:
        same(pa.table(core.connect(server.url).scan("t")), table())


def test_codes_that_minarrow_exports_for_values_are_refused() -> None:
    sent = minarrow.Table.from_arrow(with_dictionary().combine_chunks().to_batches()[0])
    with pytest.raises(core.LightstreamError, match="has a dictionary"), core.serve({"t": sent}) as server:
        list(core.connect(server.url).scan("t"))


def test_rows_come_once() -> None:
    with given(by_pyarrow(table())) as address:
        client = core.connect(f"arrow+tcp://{address}")
        assert client.tables() == ["stream"]
        scan = client.scan(columns=["n"], where="n >= 19990")
        assert pa.table(scan)["n"].to_pylist() == list(range(19990, 20000))
        with pytest.raises(core.LightstreamError, match="gives its rows once") as raised:
            list(scan)
        assert (raised.value.code, raised.value.retryable) == ("expired", False)


def test_polars_reads() -> None:
    with given(by_pyarrow(table())) as address:
        frame = scan_lightstream(f"arrow+tcp://{address}")
        got = frame.filter(pl.col("n") % 1000 == 0, pl.col("n") > 5).select("text", "n").collect()
    expected = table().filter(pc.field("n") > 5).to_pydict()
    wanted = [(t, n) for t, n in zip(expected["text"], expected["n"]) if n % 1000 == 0]
    assert got.sort("n").rows() == wanted


def test_polars_reads_parallel_streams() -> None:
    port = free_port()
    writing = published(table(), port, parallel=3)
    frame = within_deadline(
        lambda: scan_lightstream(f"arrow+tcp://127.0.0.1:{port}?listen=3&ordered=false").select(
            pl.col("n").sum(), rows=pl.len()
        )
        .collect()
    )
    writing.join()
    assert frame.rows() == [(sum(range(ROWS)), ROWS)]


def test_daft_reads() -> None:
    with given(by_pyarrow(table())) as address:
        frame = read_lightstream(f"arrow+tcp://{address}")
        got = frame.where(daft.col("n") < 5).select("n", "text").to_pydict()
    assert got == {"n": list(range(5)), "text": [f"text {n}" for n in range(5)]}
