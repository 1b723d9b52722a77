"""Coroutines over what the native part calls back: a future alone is no coroutine."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Protocol


class _Pending(Protocol):
    @property
    def awaited(self) -> asyncio.Future[None]: ...

    def take(self) -> Any: ...

    def leave(self) -> None: ...


async def run(start: Callable[[], _Pending]) -> Any:
    """Begin, await, and only then take the outcome: between the last two nothing can be cancelled."""
    pending = start()
    try:
        await pending.awaited
    except BaseException:
        pending.leave()
        raise
    return pending.take()
