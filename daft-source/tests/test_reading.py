"""How tables are read: what moves, who may read, what fails, and what goes to other processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import daft
import lightstream_core as core
import pyarrow as pa
import pytest
import streams
from conftest import PAD, padded
from daft import col
from serving import served, settled, traffic, until, within_deadline

from lightstream_daft import LightstreamCatalog, LightstreamSource, read_lightstream

ROWS = pa.table({"id": range(1000), "text": [f"text {n}" for n in range(1000)], "third": [n % 3 for n in range(1000)]})


def test_a_count_moves_no_column() -> None:
    with served({"t": ROWS, "big": padded(ROWS)}) as server:
        for name in ("t", "big"):
            with traffic(server) as sent:
                assert read_lightstream(f"{server.url}/{name}").count_rows() == 1000
            assert sent.rows == 0


def test_a_count_of_what_the_server_does_not_know_moves_no_column() -> None:
    with served({"t": streams.long(10, 1000)}) as server:
        with traffic(server) as sent:
            assert read_lightstream(f"{server.url}/t").count_rows() == 10_000
        assert sent.nbytes < 8 * 10_000 / 4


def test_a_count_of_what_passes_moves_the_columns_of_the_condition() -> None:
    with served({"t": padded(ROWS)}) as server, traffic(server) as sent:
        assert read_lightstream(f"{server.url}/t").where(col("third") == 1).count_rows() == 333
    assert sent.rows == 333
    assert sent.nbytes < 1 << 16


def test_columns_that_nobody_wants_do_not_move() -> None:
    with served({"t": padded(ROWS)}) as server, traffic(server) as sent:
        read = read_lightstream(f"{server.url}/t").where(col("id") < 100).select("text").to_pydict()
    assert read == {"text": ROWS["text"].to_pylist()[:100]}
    assert sent.rows == 100 and sent.nbytes < 1 << 16


def test_a_limit_reads_a_few_frames() -> None:
    with served({"t": padded(ROWS)}) as server, traffic(server) as sent:
        assert len(read_lightstream(f"{server.url}/t").exclude(PAD).limit(5).to_pydict()["id"]) == 5
    assert sent.rows <= 5


def test_a_limit_of_a_stream_ends_the_work_of_the_server() -> None:
    pulled: list[int] = []
    with served({"t": streams.long(100_000, pulled=pulled)}) as server:
        assert len(read_lightstream(f"{server.url}/t").limit(5).to_pydict()["id"]) == 5
        settled(server)
        assert len(pulled) < 200


def test_a_limit_behind_a_condition_of_ones_own_ends_the_work_of_the_server() -> None:
    pulled: list[int] = []

    @daft.func
    def is_even(n: int) -> bool:
        return n % 2 == 0

    with served({"t": streams.long(100_000, pulled=pulled)}) as server:
        frame = read_lightstream(f"{server.url}/t").where(is_even(col("id"))).limit(5)
        assert all(n % 2 == 0 for n in frame.to_pydict()["id"])
        settled(server)
        assert len(pulled) < 1000


def test_the_scans_of_a_query_are_tasks_of_one_plan() -> None:
    with served({"t": padded(ROWS)}) as server:
        frame = read_lightstream(f"{server.url}/t")
        with traffic(server) as sent:
            assert frame.sum("id").to_pydict() == {"id": [sum(range(1000))]}
        assert sent.plans == 1
        assert sent.scans > 1


def test_partitions_are_read_at_the_same_time() -> None:
    """Each of two streams goes on only once both have begun: read one after the other they would never end."""
    both = threading.Barrier(2)

    def waiting() -> Iterator[pa.RecordBatch]:
        both.wait(60)
        yield streams.batch([1, 2, 3])

    with served({"a": streams.stream(waiting), "b": streams.stream(waiting)}) as server:
        a, b = (read_lightstream(f"{server.url}/{name}") for name in "ab")
        both_tables = a.concat(b).sum("id")
        assert within_deadline(both_tables.to_pydict) == {"id": [12]}


def test_threads_may_query_one_frame() -> None:
    with served({"t": padded(ROWS)}) as server:
        frame = read_lightstream(f"{server.url}/t")
        sums: list[Any] = []
        threads = [threading.Thread(target=lambda: sums.append(frame.sum("id").to_pydict()["id"])) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sums == [[sum(range(1000))]] * 6


class Gate:
    """Lets in whoever shows the token that is good now."""

    def __init__(self, good: str) -> None:
        self.good = good

    def __call__(self, token: str | None) -> str:
        if token != self.good:
            raise ValueError("this token is not good")
        return "somebody"


def test_credentials_come_from_options_environment_and_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    with core.serve({"t": ROWS}, authenticator=Gate("good")) as server:
        url = f"{server.url}/t"
        with pytest.raises(core.UnauthenticatedError, match="not good"):
            read_lightstream(url)
        with pytest.raises(core.UnauthenticatedError):
            read_lightstream(url, storage_options={"token": "bad"})
        assert read_lightstream(url, storage_options={"token": "good"}).count_rows() == 1000
        assert read_lightstream(url, credential_provider=lambda: {"token": "good"}).count_rows() == 1000
        monkeypatch.setenv("LIGHTSTREAM_TOKEN", "good")
        assert read_lightstream(url).sum("id").to_pydict() == {"id": [sum(range(1000))]}


def test_a_provider_is_asked_again_when_its_token_has_ended() -> None:
    gate, tokens = Gate("first"), iter(["first", "second"])
    with core.serve({"t": padded(ROWS)}, authenticator=gate) as server:
        frame = read_lightstream(f"{server.url}/t", credential_provider=lambda: {"token": next(tokens)})
        gate.good = "second"
        # New connections, one for each task that reads at the same time, show what is good now.
        assert frame.where(col("third") == 0).count_rows() == 334
        assert frame.sum("id").to_pydict() == {"id": [sum(range(1000))]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokn": "x"}, "token"),
        ({"retries": "many"}, "retries"),
        ({"memory_limit": "lots"}, "memory_limit"),
    ],
)
def test_options_that_are_wrong_are_named(options: dict[str, Any], message: str) -> None:
    with served({"t": ROWS}) as server, pytest.raises(core.InvalidArgumentError, match=message):
        read_lightstream(f"{server.url}/t", storage_options=options)


def test_a_provider_that_is_none_is_named() -> None:
    with pytest.raises(TypeError, match="credential_provider"):
        read_lightstream("lightstream://127.0.0.1:1/t", credential_provider="token")  # type: ignore[arg-type]


def test_what_is_not_there_is_said_at_once() -> None:
    with served({"t": ROWS}) as server:
        with pytest.raises(core.NotFoundError, match="absent"):
            read_lightstream(f"{server.url}/absent")
        with pytest.raises(core.InvalidArgumentError, match="names no table"):
            read_lightstream(server.url)
        url = server.url
    with pytest.raises(core.UnavailableError, match=url.partition("//")[2]):
        read_lightstream(f"{url}/t", storage_options={"retries": 0})


@pytest.mark.parametrize("name", ["with space", 'a "quoted" one', "dotted.name", "Größe", "Case", "per%cent"])
def test_odd_names_of_tables_and_columns(name: str) -> None:
    rows = ROWS.rename_columns([name, f"{name}.text", f"{name} {name}"])
    with served({name: rows}) as server:
        from urllib.parse import quote

        frame = read_lightstream(f"{server.url}/{quote(name, safe='')}")
        read = frame.where(col(name) < 10).to_arrow()
    assert read.to_pylist() == rows.slice(0, 10).to_pylist()


def test_a_server_that_goes_away_is_an_error_with_its_place() -> None:
    gone = threading.Event()
    with served({"t": streams.held(gone)}) as server:
        frame = read_lightstream(f"{server.url}/t", storage_options={"retries": 1, "retry_backoff": "10ms"})
        peer = server.url.partition("//")[2]

        def stop() -> None:
            until(lambda: server.stats()["active_scans"] == 1, "it does not read")
            server.stop()
            gone.set()

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(Exception) as raised:
            within_deadline(frame.collect)
        stopper.join()
    said = str(raised.value)
    assert "DataLossError: data_loss" in said
    assert peer in said and 'table "t"' in said and "partition 0" in said


def test_an_error_of_the_source_fails_the_query() -> None:
    with served({"t": streams.broken("the disk is full of holes")}) as server:
        for query in (lambda f: f.collect(), lambda f: f.sum("id").to_pydict(), lambda f: list(f.iter_rows())):
            with pytest.raises(Exception, match="full of holes"):
                within_deadline(lambda query=query: query(read_lightstream(f"{server.url}/t")))


FRESH = """
import pickle, sys
import daft
kept = pickle.load(open(sys.argv[1], "rb"))
assert kept["source"].read().sum("id").to_pydict() == {"id": [499500]}
session = daft.Session()
session.attach_catalog(kept["catalog"], alias="far")
assert session.sql("SELECT sum(id) AS id FROM far.t").to_pydict() == {"id": [499500]}
assert kept["table"].read().count_rows() == 1000

