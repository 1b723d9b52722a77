"""The process around it all: signals, forks, threads, the end of the interpreter, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Iterator

import pyarrow as pa
import pytest
from conftest import CEILING, run, until

import lightstream_core as ls

#: Rows that never come, for programs of their own.
NEVER = """
import os, signal, sys, threading, time
# Whoever runs this in the background may have signals of this kind ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import pyarrow as pa
import lightstream_core as ls

schema = pa.schema({"n": pa.int64()})

def never():
    yield pa.record_batch([pa.array([1], pa.int64())], schema)
    threading.Event().wait(60)

server = ls.serve({"t": lambda: pa.RecordBatchReader.from_batches(schema, never())})
client = ls.connect(server.url)
"""


@pytest.mark.parametrize(
    "read",
    [
        "for batch in client.scan('t'): print('reading', flush=True)",
        "print('reading', flush=True); pa.table(client.scan('t'))",
        "try:\n    print('reading', flush=True)\n    pa.table(client.scan('t'))\nexcept Exception:\n    time.sleep(30)",
        "import asyncio\nasync def main():\n    async for batch in client.scan('t'): print('reading', flush=True)\nasyncio.run(main())",
        "print('reading', flush=True); ls.connect(server.url, credential_provider=lambda: threading.Event().wait(60))",
    ],
)
def test_an_interrupt_is_heard_while_a_read_waits(read: str) -> None:
    program = NEVER + read
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            assert process.stdout.readline() == "reading\n"
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            _, words = process.communicate(timeout=10)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in words, words
    assert process.returncode in (1, 130, -signal.SIGINT)


def test_a_handler_of_a_signal_that_raises_nothing_lets_the_read_go_on() -> None:
    program = """
        import os, signal, threading
        import pyarrow as pa
        import lightstream_core as ls

        schema, gate, seen = pa.schema({"n": pa.int64()}), threading.Event(), []

        def make():
            gate.wait(20)
            yield pa.record_batch([pa.array([1], pa.int64())], schema)

        def handle(*_):
            seen.append(1)
            gate.set()

        signal.signal(signal.SIGUSR1, handle)
        server = ls.serve({"t": lambda: pa.RecordBatchReader.from_batches(schema, make())})
        scan = ls.connect(server.url).scan("t")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert pa.table(scan).num_rows == 1
        assert seen == [1]
        print("done")
    """
    done = run(program)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "reader = client.scan('t').read(); next(reader)",
        "stream = pa.RecordBatchReader.from_stream(client.scan('t')); stream.read_next_batch()",
        "reader = client.scan('t').read(); next(reader); threading.Thread(target=next, args=(reader,), daemon=True).start(); time.sleep(0.2)",
        "threading.Thread(target=lambda: pa.table(client.scan('t')), daemon=True).start(); time.sleep(0.2)",
        "reader = client.scan('t').read(); next(reader); sys.exit(0)",
        "import asyncio; loop = asyncio.new_event_loop(); coroutine = client.scan('t').read().__anext__(); loop.run_until_complete(coroutine)",
    ],
)
def test_the_interpreter_ends_at_once_whatever_is_under_way(end: str) -> None:
    start = time.monotonic()
    done = run(NEVER + end)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert time.monotonic() - start < 15


def test_the_interpreter_ends_while_rows_are_made_as_fast_as_can_be() -> None:
    program = """
        import threading
        import pyarrow as pa
        import lightstream_core as ls

        rows = pa.record_batch({"n": list(range(1000))})

        def endless():
            while True:
                yield rows

        server = ls.serve({"t": lambda: pa.RecordBatchReader.from_batches(rows.schema, endless())})
        client = ls.connect(server.url)

        def drain(started):
            for _ in client.scan("t"):
                started.set()

        for _ in range(3):
            started = threading.Event()
            threading.Thread(target=drain, args=(started,), daemon=True).start()
            assert started.wait(20)
    """
    for _ in range(5):
        done = run(program)
        assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_sockets_that_are_files_are_removed_at_the_end(tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"
    program = """
        import os, sys
        import lightstream_core as ls
        server = ls.serve({}, listen="lightstream+unix://" + sys.argv[1])
        assert os.path.exists(sys.argv[1])
    """
    done = run(program, str(socket))
    assert (done.stderr, done.returncode, socket.exists()) == ("", 0, False)


def test_after_a_fork_everything_is_refused_and_nothing_hangs() -> None:
    program = """
        import os, pickle, warnings
        import pyarrow as pa
        import lightstream_core as ls

        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of forks.

        server = ls.serve({"t": pa.table({"n": range(1000000)})})
        client = ls.connect(server.url)
        scan = client.scan("t", partitions=2)
        partition, reader = scan.partitions[0], scan.read()
        pickled = pickle.dumps(partition)
        next(reader)

        def refused(use):
            try:
                use()
            except ls.LightstreamError as error:
                assert "forked" in str(error), error
                assert error.code == "unimplemented"
            else:
                raise AssertionError(use)

        child = os.fork()
        if child == 0:
            uses = [
                client.ping, client.tables, lambda: client.scan("t"), lambda: list(scan), lambda: next(reader),
                lambda: partition.read(), server.stats, server.stop, reader.close, lambda: scan.partitions,
                lambda: ls.connect(server.url), lambda: ls.serve({}), lambda: pickle.loads(pickled).read(),
                lambda: reader.rows_read,
            ]
            for use in uses:
                refused(use)
            repr([client, scan, partition, reader, server])
            del uses, client, scan, partition, reader, server
            raise SystemExit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        # The parent goes on as if nothing had happened.
        assert sum(batch.num_rows for batch in scan) == 1000000
        assert sum(batch.num_rows for batch in reader) > 0
        print("done")
    """
    done = run(program)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_a_fork_before_the_first_use_is_no_trouble() -> None:
    program = """
        import os, warnings
        import pyarrow as pa
        import lightstream_core as ls

        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of forks.
        child = os.fork()
        with ls.serve({"t": pa.table({"n": [1]})}) as server:
            assert pa.table(ls.connect(server.url).scan("t")).num_rows == 1
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            print("done")
    """
    done = run(program)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


@pytest.mark.parametrize("how", ["reader", "stream", "connect"])
def test_other_threads_go_on_while_one_waits(how: str) -> None:
    inside, others_ran = threading.Event(), threading.Event()
    schema = pa.schema({"n": pa.int64()})

    def make() -> Iterator[pa.RecordBatch]:
        inside.set()
        # Reached only if Python's lock is given up by who waits for these rows.
        assert others_ran.wait(CEILING)
        yield pa.record_batch([pa.array([1], pa.int64())], schema)

    def other() -> None:
        assert inside.wait(CEILING)
        others_ran.set()

    def open() -> pa.RecordBatchReader:
        if how == "connect":
            inside.set()
            assert others_ran.wait(CEILING)
        return pa.RecordBatchReader.from_batches(schema, make())

    with ls.serve({"t": open}) as server:
        client = ls.connect(server.url)
        thread = threading.Thread(target=other)
        thread.start()
        scan = client.scan("t")
        rows = pa.table(scan) if how == "stream" else pa.Table.from_batches(map(pa.record_batch, scan))
        thread.join()
    assert rows.num_rows == 1


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_nothing_is_left_behind_by_a_thousand_scans() -> None:
    table = pa.table({"n": range(1000), "s": ["some text"] * 1000})
    with ls.serve({"memory": table, "made": lambda: table}) as server:
        client = ls.connect(server.url)

        def scan(count: int) -> None:
            for at in range(count):
                name = "made" if at % 4 == 0 else "memory"
                planned = client.scan(name, columns=["n"], where="n >= 10")
                if at % 3 == 0:
                    # One that is not read to its end.
                    with planned.read() as reader:
                        next(reader)
                else:
                    assert sum(batch.num_rows for batch in planned) == 990

        def idle() -> bool:
            stats = server.stats()
            return stats["active_scans"] == 0 and stats["active_connections"] <= 2

        scan(50)
        until(idle)
        before = descriptors()
        scan(1000)
        until(lambda: idle() and descriptors() <= before + 4)
        # Those that waited for Python end once they have been idle for a while.
        until(lambda: threads() <= threading.active_count() + 16)


def test_clients_that_are_gone_leave_no_connection() -> None:
    with ls.serve({"t": pa.table({"n": range(100_000)})}) as server:
        for _ in range(50):
            assert sum(batch.num_rows for batch in ls.connect(server.url).scan("t", partitions=3)) == 100_000
        until(lambda: server.stats()["active_connections"] == 0)
