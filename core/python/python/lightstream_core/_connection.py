"""A server as plugins of engines keep it: by URL and options, with a client in each process."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Callable, Dict, Literal, Optional, Tuple, Union
from urllib.parse import parse_qs, urlsplit

from . import _native

CredentialProvider = Callable[[], Union[Mapping[str, str], Tuple[Mapping[str, str], Optional[int]]]]
"""Returns ``{"token": "..."}``, alone or with the time at which it ends."""


class Connection:
    """A server, and the table that the URL names. ``"auto"`` leaves credentials to options and environment, as None does.

    It can be pickled: what is pickled holds no secrets but the credential provider, which travels as it is. Another process
    connects for itself, and takes secrets from the provider or its own environment. Nothing is sent before its client is
    used.
    """

    def __init__(
        self,
        url: str,
        options: Optional[Mapping[str, Any]] = None,
        credential_provider: Union[CredentialProvider, Literal["auto"], None] = None,
    ) -> None:
        provider = None if isinstance(credential_provider, str) else credential_provider
        if credential_provider not in (None, "auto") and not callable(provider):
            raise TypeError(
                'credential_provider is a callable that returns options, "auto" or None, not '
                f"{type(credential_provider).__name__}"
            )
        if not isinstance(url, str):
            raise TypeError(f"url is text, not {type(url).__name__}")
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"storage_options is a mapping by name, or None, not {type(options).__name__}")
        self.url = url
        self.options: Dict[str, Any] = dict(options or {})
        self.credential_provider = provider
        # What cannot be understood is said now.
        self.shown = self._reset()

    def _reset(self) -> str:
        self._lock = threading.Lock()
        self._client: Optional[_native.Client] = None
        self._process = os.getpid()
        return _native._portable(self.url, self.options)[0]

    @property
    def key(self) -> Tuple[object, ...]:
        """What two connections have in common that reach the same rows."""
        options = tuple(sorted((name, str(value)) for name, value in self.options.items()))
        return (self.url, options, id(self.credential_provider))

    def is_set(self, option: str) -> bool:
        """Whether somebody has set an option: here, in the URL or in the environment."""
        in_url = option in parse_qs(urlsplit(self.url).query, keep_blank_values=True)
        return option in self.options or in_url or f"LIGHTSTREAM_{option.upper()}" in os.environ

    @property
    def client(self) -> _native.Client:
        """The client of this process."""
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            if self._client is None:
                self._client = _native._client(
                    self.url, storage_options=self.options, credential_provider=self._credentials()
                )
            return self._client

    def _credentials(self) -> Optional[Callable[[], Mapping[str, str]]]:
        """What the core asks for credentials. Providers of some engines give the time at which they end as well."""
        provider = self.credential_provider
        if provider is None:
            return None

        def credentials() -> Mapping[str, str]:
            given = provider()
            return given[0] if isinstance(given, tuple) else given

        return credentials

    def __reduce__(self) -> Tuple[Any, ...]:
        url, options = _native._portable(self.url, self.options)
        return Connection, (url, options, self.credential_provider)

    def __repr__(self) -> str:
        return f"Connection({self.shown})"
