"""Connections of engines: what of them travels, and what is set."""

from __future__ import annotations

import pickle

import lightstream_core as ls
import pyarrow as pa
import pytest

URL = "lightstream://127.0.0.1:1/t"


@pytest.mark.parametrize("name", ["token", "%74oken", "password", "header.authorization"])
def test_secrets_are_neither_shown_nor_pickled(name: str) -> None:
    in_url = ls.Connection(f"{URL}?{name}=s3cret&retries=2")
    in_options = ls.Connection(URL, {name.replace("%74", "t"): "s3cret", "retries": 2})
    for connection in (in_url, in_options):
        assert connection.shown == URL
        assert "s3cret" not in repr(connection)
        pickled = pickle.dumps(connection)
        assert b"s3cret" not in pickled
        again = pickle.loads(pickled)
        assert (again.url, again.options) == (URL, {"retries": "2"})


def test_what_is_set_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ls.Connection(URL).is_set("partitions")
    assert ls.Connection(URL, {"partitions": 3}).is_set("partitions")
    assert ls.Connection(f"{URL}?partitions=3").is_set("partitions")
    monkeypatch.setenv("LIGHTSTREAM_PARTITIONS", "3")
    assert ls.Connection(URL).is_set("partitions")


def test_what_cannot_be_understood_is_refused_at_once() -> None:
    with pytest.raises(ls.InvalidArgumentError, match="s3cret") as raised:
        ls.Connection("lightstream://s3cret:0x/t?token=hidden")
    assert "hidden" not in str(raised.value)
    with pytest.raises(TypeError, match="credential_provider"):
        ls.Connection(URL, None, "automatic")  # type: ignore[arg-type]


def test_a_client_is_made_once_and_when_it_is_wanted() -> None:
    with ls.serve({"t": pa.table({"a": [1]})}) as server:
        for provider in (None, "auto"):
            connection = ls.Connection(f"{server.url}/t", None, provider)
            assert server.stats()["connections"] == (0 if provider is None else 1)
            assert pa.table(connection.client.scan()).num_rows == 1
            assert connection.client is connection.client
            assert connection.key == ls.Connection(f"{server.url}/t").key
