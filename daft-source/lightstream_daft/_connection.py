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
    provider = None if isinstance(credential_provider, str) else credential_provider
    if credential_provider not in (None, "auto") and not callable(credential_provider):
        raise TypeError(
            f'credential_provider is a callable that returns options, "auto" or None, not {credential_provider!r}'
        )
    made = core.Connection(url, options, provider)
    if not made.is_set("memory_limit"):
        made = core.Connection(url, {**made.options, "memory_limit": MEMORY_LIMIT}, provider)
    return made
