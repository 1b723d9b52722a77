"""What users call: a remote table as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from daft import DataFrame
from lightstream_core import CredentialProvider

from lightstream_daft._source import LightstreamSource


def read_lightstream(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: CredentialProvider | Literal["auto"] | None = "auto",
    snapshot: str | None = None,
) -> DataFrame:
    """A table of a Lightstream server, lazily.

    Columns, conditions, limits and counts go to the server, whose partitions become tasks. Each scan of a query reads the
    table as it is when that query runs, unless `snapshot` says otherwise.

    Parameters
    ----------
    url
        Server and table, as in ``lightstream://host:7654/table``.
    storage_options
        Options by name, such as ``token`` or ``read_timeout``. They go before those of the URL.
    credential_provider
        A callable that returns options such as ``{"token": "..."}``. It is called when connecting, and again when the
        server refuses what it gave. On Ray it travels with each task. ``"auto"`` leaves credentials to options and
        environment; on Ray that is each worker's own.
    snapshot
        The state of the table to read; by default the newest.

    Raises
    ------
    lightstream_core.LightstreamError
        If the server or table cannot be reached, or the table has a type that Daft has not, named with its column.
    """
    return LightstreamSource(
        url, storage_options=storage_options, credential_provider=credential_provider, snapshot=snapshot
    ).read()
