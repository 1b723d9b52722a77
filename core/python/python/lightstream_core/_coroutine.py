"""Coroutines over what the native part calls back: a future alone is no coroutine."""

from __future__ import annotations

from typing import Any, Awaitable, Callable


async def run(start: Callable[[], Awaitable[Any]]) -> Any:
    """Begin, then await."""
    return await start()
