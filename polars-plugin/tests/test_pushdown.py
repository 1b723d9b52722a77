"""Which conditions the server applies, for each type: found out by what it sends, and kept in PUSHDOWN.md.

``LIGHTSTREAM_WRITE_PUSHDOWN=1 pytest tests/test_pushdown.py`` writes the file anew.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lightstream_core as core
import polars as pl
import pyarrow as pa
import pytest
from conftest import needs_resolvers, served, traffic
from polars.testing import assert_frame_equal

from lightstream_polars import scan_lightstream

FILE = Path(__file__).parent.parent / "PUSHDOWN.md"

_DAYS = [dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 12, 31)]
_MOMENTS = [dt.datetime(2024, 1, 1), dt.datetime(2024, 2, 29, 12, 30), dt.datetime(2024, 12, 31)]
_INSTANTS = [each.replace(tzinfo=dt.timezone.utc) for each in _MOMENTS]
_CLOCKS = [dt.time(1), dt.time(12, 30), dt.time(23)]
_SPANS = [dt.timedelta(seconds=1), dt.timedelta(hours=1), dt.timedelta(days=1)]
_TEXTS = ["ab", "abc", "bcd"]
_DECIMALS = [Decimal("1.00"), Decimal("2.50"), Decimal("4.00")]


def _arrow_types() -> dict[str, pa.Array]:
    """For each type three ascending values and null."""
    of = lambda values, data_type: pa.array([*values, None], data_type)  # noqa: E731
    integers = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    return {
        "bool": of([False, True, True], pa.bool_()),
        **{name: of([1, 3, 5], getattr(pa, name)()) for name in integers},
        **{name: of([1.5, 2.5, 3.5], getattr(pa, name)()) for name in ("float32", "float64")},
        **{name: of(_TEXTS, getattr(pa, name)()) for name in ("string", "large_string", "string_view")},
        **{
            name: of([x.encode() for x in _TEXTS], getattr(pa, name)())
            for name in ("binary", "large_binary", "binary_view")
        },
        "fixed_size_binary[2]": of([b"ab", b"bc", b"cd"], pa.binary(2)),
        "date32": of(_DAYS, pa.date32()),
        "date64": of(_DAYS, pa.date64()),
        **{f"time32[{unit}]": of(_CLOCKS, pa.time32(unit)) for unit in ("s", "ms")},
        **{f"time64[{unit}]": of(_CLOCKS, pa.time64(unit)) for unit in ("us", "ns")},
        **{f"timestamp[{unit}]": of(_MOMENTS, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
        **{
            f"timestamp[us, {zone}]": of(_INSTANTS, pa.timestamp("us", zone))
            for zone in ("UTC", "Europe/Berlin", "+02:00")
        },
        **{f"duration[{unit}]": of(_SPANS, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
        "decimal32(7, 2)": of(_DECIMALS, pa.decimal32(7, 2)),
        "decimal64(12, 2)": of(_DECIMALS, pa.decimal64(12, 2)),
        "decimal128(12, 2)": of(_DECIMALS, pa.decimal128(12, 2)),
        "decimal128(38, 10)": of(_DECIMALS, pa.decimal128(38, 10)),
        "decimal128(5, -2)": of([Decimal(100), Decimal(300), Decimal(500)], pa.decimal128(5, -2)),
        "dictionary<string>": of(_TEXTS, pa.string()).dictionary_encode(),
        "dictionary<int64>": of([1, 3, 5], pa.int64()).dictionary_encode(),
        "run_end_encoded<int64>": pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], of([1, 3, 5], pa.int64())),
        "list<int64>": of([[1], [2, 3], []], pa.list_(pa.int64())),
        "struct": of([{"a": 1}, {"a": 2}, {"a": 3}], pa.struct([("a", pa.int64())])),
        "null": pa.nulls(4),
    }


def _first_value(column: pa.Array) -> pa.Array:
    """The first value in each row."""
    if isinstance(column, pa.RunEndEncodedArray):
        return pa.RunEndEncodedArray.from_arrays([len(column)], column.values.slice(0, 1))
    return pa.concat_arrays([column.slice(0, 1)] * len(column))


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
    columns = _arrow_types()
    tables = {
        name: pa.table({"id": range(len(column)), "x": column, "y": _first_value(column)})
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
    tables = {name: pa.table({"id": range(4), "x": column, "y": column}) for name, column in _arrow_types().items()}
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
