"""How each Arrow type reaches Daft: the rules that a scan asks the core to apply.

Only what Daft would copy or cannot hold is named; every other type is imported as it is. A rule never loses a value:
what has no lossless counterpart is refused, by column and type, when the scan is made.
"""

from __future__ import annotations

from typing import Final

import lightstream_core as core
import pyarrow as pa
from daft import DataType
from daft.schema import Schema

IMPORT_RULES: Final[dict[str, str]] = {
    # Daft keeps text and bytes with wide offsets: asked for as such, they are imported without a copy.
    "utf8": "large_utf8",
    "utf8_view": "large_utf8",
    "binary": "large_binary",
    "binary_view": "large_binary",
    "list_view": "list",
    "large_list_view": "large_list",
    "dictionary": "values",
    "run_end_encoded": "values",
    "time32": "time64",
    "decimal32": "decimal128",
    "decimal64": "decimal128",
    "decimal_negative_scale": "decimal128",
    "decimal256": "refuse",
}
"""Kinds of Arrow types, each with the kind that it travels as; the rules hold within nested types too."""


def imported(schema: core.Schema) -> Schema:
    """The columns as Daft will have them.

    Raises ``UnimplementedError`` for a type that Daft refuses even after the rules.
    """
    names, types = [], []
    for field in schema:
        try:
            dtype = DataType.from_arrow_type(pa.field(field).type)
        except Exception:
            raise _refused(field) from None
        # What Daft has no type for it takes for objects of Python, and fails once rows come.
        if "Python" in repr(dtype):
            raise _refused(field)
        names.append(field.name)
        types.append(dtype)
    return Schema.from_field_name_and_types(list(zip(names, types, strict=True)))


def _refused(field: core.Field) -> core.UnimplementedError:
    return core.UnimplementedError(
        f"column {field.name!r} has the type {field.type}, which Daft does not take: leave the column out, or cast it at "
        "the source"
    )
