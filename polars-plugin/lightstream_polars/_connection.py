"""The connection of a scan to its server. Knows no table, and keeps secrets out of what is pickled."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import lightstream_core as core

from lightstream_polars import _interrupts as interrupts

T = TypeVar("T")

Options = Mapping[str, Any]
CredentialProvider = Callable[[], "Mapping[str, str] | tuple[Mapping[str, str], int | None]"]
"""Returns ``{"token": "..."}``, alone or with the time at which it ends."""

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
        return (self.url, options, id(self._provider))

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
        """What a request gives. An interrupt ends the wait for it."""
        return interrupts.call(lambda: make(self._connected()))

    def _connected(self) -> core.Client:
        """The client of this process."""
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            if self._client is None:
                self._client = core.connect(
                    self.url, storage_options=self.options, credential_provider=self._credentials()
                )
            return self._client

    def _credentials(self) -> Callable[[], Mapping[str, str]] | None:
        """What the core asks for credentials. Providers of Polars give the time at which they end as well."""
        provider = self._provider
        if provider is None:
            return None

        def credentials() -> Mapping[str, str]:
            given = provider()
            return given[0] if isinstance(given, tuple) else given

        return credentials

    def __getstate__(self) -> dict[str, Any]:
        options = {
            name: value
            for name, value in self.options.items()
            if name not in _SECRETS and not name.startswith("header.")
        }
        return {"url": _without_secrets(self.url), "options": options, "_provider": self._provider}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()


def _without_secrets(url: str) -> str:
    """The URL without options that are secret. What is after `#` is the table of a unix socket's URL."""
    head, _, rest = url.partition("?")
    query, mark, table = rest.partition("#")
    kept = [part for part in query.split("&") if part and unquote(part.partition("=")[0]) not in _SECRETS]
    return head + ("?" + "&".join(kept) if kept else "") + mark + table
