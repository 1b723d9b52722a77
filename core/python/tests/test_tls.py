"""Servers of Python with a certificate, and with a file of tokens."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lightstream_core as ls

ROWS = pa.table({"a": list(range(100))})


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and what it has signed for a server and for a client."""
    folder = tmp_path_factory.mktemp("tls")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority = ("-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(folder, "req", "-x509", *key, *authority)
    (folder / "server.ext").write_text("subjectAltName=IP:127.0.0.1\n")
    (folder / "client.ext").write_text("extendedKeyUsage=clientAuth\n")
    for name in ("server", "client"):
        openssl(folder, "req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", *sign, "-out", f"{name}.pem")
    return folder


def read(url: str, **options: Any) -> pa.Table:
    return pa.table(ls.connect(url, retries=0, tls="on", **options).scan("t", ordered=True))


def test_a_server_with_a_certificate_is_checked(files: Path) -> None:
    with ls.serve({"t": ROWS}, tls_cert=files / "server.pem", tls_key=str(files / "server.key")) as server:
        assert read(server.url, tls_ca=str(files / "ca.pem")) == ROWS
        with pytest.raises(ls.UnavailableError, match="certificate"):
            read(server.url)


def test_a_server_may_want_certificates_of_its_clients(files: Path) -> None:
    names = {"tls_cert": "server.pem", "tls_key": "server.key", "tls_client_ca": "ca.pem"}
    protected: dict[str, Any] = {option: files / name for option, name in names.items()}
    with ls.serve({"t": ROWS}, **protected) as server:
        own = {"tls_cert": str(files / "client.pem"), "tls_key": str(files / "client.key")}
        assert read(server.url, tls_ca=str(files / "ca.pem"), **own) == ROWS
        with pytest.raises(ls.LightstreamError, match="certificate"):
            read(server.url, tls_ca=str(files / "ca.pem"))


def test_files_that_belong_together_are_given_together(files: Path) -> None:
    for given, missing in (("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("tls_client_ca", "tls_cert")):
        with pytest.raises(ls.InvalidArgumentError, match=f"{given} needs {missing}"):
            ls.serve({}, **{given: files / "server.pem"})  # type: ignore[arg-type]
    with pytest.raises(ls.NotFoundError, match="nowhere"):
        ls.serve({}, tls_cert=files / "nowhere", tls_key=files / "server.key")


def test_whoever_skips_the_check_is_warned(files: Path) -> None:
    with ls.serve({"t": ROWS}, tls_cert=files / "server.pem", tls_key=files / "server.key") as server:
        with pytest.warns(RuntimeWarning, match="skip-verify") as warned:
            client = ls.connect(f"{server.url}/t?tls=skip-verify")
            assert pa.table(client.scan(ordered=True)) == ROWS
            assert [str(warning.filename) for warning in warned] == [__file__]
        with pytest.warns(RuntimeWarning, match="skip-verify") as warned:
            connection = ls.Connection(f"{server.url}/t", {"tls": "skip-verify"})
            for _ in range(3):
                assert pa.table(connection.client.scan(ordered=True)) == ROWS
            assert len(warned) == 1


def test_a_file_says_who_may_read_what(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    digest = hashlib.sha256(b"good").hexdigest()
    path.write_text(f'[[token]]\nname = "reports"\nsha256 = "{digest}"\nread = ["t"]\n')
    with ls.serve({"t": ROWS, "hidden": ROWS}, token_file=path) as server:
        client = ls.connect(server.url, token="good")
        assert client.tables() == ["t"]
        assert pa.table(client.scan("t", ordered=True)) == ROWS
        with pytest.raises(ls.PermissionDeniedError):
            client.scan("hidden")
        with pytest.raises(ls.UnauthenticatedError):
            ls.connect(server.url, token="bad")
    with pytest.raises(ls.InvalidArgumentError, match="authenticator and token_file"):
        ls.serve({}, token_file=path, authenticator=lambda token: "somebody")
    with pytest.raises(ls.NotFoundError, match="nowhere"):
        ls.serve({}, token_file=tmp_path / "nowhere")
