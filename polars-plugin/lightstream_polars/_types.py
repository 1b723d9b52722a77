"""How each Arrow type reaches Polars: the rules that a scan asks the core to apply.

Only what Polars would copy or cannot hold is named; every other type is imported as it is. A rule never loses a value:
what has no lossless counterpart is refused, by column and type, when the scan is made.
"""

from __future__ import annotations

from typing import Final

IMPORT_RULES: Final[dict[str, str]] = {
    # Polars keeps strings and bytes as views: asked for as such, they are imported without a copy.
    "utf8": "utf8_view",
    "large_utf8": "utf8_view",
    "binary": "binary_view",
    "large_binary": "binary_view",
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
