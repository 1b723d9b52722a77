"""An interrupt from the keyboard ends a query that waits for a server."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEADLINE_SECONDS

_HERE = Path(__file__).parent
_MODULES = (str(_HERE), str(_HERE.parents[1] / "tests" / "python" / "support"))
"""Where the tests' own modules are."""

_QUERY = """
import signal, sys, threading
# Whoever runs this in the background may have signals of this kind ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path[:0] = sys.argv[2:]
from urllib.parse import urlsplit
import lightstream_core as core
import polars as pl
from conftest import until
from gate import Gate
from lightstream_polars import scan_lightstream

rows = pl.DataFrame({"id": pl.int_range(2_000_000, eager=True)})
with core.serve({"t": rows}) as server:
    target = urlsplit(server.url)
    with Gate(target.hostname, target.port, width=1_000) as gate:
        remote = scan_lightstream(f"lightstream://127.0.0.1:{gate.port}/t", storage_options={"partitions": 4})

        def tell() -> None:
            until(lambda: gate._waiting > 0, "nothing is read")
            print("waiting", flush=True)

        threading.Thread(target=tell, daemon=True).start()
        remote.collect(engine=sys.argv[1])
"""


def test_an_interrupt_ends_the_wait(engine: str) -> None:
    command = [sys.executable, "-c", _QUERY, engine, *_MODULES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail("it still waits")
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors


_DAEMON = """
import sys, threading
sys.path[:0] = sys.argv[2:]
import lightstream_core as core
import polars as pl
from conftest import until
from lightstream_polars import scan_lightstream

more, reading = threading.Event(), threading.Event()

def rows():
    def batches():
        yield pl.DataFrame({"id": [1]})
        print("waiting", flush=True)
        reading.set()
        more.wait()
    return batches()

class Endless:
    def __arrow_c_stream__(self, requested_schema=None):
        import pyarrow as pa
        schema = pa.schema([("id", pa.int64())])
        batches = (frame.to_arrow().to_batches()[0] for frame in rows())
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__()

server = core.serve({"endless": lambda: Endless()})
remote = scan_lightstream(f"{server.url}/endless")
threading.Thread(target=lambda: remote.collect(engine=sys.argv[1]), daemon=True).start()
until(reading.is_set, "nothing is read")
"""


def test_the_interpreter_ends_while_a_daemon_reads(engine: str) -> None:
    command = [sys.executable, "-c", _DAEMON, engine, *_MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert "waiting" in done.stdout
