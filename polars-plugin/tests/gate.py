"""A proxy between client and server that holds rows back until several reads are under way."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

_CHUNK = 1 << 16


class Gate:
    """Passes on what comes, but of each connection no more than so many bytes from the server before that many
    connections have come so far. `opened` tells whether they have."""

    def __init__(self, url: str, *, width: int, after_bytes: int) -> None:
        server = urlsplit(url)
        self._server = (server.hostname, server.port)
        self._width = width
        self._after_bytes = after_bytes
        self._waiting = 0
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"lightstream://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def opened(self) -> bool:
        with self._changed:
            return self._waiting >= self._width

    def close(self) -> None:
        """Let everybody through, and accept nobody else."""
        with self._changed:
            self._waiting = self._width
            self._changed.notify_all()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            for source, sink, is_held in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass_on, args=(source, sink, is_held), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_held: bool) -> None:
        passed = 0
        try:
            while chunk := source.recv(_CHUNK):
                passed += len(chunk)
                if is_held and passed > self._after_bytes:
                    self._hold()
                    is_held = False
                sink.sendall(chunk)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _hold(self) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting >= self._width)
