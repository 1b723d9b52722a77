"""Tokens: given out by a callable, checked by another."""

from __future__ import annotations

import pickle
import threading
from typing import Optional

import lightstream_core as ls
import pyarrow as pa
import pytest
from conftest import CEILING

ROWS = pa.table({"a": list(range(1000))})


class Gate:
    """Lets in whoever shows the token that is good now."""

    def __init__(self) -> None:
        self.good = "first"
        self.url = ""
        self.shown: list[Optional[str]] = []

    def __call__(self, token: Optional[str]) -> str:
        self.shown.append(token)
        if token != self.good:
            raise ValueError("this token is not good")
        return "somebody"


@pytest.fixture
def gate():  # type: ignore[no-untyped-def]
    gate = Gate()
    with ls.serve({"t": ROWS}, authenticator=gate) as server:
        gate.url = server.url
        yield gate


def test_a_server_asks_whose_a_token_is(gate: Gate) -> None:
    with pytest.raises(ls.UnauthenticatedError, match="not good") as raised:
        ls.connect(gate.url)
    assert raised.value.code == "unauthenticated" and not raised.value.retryable
    with pytest.raises(ls.UnauthenticatedError):
        ls.connect(gate.url, token="wrong")
    assert gate.shown == [None, "wrong"]
    assert pa.table(ls.connect(gate.url, token="first").scan("t", ordered=True)) == ROWS


def test_a_provider_is_asked_again_when_its_token_is_refused(gate: Gate) -> None:
    given: list[str] = []

    def provider() -> dict[str, str]:
        given.append("stale" if not given else "first")
        return {"token": given[-1]}

    client = ls.connect(gate.url, credential_provider=provider)
    assert pa.table(client.scan("t", ordered=True)) == ROWS
    assert given == ["stale", "first"]


def test_many_scans_ask_for_one_token(gate: Gate) -> None:
    calls: list[str] = []
    tokens = iter(["stale", "first"])

    def provider() -> str:
        calls.append(next(tokens))
        return calls[-1]

    client = ls.connect(gate.url, credential_provider=provider)
    partitions = client.scan("t", partitions=4).partitions
    threads = [threading.Thread(target=lambda p=p: list(p.read())) for p in partitions for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["stale", "first"]


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (lambda: 1 / 0, "division by zero"),
        (lambda: "", "empty"),
        (lambda: {}, "token"),
        (lambda: {"token": "first", "usernam": "me"}, "nothing else"),
        (lambda: 7, "a token, or a mapping"),
    ],
)
def test_what_a_provider_does_wrong_is_told(gate: Gate, provider, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ls.UnauthenticatedError, match=message):
        ls.connect(gate.url, credential_provider=provider)


def test_what_is_no_callable_is_refused(gate: Gate) -> None:
    with pytest.raises(TypeError, match="credential_provider"):
        ls.connect(gate.url, credential_provider="first")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="authenticator"):
        ls.serve({}, authenticator="first")  # type: ignore[arg-type]


def test_a_token_is_neither_printed_nor_pickled(gate: Gate) -> None:
    client = ls.connect(f"{gate.url}/t?token=first")
    partition = client.scan().partitions[0]
    assert b"first" not in pickle.dumps(partition)
    assert "first" not in repr(client) + repr(partition) + client.url + partition.url
    with pytest.raises(ls.UnauthenticatedError):
        list(pickle.loads(pickle.dumps(partition)).read())


def test_a_token_from_the_environment_is_taken(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = ls.connect(gate.url, token="first").scan("t").partitions[0]
    pickled = pickle.dumps(partition)
    monkeypatch.setenv("LIGHTSTREAM_TOKEN", "first")
    assert sum(batch.num_rows for batch in pickle.loads(pickled).read()) == 1000


def test_a_provider_that_hangs_does_not_hold_up_the_scan_for_good(gate: Gate) -> None:
    never = threading.Event()
    tokens = iter(["stale"])

    def provider() -> str:
        for token in tokens:
            return token
        never.wait(CEILING)
        return "first"

    try:
        # The second time, after a refusal, it hangs.
        with pytest.raises(ls.DeadlineExceededError, match="no token was provided .* connect_timeout"):
            ls.connect(gate.url, credential_provider=provider, connect_timeout=0.2)
        with pytest.raises(ls.DeadlineExceededError, match="connect_timeout"):
            ls.connect(gate.url, credential_provider=provider, connect_timeout=0.2)
    finally:
        never.set()
