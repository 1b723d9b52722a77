"""The connection of a scan to its server, with Daft's defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal

import lightstream_core as core
from lightstream_core import CredentialProvider

MEMORY_LIMIT: Final = 512 << 20
"""Bytes of rows that Daft may hold in this process before more come slowly, unless the options say otherwise: it takes all it
gets. A scan that is known to fit into memory is not bounded."""

_FITS: Final = 2 << 30
"""Bytes of a scan that are taken to fit, unless they are more than an eighth of the machine's memory."""

_FRAME_BYTES: Final = "3712KiB"
"""Daft spends as much time on a small batch as on a large one. This is what servers give at once at most, unless asked."""


def connection(
    url: str, options: Mapping[str, Any] | None, credential_provider: CredentialProvider | Literal["auto"] | None
) -> core.Connection:
    """A connection to the server of a URL. Nothing is sent yet."""
    made = core.Connection(url, options, credential_provider)
    if not made.is_set("max_frame_bytes"):
        made = core.Connection(url, {**made.options, "max_frame_bytes": _FRAME_BYTES}, credential_provider)
    return made


def memory_limit(made: core.Connection, nbytes: int | None) -> int | None:
    """The bound on what a scan of so many bytes may hold; None where the options say it, or none is needed."""
    if made.is_set("memory_limit"):
        return None
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fits = nbytes is not None and nbytes <= min(_FITS, memory // 8)
    return None if fits else MEMORY_LIMIT
