"""Which conditions the server applies, for each type: found out by what it sends, and kept in PUSHDOWN.md.

``LIGHTSTREAM_WRITE_PUSHDOWN=1 pytest tests/test_pushdown.py`` writes the file anew.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lightstream_core as core
import polars as pl
import pyarrow as pa
import pytest
from columns import arrow_types, first_value
from conftest import needs_resolvers, served, traffic
from polars.testing import assert_frame_equal

from lightstream_polars import scan_lightstream

FILE = Path(__file__).parent.parent / "PUSHDOWN.md"

Condition = Callable[[pl.Expr, pl.DataType, list[Any]], pl.Expr]
"""A condition on a column, of its type in Polars and its values."""


def _literal(value: Any, dtype: pl.DataType) -> pl.Expr:
    return pl.lit(value, dtype=pl.String if isinstance(dtype, pl.Categorical) else dtype)


def _listed(values: list[Any], dtype: pl.DataType) -> pl.Expr:
    return pl.lit(pl.Series(values, dtype=pl.String if isinstance(dtype, pl.Categorical) else dtype).implode())


CONDITIONS: dict[str, tuple[Callable[[pl.DataType], bool], Condition]] = {}


def condition(name: str, holds_for: Callable[[pl.DataType], bool] = lambda dtype: not dtype.is_nested()) -> Any:
    def register(make: Condition) -> Condition:
        CONDITIONS[name] = (lambda dtype: dtype != pl.Null and holds_for(dtype), make)
        return make

    return register


_is_numeric = lambda dtype: dtype.is_numeric()  # noqa: E731
_is_text = lambda dtype: dtype == pl.String  # noqa: E731

condition("`==`")(lambda x, dtype, values: x == _literal(values[0], dtype))
condition("`!=`")(lambda x, dtype, values: x != _literal(values[0], dtype))
condition("`<` `<=` `>` `>=`")(lambda x, dtype, values: x > _literal(values[0], dtype))
condition("`eq_missing`")(lambda x, dtype, values: x.eq_missing(_literal(values[0], dtype)))
condition("`is_in`")(lambda x, dtype, values: x.is_in(_listed([values[0], None], dtype)))
condition("`is_between`", lambda dtype: not dtype.is_nested() and dtype not in (pl.Boolean, pl.Categorical))(
    lambda x, dtype, values: x.is_between(_literal(values[1], dtype), _literal(values[2], dtype), closed="left")
)
condition("`is_null`", lambda dtype: True)(lambda x, dtype, values: x.is_null())
condition("two columns", lambda dtype: not dtype.is_nested())(lambda x, dtype, values: x == pl.col("y"))
condition("`str.starts_with`", _is_text)(lambda x, dtype, values: x.str.starts_with("ab"))
condition("`str.ends_with`", _is_text)(lambda x, dtype, values: x.str.ends_with("d"))
condition("`str.contains`, literal", _is_text)(lambda x, dtype, values: x.str.contains("cd", literal=True))
condition("`str.contains`, regex", _is_text)(lambda x, dtype, values: x.str.contains("^.*cd$"))
condition("`+` `-` `*`", _is_numeric)(lambda x, dtype, values: x + 1 > int(values[0]) + 1)
condition("`/`", _is_numeric)(lambda x, dtype, values: x / 2 > values[0] / 2)
condition("`//` `%`", _is_numeric)(lambda x, dtype, values: x // 2 > int(values[0]) // 2)
condition("`<=` after a cast to Int64", _is_numeric)(
    lambda x, dtype, values: x.cast(pl.Int64, strict=False) <= int(values[0])
)
condition("`>` a float", lambda dtype: dtype.is_integer())(lambda x, dtype, values: x > 1.5)
condition("`>` a datetime", lambda dtype: dtype == pl.Date)(lambda x, dtype, values: x > dt.datetime(2024, 1, 1, 12))
condition("`is_nan` `is_finite`", lambda dtype: dtype.is_float())(lambda x, dtype, values: x.is_nan() | ~x.is_finite())
condition("a Boolean column", lambda dtype: dtype == pl.Boolean)(lambda x, dtype, values: ~x)


def _judge(server: core.Server, table: str, make: Condition, dtype: pl.DataType, local: pl.DataFrame) -> str:
    predicate = make(pl.col("x"), dtype, local["x"].to_list())
    query = lambda frame: frame.filter(predicate).select("id")  # noqa: E731
    expected = query(local.lazy()).collect()
    with traffic(server) as sent:
        assert_frame_equal(query(scan_lightstream(f"{server.url}/{table}")).collect(), expected)
    tells = 0 < expected.height < local.height or "is_nan" in str(predicate)
    assert tells, f"{predicate} tells nothing about {table}"
    if sent.rows == local.height:
        return "local"
    return "exact" if sent.rows == expected.height else "inexact"


def pushdown() -> str:
    """The table of what is pushed, as text."""
    columns = arrow_types()
    tables = {
        name: pa.table({"id": range(len(column)), "x": column, "y": first_value(column)})
        for name, column in columns.items()
    }
    lines = [
        "# What the server applies",
        "",
        "For columns of each Arrow type on the server, and the type that they have in Polars: whether a condition is",
        "applied by the server exactly (`exact`), in part and again by Polars (`inexact`), or by Polars alone",
        "(`local`). A dash stands where Polars has no such operation. Integer arithmetic goes only where it cannot",
        "overflow, for Polars wraps. A test derives this table from what a server sends.",
        "",
    ]
    with served(tables) as server:
        names = list(CONDITIONS)
        lines += ["| Arrow | Polars | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
        for name in tables:
            table = quote(name, safe="")
            local = scan_lightstream(f"{server.url}/{table}").collect()
            dtype = local.schema["x"]
            cells = []
            for holds_for, make in CONDITIONS.values():
                cells.append(_judge(server, table, make, dtype, local) if holds_for(dtype) else "–")
            lines.append(f"| `{name}` | `{dtype}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@needs_resolvers
def test_what_is_pushed_is_what_is_written() -> None:
    found = pushdown()
    if os.environ.get("LIGHTSTREAM_WRITE_PUSHDOWN") == "1":
        FILE.write_text(found)
    assert FILE.read_text() == found


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_is_right_for_every_type(engine: str, name: str) -> None:
    holds_for, make = CONDITIONS[name]
    tables = {name: pa.table({"id": range(4), "x": column, "y": column}) for name, column in arrow_types().items()}
    with served(tables) as server:
        for table in tables:
            remote = scan_lightstream(f"{server.url}/{quote(table, safe='')}")
            local = remote.collect()
            dtype = local.schema["x"]
            if not holds_for(dtype):
                continue
            predicate = make(pl.col("x"), dtype, local["x"].to_list())
            for each in (predicate, ~predicate):
                try:
                    expected = local.lazy().filter(each).collect(engine=engine)
                except pl.exceptions.InvalidOperationError:  # An operation that an older Polars has not for this type.
                    continue
                assert_frame_equal(remote.filter(each).collect(engine=engine), expected)
