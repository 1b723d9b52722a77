"""A proxy that holds back what a server sends until so many connections carry rows at the same time."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

_FREE_BYTES = 1 << 16
"""What a connection may carry before it counts: answers to plans are shorter, the rows of a partition longer."""


class Gate:
    """Opens once rows come over `width` connections at the same time."""

    def __init__(self, host: str, port: int, width: int) -> None:
        self._target = (host, port)
        self._width = width
        self._changed = threading.Condition()
        self._waiting = 0
        self.is_open = False
        self._is_closed = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets += [near, far]
            threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, to: socket.socket, is_held: bool) -> None:
        carried = 0
        try:
            while data := source.recv(1 << 16):
                carried += len(data)
                if is_held and carried > _FREE_BYTES:
                    self._pass()
                to.sendall(data)
        except OSError:
            pass
        finally:
            _end(source, to)

    def _pass(self) -> None:
        with self._changed:
            if self.is_open or self._is_closed:
                return
            self._waiting += 1
            if self._waiting >= self._width:
                self.is_open = True
                self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_open or self._is_closed)
            self._waiting -= 1

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._listener.close()
        _end(*self._sockets)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
