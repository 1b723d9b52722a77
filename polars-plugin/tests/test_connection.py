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

LOCAL = pl.DataFrame({"id": [1, 2, 3]})


class Doorman:
    """Lets in whoever shows the token that is good now."""

    def __init__(self) -> None:
        self.good = "first"
        self.shown: list[str | None] = []
        self.url = ""

    def __call__(self, token: str | None) -> str:
        self.shown.append(token)
        if token != self.good:
            raise ValueError("this token is not good")
        return "somebody"


@pytest.fixture
def doorman() -> Iterator[Doorman]:
    doorman = Doorman()
    with core.serve({"t": LOCAL}, authenticator=doorman) as server:
        doorman.url = f"{server.url}/t"
        yield doorman


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({"t": LOCAL}) as server:
        yield server


def test_the_provider_is_asked_when_connecting(doorman: Doorman) -> None:
    asked = []

    def provider() -> dict[str, str]:
        asked.append(1)
        return {"token": "first"}

    remote = scan_lightstream(doorman.url, credential_provider=provider)
    assert remote.collect().equals(LOCAL)
    assert len(asked) == 1


def test_the_provider_is_asked_again_when_it_is_refused(doorman: Doorman) -> None:
    tokens = iter(["stale", "first"])
    remote = scan_lightstream(doorman.url, credential_provider=lambda: {"token": next(tokens)})
    assert remote.collect().equals(LOCAL)
    assert doorman.shown[:2] == ["stale", "first"]


def test_a_provider_may_say_when_its_token_ends(doorman: Doorman) -> None:
    remote = scan_lightstream(doorman.url, credential_provider=lambda: ({"token": "first"}, 0))
    assert remote.collect().equals(LOCAL)


def test_a_refusal_that_stays_is_an_error(doorman: Doorman) -> None:
    with pytest.raises(core.UnauthenticatedError, match="not good"):
        scan_lightstream(doorman.url, credential_provider=lambda: {"token": "wrong"})
    with pytest.raises(core.UnauthenticatedError, match="not good"):
        scan_lightstream(doorman.url, storage_options={"token": "wrong"})
    assert None not in doorman.shown


def test_the_provider_goes_before_options(doorman: Doorman) -> None:
    options = {"token": "wrong", "retries": 0}
    scan_lightstream(doorman.url, storage_options=options, credential_provider=lambda: {"token": "first"})
    assert set(doorman.shown) == {"first"}


def test_a_token_may_stand_in_options_url_and_environment(doorman: Doorman, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scan_lightstream(doorman.url, storage_options={"token": "first"}).collect().equals(LOCAL)
    assert scan_lightstream(f"{doorman.url}?token=first").collect().equals(LOCAL)
    monkeypatch.setenv("LIGHTSTREAM_TOKEN", "first")
    assert scan_lightstream(doorman.url).collect().equals(LOCAL)


def test_a_token_is_neither_explained_nor_pickled(doorman: Doorman) -> None:
    remote = scan_lightstream(f"{doorman.url}?token=first")
    assert "first" not in remote.explain()
    assert b"first" not in pickle.dumps(remote)


@pytest.mark.parametrize("provider", ["automatic", 5])
def test_a_provider_is_a_callable(server: core.Server, provider: Any) -> None:
    with pytest.raises(TypeError, match="credential_provider"):
        scan_lightstream(f"{server.url}/t", credential_provider=provider)


def test_no_provider_and_the_automatic_one_take_options_alone(server: core.Server) -> None:
    for provider in (None, "auto"):
        assert scan_lightstream(f"{server.url}/t", credential_provider=provider).collect().equals(LOCAL)
