"""Constants and types of serialized Polars expressions, as values that a filter can carry.

Reads only shapes that it knows: everything else raises :class:`UnknownShape`, and the predicate stays with Polars.
"""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

UNITS: Final[dict[str, tuple[str, int]]] = {
    "Milliseconds": ("ms", 1_000),
    "Microseconds": ("us", 1_000_000),
    "Nanoseconds": ("ns", 1_000_000_000),
}
"""Names of time units as they are serialized: the unit, and its ticks per second."""

TICKS: Final[dict[str, int]] = dict(UNITS.values())
"""Ticks per second of each time unit."""

_PLAIN: Final[dict[str, pl.DataType]] = {
    name: getattr(pl, name)()
    for name in (
        *("Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64", "UInt128"),
        *("Float16", "Float32", "Float64", "Boolean", "String", "Binary", "Date", "Time"),
    )
    if hasattr(pl, name)
}

_INTEGERS: Final = frozenset(name for name in _PLAIN if name.startswith(("Int", "UInt")))
_MOST_DIGITS: Final = 38
_EPOCH: Final = datetime.datetime(1970, 1, 1)


class UnknownShape(Exception):
    """An expression that is not understood, or that a filter cannot say: it stays with Polars."""


@dataclass(frozen=True)
class Constant:
    """A constant: its type, and its value as Polars stores it (counts of ticks or days), or None."""

    dtype: pl.DataType
    value: Any

    def size(self) -> int:
        """Bytes of the value, where it may have many."""
        return len(self.value) if isinstance(self.value, str | bytes) else 0

    def series(self) -> pl.Series:
        """A column of just this value, of a type that Arrow has."""
        dtype, value = self.dtype, self.value
        if value is None:
            return pl.Series([None], dtype=dtype)
        if dtype == pl.Date:
            return pl.Series([value], dtype=pl.Int32).cast(dtype)
        if dtype.is_temporal():
            return pl.Series([value], dtype=pl.Int64).cast(dtype)
        if isinstance(dtype, pl.Decimal):
            return _decimal_series(value, dtype.scale)
        if dtype in (pl.Int128, getattr(pl, "UInt128", pl.Int128)):
            return pl.Series([value], dtype=_narrow_integer(value))
        return pl.Series([value], dtype=dtype)

    def sql(self) -> str:
        """The value as SQL writes it, for columns whose exact Arrow type Polars has no name for."""
        dtype, value = self.dtype, self.value
        if value is None:
            raise UnknownShape("null has no type in SQL")
        if dtype == pl.String:
            return quoted_text(value)
        if dtype == pl.Time:
            return quoted_text(_clock(value))
        if isinstance(dtype, pl.Datetime):
            zone = "" if dtype.time_zone is None else "Z"
            return f"TIMESTAMP {quoted_text(_timestamp(value, dtype.time_unit) + zone)}"
        raise UnknownShape(f"no SQL for {dtype}")


def quoted_text(text: str) -> str:
    """Text between single quotes."""
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """A name between double quotes."""
    return '"' + name.replace('"', '""') + '"'


def read_dtype(spec: Any) -> pl.DataType:
    """The type that a serialized expression names."""
    if isinstance(spec, str):
        if spec in _PLAIN:
            return _PLAIN[spec]
        raise UnknownShape(f"type {spec}")
    kind, body = single(spec)
    if kind == "Literal":
        return read_dtype(body)
    if kind == "Datetime":
        unit, zone = body
        return pl.Datetime(UNITS[unit][0], _zone(zone))  # type: ignore[arg-type]
    if kind == "Duration":
        return pl.Duration(UNITS[body][0])  # type: ignore[arg-type]
    if kind == "Decimal":
        precision, scale = body
        return pl.Decimal(precision, scale)
    raise UnknownShape(f"type {kind}")


def read_scalar(spec: Any) -> Constant | pl.Series:
    """The constant of a serialized scalar; for a list its values as a column."""
    kind, body = single(spec)
    if kind == "Null":
        return Constant(read_dtype(body), None)
    if kind == "List":
        return read_values(body)
    if kind == "Datetime":
        value, unit, zone = body
        return Constant(pl.Datetime(UNITS[unit][0], _zone(zone)), _integer(value))  # type: ignore[arg-type]
    if kind == "Duration":
        value, unit = body
        return Constant(pl.Duration(UNITS[unit][0]), _integer(value))  # type: ignore[arg-type]
    if kind == "Decimal":
        value, precision, scale = body
        return Constant(pl.Decimal(precision, scale), _integer(value))
    if kind not in _PLAIN:
        raise UnknownShape(f"constant {kind}")
    dtype = _PLAIN[kind]
    if kind in _INTEGERS or dtype.is_temporal():
        return Constant(dtype, _integer(body))
    if kind == "Binary":
        return Constant(dtype, bytes(body))
    if kind == "Boolean" and isinstance(body, bool):
        return Constant(dtype, body)
    if kind == "String" and isinstance(body, str):
        return Constant(dtype, body)
    if dtype.is_float() and isinstance(body, float):
        return Constant(dtype, body)
    raise UnknownShape(f"constant {kind} of {type(body).__name__}")


def read_values(stream: Any) -> pl.Series:
    """The values of a list, which are serialized as a stream of Arrow IPC with one column."""
    if not isinstance(stream, bytes | bytearray):
        raise UnknownShape("a list that is no Arrow stream")
    return pl.read_ipc_stream(io.BytesIO(stream), use_pyarrow=False).to_series()


def single(node: Any) -> tuple[str, Any]:
    """The only entry of a mapping: how a variant and its content are serialized. A bare name has no content."""
    if isinstance(node, str):
        return node, None
    if isinstance(node, Mapping) and len(node) == 1:
        [(kind, body)] = node.items()
        if isinstance(kind, str):
            return kind, body
    raise UnknownShape(f"a {type(node).__name__} where a variant was expected")


def _zone(zone: Any) -> str | None:
    if zone is None or isinstance(zone, str):
        return zone
    inner = zone["inner"]
    if isinstance(inner, str):
        return inner
    raise UnknownShape("time zone")


def _integer(value: Any) -> int:
    """An integer; those of 128 bits are serialized as bytes, the first the most significant."""
    if isinstance(value, bytes) and len(value) == 16:
        return int.from_bytes(value, "big", signed=True)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UnknownShape(f"an integer as {type(value).__name__}")


def _narrow_integer(value: int) -> pl.DataType:
    if -(2**63) <= value < 2**63:
        return pl.Int64()
    if 0 <= value < 2**64:
        return pl.UInt64()
    raise UnknownShape("an integer beyond 64 bits")


def _decimal_series(value: int, scale: int) -> pl.Series:
    """The decimal in as few digits as it takes: a wide one would not meet every column without overflow."""
    while scale > 0 and value % 10 == 0:
        value, scale = value // 10, scale - 1
    precision = max(len(str(abs(value))), scale, 1)
    if precision > _MOST_DIGITS:
        raise UnknownShape("a decimal of more than 38 digits")
    with decimal.localcontext(decimal.Context(prec=_MOST_DIGITS)):
        return pl.Series([decimal.Decimal(value).scaleb(-scale)], dtype=pl.Decimal(precision, scale))


def _clock(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{fraction:09}".rstrip("0") if fraction else "")


def _timestamp(ticks: int, unit: str) -> str:
    seconds, fraction = divmod(ticks, TICKS[unit])
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise UnknownShape("a year that SQL does not write") from None
    digits = len(str(TICKS[unit])) - 1
    return moment.isoformat() + (f".{fraction:0{digits}}".rstrip("0") if fraction else "")
