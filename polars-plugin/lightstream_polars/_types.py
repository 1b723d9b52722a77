"""How each Arrow type reaches Polars: the rules that a scan asks the core to apply.

Only what Polars would copy or cannot hold is named; every other type is imported as it is. A rule never loses a value:
what has no lossless counterpart is refused, by column and type, when the scan is made.
"""

from __future__ import annotations

from typing import Final

import lightstream_core as core
import polars as pl

IMPORT_RULES: Final[dict[str, str]] = {
    # Polars keeps strings and bytes as views: asked for as such, they are imported without a copy.
    "utf8": "utf8_view",
    "large_utf8": "utf8_view",
    "binary": "binary_view",
    "large_binary": "binary_view",
    # Polars copies these, and panics where the size is zero.
    "fixed_size_binary": "binary_view",
    # Polars reads beyond the end of these.
    "decimal32": "decimal128",
    "decimal64": "decimal128",
    # Polars panics on these.
    "run_end_encoded": "values",
    "list_view": "list",
    "large_list_view": "large_list",
    "decimal_negative_scale": "decimal128",
    "decimal256": "refuse",
    "interval": "refuse",
    "union": "refuse",
}
"""Kinds of Arrow types, each with the kind that it travels as; the rules hold within nested types too."""


def imported(schema: core.Schema) -> pl.Schema:
    """The columns as Polars will have them.

    Raises ``UnimplementedError`` for a type that Polars refuses even after the rules: a time zone that it does not
    know, or arrays of no items.
    """
    made = pl.Schema()
    for field in schema:
        try:
            dtype = pl.Schema([field])[field.name]
        except pl.exceptions.PanicException:
            raise _refused(field) from None
        if _has_empty_arrays(dtype):
            raise _refused(field)
        made[field.name] = dtype
    return made


def _refused(field: core.Field) -> core.UnimplementedError:
    return core.UnimplementedError(
        f"column {field.name!r} has the type {field.type}, which Polars does not take: leave the column out, or "
        "cast it at the source"
    )


def _has_empty_arrays(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.Array) and 0 in dtype.shape:
        return True
    if isinstance(dtype, (pl.Array, pl.List)):
        inner = pl.Schema({"items": dtype.inner})
    elif isinstance(dtype, pl.Struct):
        inner = pl.Schema(dtype)
    else:
        return False
    return any(map(_has_empty_arrays, inner.values()))
