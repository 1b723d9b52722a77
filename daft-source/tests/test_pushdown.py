"""Which conditions the server applies, for each type: found out by what it sends, and kept in PUSHDOWN.md.

``LIGHTSTREAM_WRITE_PUSHDOWN=1 pytest tests/test_pushdown.py`` writes the file anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from columns import arrow_types, first_value
from daft import DataFrame, DataType, Expression, col, lit
from serving import served, traffic

from lightstream_daft import read_lightstream

FILE = Path(__file__).parent.parent / "PUSHDOWN.md"

Condition = Callable[[Expression, list[Any]], Expression]

_is_flat = lambda dtype: dtype not in (DataType.null(), DataType.list(DataType.int64()))  # noqa: E731
_is_number = lambda dtype: dtype.is_numeric() and not dtype.is_decimal128()  # noqa: E731
_is_integer = lambda dtype: dtype.is_integer()  # noqa: E731
_is_text = lambda dtype: dtype == DataType.string()  # noqa: E731

CONDITIONS: dict[str, tuple[Callable[[DataType], bool], Condition]] = {
    "`==`": (_is_flat, lambda x, values: x == lit(values[0])),
    "`!=`": (_is_flat, lambda x, values: x != lit(values[0])),
    "`<` `<=` `>` `>=`": (_is_flat, lambda x, values: x > lit(values[0])),
    "`eq_null_safe`": (_is_flat, lambda x, values: x.eq_null_safe(lit(values[0]))),
    "`is_in`": (_is_flat, lambda x, values: x.is_in([values[0]])),
    "`between`": (lambda dtype: _is_flat(dtype) and dtype != DataType.bool(), lambda x, values: x.between(lit(values[1]), lit(values[2]))),
    "`is_null`": (lambda dtype: dtype != DataType.null(), lambda x, values: x.is_null()),
    "two columns": (_is_flat, lambda x, values: x == col("y")),
    "`startswith`": (_is_text, lambda x, values: x.startswith("ab")),
    "`+` `-` `*`": (_is_number, lambda x, values: x + 1 > lit(int(values[0]) + 1)),
    "`/` `%`": (_is_number, lambda x, values: x % 2 == lit(values[0] % 2)),
    "a cast to Int64": (_is_integer, lambda x, values: x.cast(DataType.int64()) <= lit(values[0])),
    "`>` a float": (_is_integer, lambda x, values: x > 1.5),
    "a Boolean column": (lambda dtype: dtype == DataType.bool(), lambda x, values: ~x),
}


def _judge(frame: DataFrame, local: DataFrame, server: Any, condition: Expression) -> str:
    try:
        expected = local.where(condition).select("id").to_pydict()
    except Exception:
        return "–"
    with traffic(server) as sent:
        assert frame.where(condition).select("id").to_pydict() == expected
    kept, all_ = len(expected["id"]), local.count_rows()
    if kept == all_:
        return "–"
    if sent.rows == all_:
        return "local"
    return "exact" if sent.rows == kept else "inexact"


def pushdown() -> str:
    """The table of what is pushed, as text."""
    columns = arrow_types()
    tables = {name: pa.table({"id": range(len(x)), "x": x, "y": first_value(x)}) for name, x in columns.items()}
    lines = [
        "# What the server applies",
        "",
        "For columns of each Arrow type on the server, and the type that they have in Daft: whether a condition is applied",
        "by the server exactly (`exact`), in part (`inexact`), or by Daft alone (`local`). Daft applies every condition",
        "again in any case. A dash stands where Daft has no such operation. Conditions that Daft does not hand to its",
        "sources, such as those on text, are its own. A test derives this table from what a server sends.",
        "",
        "| Arrow | Daft | " + " | ".join(CONDITIONS) + " |",
        "|---" * (len(CONDITIONS) + 2) + "|",
    ]
    with served(tables) as server:
        for name in tables:
            frame = read_lightstream(f"{server.url}/{quote(name, safe='')}")
            local = read_lightstream(f"{server.url}/{quote(name, safe='')}").collect()
            dtype = frame.schema()["x"].dtype
            values = local.to_pydict()["x"]
            cells = [
                _judge(frame, local, server, make(col("x"), values)) if holds_for(dtype) else "–"
                for holds_for, make in CONDITIONS.values()
            ]
            lines.append(f"| `{name}` | `{dtype}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def test_what_is_pushed_is_what_is_written() -> None:
    found = pushdown()
    if os.environ.get("LIGHTSTREAM_WRITE_PUSHDOWN") == "1":
        FILE.write_text(found)
    assert FILE.read_text() == found
