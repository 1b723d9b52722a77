"""How types of Polars relate: which values compare on both sides alike, and what a cast does to them."""

from __future__ import annotations

from typing import Final

import polars as pl

CODED: Final = (pl.Categorical, pl.Enum)
"""Text kept as codes."""

EQUALITIES: Final = frozenset(("=", "<>", "is distinct from", "is not distinct from"))
"""Comparisons that ask for no order."""

_MANTISSAS: Final[dict[type[pl.DataType], int]] = {pl.Float32: 24, pl.Float64: 53}


def compare_alike(op: str, left: pl.DataType, right: pl.DataType) -> bool:
    """Whether values of two types compare in Polars as the core compares them."""
    if isinstance(left, pl.Enum) and (right == left or right == pl.String):
        # Enums are ordered by category, not by text.
        return op in EQUALITIES
    if isinstance(left, pl.Categorical) and (right == pl.String or right == left):
        return op in EQUALITIES or right == pl.String
    if left.is_decimal() and right.is_decimal():
        return True
    is_flat = left.is_numeric() or left.is_temporal() or left in (pl.Boolean, pl.String, pl.Binary)
    return is_flat and left == right


def keeps_values(source: pl.DataType, to: pl.DataType) -> bool:
    """Whether a cast only changes how values are kept, so that comparisons see the same without it."""
    if source == to:
        return True
    if isinstance(source, CODED):
        return to == pl.String
    if source.is_integer() and to.is_integer():
        (bits, signed), (to_bits, to_signed) = _width(source), _width(to)
        return bits < to_bits if to_signed and not signed else signed == to_signed and bits <= to_bits
    if source.is_integer():
        return _width(source)[0] <= _MANTISSAS.get(type(to), 0)
    if isinstance(source, pl.Decimal) and isinstance(to, pl.Decimal):
        return to.scale >= source.scale and to.precision - to.scale >= source.precision - source.scale
    return source == pl.Float32 and to == pl.Float64


def rounds(source: pl.DataType, to: pl.DataType) -> bool:
    """Whether a cast may change values, but keeps their order."""
    if source in (pl.Int64, pl.UInt64):
        return to == pl.Float64
    return source == pl.Date and isinstance(to, pl.Datetime) and to.time_zone is None


def _width(integer: pl.DataType) -> tuple[int, bool]:
    name = str(integer)
    return int(name.lstrip("UInt")), not name.startswith("U")
