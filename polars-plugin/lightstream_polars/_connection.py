"""The connection of a scan to its server: made once, and again when credentials are refused.

Knows no table, and keeps secrets out of what is pickled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

import lightstream_core as core

from lightstream_polars import _interrupts as interrupts

T = TypeVar("T")

Options = Mapping[str, Any]
CredentialProvider = Callable[[], Options]
"""Returns options such as ``{"token": "..."}``."""

_SECRETS: Final = frozenset(("token", "password"))


class Connection:
    """A server by its URL and options, with the table that the URL names."""

    def __init__(
        self,
        url: str,
        options: Options | None,
        credential_provider: CredentialProvider | Literal["auto"] | None,
    ) -> None:
        if credential_provider not in (None, "auto") and not callable(credential_provider):
            raise TypeError(
                'credential_provider is a callable that returns options, "auto" or None, not '
                f"{type(credential_provider).__name__}"
            )
        self.url = url
        self.options = dict(options or {})
        self._provider = credential_provider if callable(credential_provider) else None
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._client: core.Client | None = None
        self._process = os.getpid()

    @property
    def key(self) -> tuple[object, ...]:
        """What two connections have in common that reach the same rows."""
        options = tuple(sorted((name, str(value)) for name, value in self.options.items()))
        return (self.url, options, self._provider)

    @property
    def shown(self) -> str:
        """The URL without what may be secret: its query and the name of a user."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]))

    def is_set(self, option: str) -> bool:
        """Whether somebody has set an option: in the options, in the URL or in the environment."""
        in_url = option in parse_qs(urlsplit(self.url).query, keep_blank_values=True)
        return option in self.options or in_url or f"LIGHTSTREAM_{option.upper()}" in os.environ

    def request(self, make: Callable[[core.Client], T]) -> T:
        """What a request gives; it is made again, with new credentials, if the first are refused."""
        return interrupts.call(lambda: self._request(make))

    def _request(self, make: Callable[[core.Client], T]) -> T:
        client = self._connected(None)
        try:
            return make(client)
        except core.UnauthenticatedError:
            if self._provider is None:
                raise
            return make(self._connected(client))

    def _connected(self, refused: core.Client | None) -> core.Client:
        """The client; another than the one whose credentials were refused."""
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            if self._client is None or self._client is refused:
                self._client = self._connect()
            return self._client

    def _connect(self) -> core.Client:
        if self._provider is None:
            return core.connect(self.url, storage_options=self.options)
        try:
            return core.connect(self.url, storage_options={**self.options, **self._provider()})
        except core.UnauthenticatedError:
            return core.connect(self.url, storage_options={**self.options, **self._provider()})

    def __getstate__(self) -> dict[str, Any]:
        options = {
            name: value
            for name, value in self.options.items()
            if name not in _SECRETS and not name.startswith("header.")
        }
        return {"url": self.url, "options": options, "_provider": self._provider}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()
