"""A proxy that does to a connection what networks do: it cuts, resets, stalls and changes bytes at a chosen place."""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Literal

Kind = Literal["cut", "reset", "stall", "change"]


class Proxy:
    """Forwards to a server, and does something once to what the server sends, after so many bytes of all connections."""

    def __init__(self, port: int, kind: Kind | None = None, after_bytes: int = 0) -> None:
        self.forwarded_bytes = 0
        self._to = ("127.0.0.1", port)
        self._kind = kind
        self._after_bytes = after_bytes
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def has_struck(self) -> bool:
        """Whether it has been done."""
        return self._kind is None

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._to) as server:
            while not self._ended.is_set():
                ready, _, _ = select.select([client, server], [], [], 0.2)
                if client in ready:
                    sent = client.recv(1 << 16)
                    if not sent:
                        return
                    server.sendall(sent)
                if server in ready:
                    answer = server.recv(1 << 16)
                    if not answer or not self._answer(client, answer):
                        return

    def _answer(self, client: socket.socket, answer: bytes) -> bool:
        """Forwards what a server sends; false where the connection ends with it."""
        with self._lock:
            here = self._after_bytes - self.forwarded_bytes
            kind = self._kind if here < len(answer) else None
            if kind is not None:
                self._kind = None
            self.forwarded_bytes += len(answer)
        if kind is None:
            client.sendall(answer)
            return True
        here = max(here, 0)
        client.sendall(answer[:here])
        if kind == "change":
            client.sendall(bytes([answer[here] ^ 0x10]) + answer[here + 1 :])
            return True
        if kind == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if kind == "stall":
            self._ended.wait(60)
        return False
