"""Options and credentials: who is asked for them, when, and where they do not end up."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import lightstream_core as core
import polars as pl
import pytest
from conftest import served

from lightstream_polars import scan_lightstream
from lightstream_polars._connection import Connection

LOCAL = pl.DataFrame({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({"t": LOCAL}) as server:
        yield server


class Doorman:
    """Lets in only who has the newest password, which it takes as one of the options. Servers have no tokens yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.password = "first"
        self.offered: list[str] = []
        connect = core.connect

        def guarded(url: str, *, storage_options: dict[str, Any], **options: Any) -> core.Client:
            offered = dict(storage_options)
            self.offered.append(offered.pop("password", ""))
            if self.offered[-1] != self.password:
                raise core.UnauthenticatedError("the password is wrong")
            return connect(url, storage_options=offered, **options)

        monkeypatch.setattr("lightstream_polars._connection.core.connect", guarded)


def test_the_provider_is_asked_when_connecting(server: core.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    doorman = Doorman(monkeypatch)
    asked = []

    def provider() -> dict[str, str]:
        asked.append(1)
        return {"password": "first"}

    remote = scan_lightstream(f"{server.url}/t", credential_provider=provider)
    assert remote.collect().equals(LOCAL)
    assert len(asked) == len(doorman.offered) == 1


def test_the_provider_is_asked_again_when_it_is_refused(server: core.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    doorman = Doorman(monkeypatch)
    passwords = iter(["stale", "first"])
    remote = scan_lightstream(f"{server.url}/t", credential_provider=lambda: {"password": next(passwords)})
    assert remote.collect().equals(LOCAL)
    assert doorman.offered == ["stale", "first"]


def test_the_provider_is_asked_again_when_a_request_is_refused(
    server: core.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    doorman = Doorman(monkeypatch)
    connection = Connection(f"{server.url}/t", None, lambda: {"password": doorman.password})
    refusals = iter([True, False])

    def request(client: core.Client) -> list[str]:
        if next(refusals):
            raise core.UnauthenticatedError("the password has expired")
        return client.tables()

    assert connection.request(request) == ["t"]
    assert doorman.offered == ["first", "first"]


def test_a_refusal_that_stays_is_an_error(server: core.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    Doorman(monkeypatch)
    with pytest.raises(core.UnauthenticatedError):
        scan_lightstream(f"{server.url}/t", credential_provider=lambda: {"password": "wrong"})
    with pytest.raises(core.UnauthenticatedError):
        scan_lightstream(f"{server.url}/t", storage_options={"password": "wrong"})


def test_options_of_the_provider_go_before_others(server: core.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    doorman = Doorman(monkeypatch)
    options = {"password": "wrong", "retries": 0}
    scan_lightstream(f"{server.url}/t", storage_options=options, credential_provider=lambda: {"password": "first"})
    assert doorman.offered == ["first"]


@pytest.mark.parametrize("provider", ["automatic", 5])
def test_a_provider_is_a_callable(server: core.Server, provider: Any) -> None:
    with pytest.raises(TypeError, match="credential_provider"):
        scan_lightstream(f"{server.url}/t", credential_provider=provider)


def test_no_provider_and_the_automatic_one_take_options_alone(server: core.Server) -> None:
    for provider in (None, "auto"):
        assert scan_lightstream(f"{server.url}/t", credential_provider=provider).collect().equals(LOCAL)


def test_secrets_are_not_pickled() -> None:
    options = {"token": "s3cret", "password": "s3cret", "header.authorization": "s3cret", "retries": 1}
    pickled = pickle.dumps(Connection("lightstream://127.0.0.1:1/t", options, None))
    assert b"s3cret" not in pickled
    assert pickle.loads(pickled).options == {"retries": 1}


def test_what_is_shown_of_a_url_has_no_secrets() -> None:
    assert Connection("lightstream://me:s3cret@host:1/t?token=s3cret", None, None).shown == "lightstream://host:1/t"


def test_options_are_found_wherever_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Connection("lightstream://host/t", {}, None).is_set("partitions")
    assert Connection("lightstream://host/t", {"partitions": 3}, None).is_set("partitions")
    assert Connection("lightstream://host/t?partitions=3", {}, None).is_set("partitions")
    monkeypatch.setenv("LIGHTSTREAM_PARTITIONS", "3")
    assert Connection("lightstream://host/t", {}, None).is_set("partitions")