import asyncio
async def ids(task):
    return [n async for batch in task.read() for n in batch.to_pydict()["id"]]
found = []
for task in kept["tasks"]:
    found += asyncio.run(ids(task))
assert found == list(range(1000)), found[:10]
print("same")
"""


def test_sources_tasks_and_catalogs_survive_a_fresh_interpreter(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from daft.io.pushdowns import Pushdowns

    with core.serve({"t": ROWS}, authenticator=Gate("a secret")) as server:
        source = LightstreamSource(f"{server.url}/t?token=a%20secret", storage_options={"partitions": 3})
        catalog = LightstreamCatalog(server.url, storage_options={"token": "a secret"})

        async def planned() -> list[Any]:
            return [task async for task in source.get_tasks(Pushdowns())]

        kept = {
            "source": source,
            "catalog": catalog,
            "table": catalog.get_table("t"),
            "tasks": asyncio.run(planned()),
        }
        pickled = pickle.dumps(kept)
        assert b"secret" not in pickled
        file = tmp_path / "kept"
        file.write_bytes(pickled)
        monkeypatch.setenv("LIGHTSTREAM_TOKEN", "a secret")
        done = subprocess.run([sys.executable, "-c", FRESH, str(file)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "same\n"


def test_explain_says_what_is_read_without_secrets() -> None:
    with core.serve({"t": ROWS}, authenticator=Gate("a secret")) as server:
        frame = read_lightstream(f"{server.url}/t", storage_options={"token": "a secret"}).where(col("id") < 5)
        import io

        text = io.StringIO()
        frame.explain(show_all=True, file=text)
    assert "Lightstream(t at " in text.getvalue()
    assert "secret" not in text.getvalue()
