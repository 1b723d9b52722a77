"""The connection of a scan to its server, with Daft's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import lightstream_core as core
from lightstream_core import CredentialProvider

MEMORY_LIMIT: Final = "512MiB"
"""Rows that Daft may hold in this process before more come slowly, unless the options say otherwise: it takes all it gets."""


def connection(
    url: str, options: Mapping[str, Any] | None, credential_provider: CredentialProvider | Literal["auto"] | None
) -> core.Connection:
    """A connection to the server of a URL. Nothing is sent yet."""
    made = core.Connection(url, options, credential_provider)
    if not made.is_set("memory_limit"):
        made = core.Connection(url, {**made.options, "memory_limit": MEMORY_LIMIT}, credential_provider)
    return made
