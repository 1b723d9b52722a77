"""What is checked on a Ray cluster of this machine, in a process of its own: Daft takes one runner for all its life.

Each `check_` is run by `test_ray.py`. This prints one JSON line for each, with its error or null.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tests" / "python" / "support")]

os.environ["DAFT_RUNNER"] = "ray"

import conftest
import daft
import lightstream_core as core
import pyarrow as pa
import ray
import streams
from daft import col
from proxy import Kind, Proxy
from serving import served, settled, traffic, until
from test_queries import FIRST, FLIGHTS, QUERIES, SCALE, UNSUPPORTED, Database, rows

import data
from lightstream_daft import read_lightstream

TOKEN = "the token of the workers"


class Gate:
    """Lets in whoever shows the token."""

    def __init__(self) -> None:
        self.shown: set[str | None] = set()

    def __call__(self, token: str | None) -> str:
        self.shown.add(token)
        if token not in (TOKEN, "the token of the driver"):
            raise ValueError("this token is not good")
        return "somebody"


def check_tpch_gives_what_local_tables_give() -> None:
    database = Database(data.tpch(SCALE))
    with database.server:
        for name, query in QUERIES.items():
            if name not in UNSUPPORTED:
                expected = rows(daft.sql(query, **database.local))
                assert rows(daft.sql(query, **database.remote)) == expected, name


def check_flights_give_what_local_tables_give() -> None:
    database = Database(data.flights())
    with database.server:
        for name, query in FLIGHTS.items():
            assert rows(query(database.remote)) == rows(query(database.local)), name
        for name, (query, count) in FIRST.items():
            found = rows(query(database.remote).limit(count))
            assert len(found) == count, name
            assert tally(found) <= tally(rows(query(database.local))), name


def tally(found: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """How often each row is there."""
    return Counter(tuple(row.values()) for row in found)


def check_tasks_read_in_workers_what_was_pushed() -> None:
    table = conftest.padded(pa.table({"id": range(1000)}))
    with served({"t": table}) as server:
        frame = read_lightstream(f"{server.url}/t")
        with traffic(server) as sent:
            found = frame.where(col("id") >= 900).select("id").sort("id").to_pydict()
        assert found == {"id": list(range(900, 1000))}
        assert sent.rows == 100 and sent.plans == 1 and sent.nbytes < 1 << 16, sent


def check_a_limit_ends_the_work_of_the_server() -> None:
    with served({"t": conftest.padded(pa.table({"id": range(1000)}))}) as server:
        with traffic(server) as sent:
            assert len(read_lightstream(f"{server.url}/t").select("id").limit(5).to_pydict()["id"]) == 5
        assert sent.rows <= 5 * 16, sent


def check_workers_take_credentials_from_their_environment() -> None:
    gate = Gate()
    with core.serve({"t": pa.table({"id": range(1000)})}, authenticator=gate) as server:
        frame = read_lightstream(f"{server.url}/t", storage_options={"token": "the token of the driver"})
        assert frame.sum("id").to_pydict() == {"id": [sum(range(1000))]}
    assert gate.shown == {"the token of the driver", TOKEN}


def check_a_provider_travels_to_workers() -> None:
    gate = Gate()
    with core.serve({"t": pa.table({"id": range(1000)})}, authenticator=gate) as server:
        frame = read_lightstream(f"{server.url}/t", credential_provider=lambda: {"token": "the token of the driver"})
        assert frame.sum("id").to_pydict() == {"id": [sum(range(1000))]}
    assert gate.shown == {"the token of the driver"}


def check_a_worker_that_is_killed_is_made_good() -> None:
    """A worker dies with some of the rows read and others not; all rows come once all the same."""
    table = conftest.padded(pa.table({"id": range(1000)}))
    with served({"t": table}) as server, tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "worker"

        @daft.func
        def slowly(n: int) -> int:
            if not mark.exists():
                # Rows are computed at once in threads, and in more than one worker: each writes a file of its own.
                part = mark.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
                part.write_text(str(os.getpid()))
                part.replace(mark)
            time.sleep(0.004)
            return n

        def kill() -> None:
            until(lambda: mark.exists() and server.stats()["rows_sent"] >= 100, "nothing is read")
            os.kill(int(mark.read_text()), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with traffic(server) as sent:
            found = read_lightstream(f"{server.url}/t").select(slowly(col("id")).alias("id")).sort("id").to_pydict()
        killer.join()
        assert int(mark.read_text()) != os.getpid()
        assert found == {"id": list(range(1000))}
        # Only what was not done when the worker died is read again.
        # Rows that were read and not yet handed on come again; partitions that were done do not.
        assert 1000 < sent.rows < 2000, sent


def check_a_server_that_dies_is_an_error_with_its_place() -> None:
    gone = threading.Event()
    with served({"t": streams.held(gone)}) as server:
        peer = server.url.partition("//")[2]
        frame = read_lightstream(f"{server.url}/t", storage_options={"retries": 1, "retry_backoff": "10ms"})

        def stop() -> None:
            until(lambda: server.stats()["active_scans"] == 1, "it does not read")
            server.stop()
            gone.set()

        stopper = threading.Thread(target=stop)
        stopper.start()
        said = _said(frame.collect)
        stopper.join()
    assert peer in said and 'table "t"' in said and "partition 0" in said and "DataLossError" in said, said


def check_connections_of_workers_that_fail_are_made_good() -> None:
    rows = pa.table({"id": range(20_000), "text": [f"row {n}" for n in range(20_000)]})
    options = {"partitions": 4, "batch_rows": 500, "retries": 5, "retry_backoff": "1ms", "checksum": "crc32c"}
    kinds: tuple[Kind, ...] = ("cut", "reset", "change")
    with served({"t": rows}) as server:
        port = int(server.url.rpartition(":")[2])
        for kind in kinds:
            for after_bytes in (500, 5_000, 100_000, 300_000):
                with Proxy(port, kind, after_bytes) as proxy:
                    frame = read_lightstream(f"lightstream://127.0.0.1:{proxy.port}/t", storage_options=options)
                    found = frame.sort("id").to_arrow()
                    assert proxy.has_struck, (kind, after_bytes)
                assert found.to_pylist() == rows.to_pylist(), (kind, after_bytes)


def check_an_error_of_the_source_fails_the_query() -> None:
    with served({"t": streams.broken("the disk is full of holes")}) as server:
        assert "full of holes" in _said(read_lightstream(f"{server.url}/t").collect)
        settled(server)


def _said(work: Callable[[], Any]) -> str:
    try:
        work()
    except Exception as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("it does not fail")


def main() -> None:
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=512 << 20,
        runtime_env={"env_vars": {"LIGHTSTREAM_TOKEN": TOKEN}},
    )
    daft.set_runner_ray(noop_if_initialized=True)
    assert daft.get_or_create_runner().name == "ray"
    wanted = sys.argv[1:]
    for name, check in list(globals().items()):
        if not name.startswith("check_") or (wanted and name not in wanted):
            continue
        error = None
        start = time.monotonic()
        try:
            check()
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"name": name, "error": error, "seconds": round(time.monotonic() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
