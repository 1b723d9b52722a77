"""Errors: their classes, and what they carry."""

from __future__ import annotations

import pickle
import socket
from datetime import timedelta

import pytest

import lightstream_core as ls


def test_each_code_has_a_class() -> None:
    codes = {
        "invalid_argument": ValueError,
        "not_found": LookupError,
        "unauthenticated": PermissionError,
        "permission_denied": PermissionError,
        "unimplemented": NotImplementedError,
        "resource_exhausted": Exception,
        "expired": Exception,
        "unavailable": ConnectionError,
        "deadline_exceeded": TimeoutError,
        "cancelled": Exception,
        "data_loss": Exception,
        "internal": Exception,
    }
    classes = {error.code: error for error in ls.LightstreamError.__subclasses__()}
    assert set(classes) == set(codes)
    for code, base in codes.items():
        assert issubclass(classes[code], base)
        assert getattr(ls, classes[code].__name__) is classes[code]


def test_an_error_says_where_it_came_from_and_survives_pickling(client: ls.Client, server: ls.Server) -> None:
    with pytest.raises(ls.NotFoundError) as raised:
        client.scan("flights")
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert (error.code, error.retryable, error.table, error.peer) == ("not_found", False, "flights", server.url)
        assert error.partition is None
        assert str(error).startswith("not_found: ") and "flights" in str(error)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ls.UnavailableError) as raised:
        ls.connect(f"lightstream://127.0.0.1:{port}", retries=0)
    assert raised.value.retryable
    assert raised.value.peer == f"lightstream://127.0.0.1:{port}"


def test_a_server_that_goes_away_fails_the_read(client: ls.Client, server: ls.Server) -> None:
    scan = ls.connect(server.url, retries=0).scan("numbers")
    reader = scan.read()
    next(reader)
    server.stop()
    with pytest.raises(ls.UnavailableError) as raised:
        list(scan)
    assert (raised.value.partition, raised.value.table) == (0, "numbers")


def test_silence_ends_at_the_deadline() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"lightstream://127.0.0.1:{silent.getsockname()[1]}"
        for timeout in (0.2, "200ms", timedelta(milliseconds=200)):
            with pytest.raises(ls.DeadlineExceededError):
                ls.connect(url, read_timeout=timeout, retries=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"read_timout": "5s"}, "read_timeout"),
        ({"read_timeout": "soon"}, "soon"),
        ({"partitions": 0}, "partitions"),
        ({"ordered": "perhaps"}, "ordered"),
        ({"max_frame_bytes": "much"}, "max_frame_bytes"),
    ],
)
def test_options_are_refused_by_name(server: ls.Server, options: dict[str, object], words: str) -> None:
    with pytest.raises(ls.InvalidArgumentError, match=words):
        ls.connect(server.url, **options)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidArgumentError, match=words):
        ls.connect(server.url, storage_options=options)  # type: ignore[arg-type]


def test_options_of_every_type(server: ls.Server) -> None:
    client = ls.connect(
        server.url + "?partitions=9",
        storage_options={"partitions": "2", "retries": 1},
        partitions=3,
        ordered=True,
        timeout=timedelta(minutes=1),
        read_timeout=1.5,
        prefetch_bytes=1 << 20,
        max_frame_bytes="64KiB",
        snapshot=None,
    )
    assert len(client.scan("numbers").partitions) == 3
    with pytest.raises(TypeError, match="retries"):
        ls.connect(server.url, retries=[])  # type: ignore[arg-type]


def test_wrong_arguments(client: ls.Client) -> None:
    for wrong in (
        {"where": "nn > 3"},
        {"where": "n >"},
        {"where": "n > 3", "float_rule": "none"},
        {"partitions": 0},
        {"residual": "nobody"},
        {"types": {"utf9": "utf8"}},
    ):
        with pytest.raises(ls.InvalidArgumentError):
            client.scan("numbers", **wrong)
    with pytest.raises(TypeError):
        client.scan("numbers", where=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ls.serve({"t": 3})  # type: ignore[dict-item]
    with pytest.raises(ls.InvalidArgumentError):
        ls.connect("nonsense")
