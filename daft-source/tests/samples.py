"""Columns of every type that Daft filters, with values at the limits of their types, and predicates on them."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from daft import DataType, Expression, col, lit
from hypothesis import strategies as st

_MOMENTS = [
    dt.datetime(1700, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 12, 30, 15, 123456),
    dt.datetime(2200, 12, 31, 23, 59, 59),
]
_TEXTS = ["", "a", "ab", "b", "A", "a%", "a_b", "it's", 'say "x"', "é", "ab\\", "表", "a longer text than twelve bytes"]
_FLOATS = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 7.0, 100.0, 3e38]


def _integers(bits: int, is_signed: bool) -> list[int]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return sorted({least, least + 1, most, most - 1, 0, 1, 2, 7, 100, *([-1, -2, -7] if is_signed else [])})


def _whole(moments: list[dt.datetime], microseconds: int) -> list[dt.datetime]:
    return [each.replace(microsecond=each.microsecond // microseconds * microseconds) for each in moments]


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), _integers(8, True)),
    "i16": (pa.int16(), _integers(16, True)),
    "i32": (pa.int32(), _integers(32, True)),
    "i64": (pa.int64(), [*_integers(64, True), 2**53, 2**53 + 1, -(2**53) - 1]),
    "u8": (pa.uint8(), _integers(8, False)),
    "u16": (pa.uint16(), _integers(16, False)),
    "u32": (pa.uint32(), _integers(32, False)),
    "u64": (pa.uint64(), [*_integers(64, False), 2**53, 2**53 + 1]),
    "f32": (pa.float32(), _FLOATS),
    "f64": (pa.float64(), [*_FLOATS, 1e308, 2.0**53, 5e-324]),
    "text": (pa.string(), _TEXTS),
    "view": (pa.string_view(), _TEXTS),
    "bytes": (pa.binary(), [b"", b"a", b"ab", b"\xff\x00", b"\x00"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [each.date() for each in _MOMENTS]),
    "clock": (pa.time64("us"), [dt.time(), dt.time(12, 30), dt.time(23, 59, 59, 999999)]),
    "short": (pa.time32("ms"), [dt.time(), dt.time(12, 30), dt.time(23, 59, 59, 999000)]),
    "ms": (pa.timestamp("ms"), _whole(_MOMENTS, 1000)),
    "us": (pa.timestamp("us"), _MOMENTS),
    "ns": (pa.timestamp("ns"), _MOMENTS),
    "utc": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=dt.timezone.utc) for each in _MOMENTS]),
    "span": (pa.duration("us"), [dt.timedelta(), dt.timedelta(microseconds=1), dt.timedelta(days=-3)]),
    "money": (pa.decimal128(12, 2), [Decimal(x) for x in ("0", "0.01", "-0.01", "3.14", "9999999999.99")]),
    "small": (pa.decimal32(7, 2), [Decimal(x) for x in ("0", "0.01", "-0.01", "3.14", "99999.99")]),
    "coded": (pa.dictionary(pa.int32(), pa.string()), ["b", "a", "zz", "it's", ""]),
    "list": (pa.list_(pa.int64()), [[], [1], [1, 2], [None]]),
    "record": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": "a"}, {"x": None, "y": None}]),
}
"""For each column its type and the values that occur."""

INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
NUMBERS = [*INTEGERS, "f32", "f64"]
FLAT = [name for name in VALUES if name not in ("list", "record")]


def table(height: int, seed: int) -> pa.Table:
    """Rows with a number and a column of each type: random values, a sixth of them null."""
    chance = random.Random(seed)
    columns = {"id": pa.array(range(height), pa.int64())}
    for name, (dtype, values) in VALUES.items():
        drawn = [None if chance.random() < 1 / 6 else chance.choice(values) for _ in range(height)]
        columns[name] = pa.array(drawn, dtype)
    return pa.table(columns)


def plain(rows: pa.Table) -> pa.Table:
    """The rows in types that Daft takes."""
    to = {"view": pa.large_string(), "short": pa.time64("us"), "small": pa.decimal128(7, 2), "coded": pa.large_string()}
    for name, dtype in to.items():
        column = rows.column(name)
        if name == "small":
            column = pa.chunked_array([pa.array(column.to_pylist(), dtype)])
        else:
            column = column.cast(dtype)
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def _literal(name: str) -> st.SearchStrategy[Any]:
    values = VALUES[name][1]
    bare = st.sampled_from(values)
    if name in INTEGERS:
        others = [-1, 0, 3, 300, 2**31, 2**63, -(2**63), 0.5, 2.0, -1.5, 1e18, -0.0, math.nan, math.inf]
        return st.one_of(bare, st.sampled_from(others))
    if name in ("f32", "f64"):
        return st.one_of(bare, st.sampled_from([-1, 0, 1, 7, 0.1, 2**24 + 1, 2**53 + 1]))
    if name in ("day", "ms", "us", "ns", "utc"):
        return st.one_of(bare, st.sampled_from(_MOMENTS), st.sampled_from([each.date() for each in _MOMENTS]))
    if name in ("money", "small"):
        return st.one_of(bare, st.sampled_from([Decimal("3.1415"), 3, 0, Decimal("1e20"), Decimal("-0.005")]))
    return bare


_OPERATORS = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "eq_null_safe"]


def _comparison(name: str) -> st.SearchStrategy[Expression]:
    return st.builds(
        lambda op, value, is_mirrored: getattr(lit(value), op)(col(name)) if is_mirrored else getattr(col(name), op)(lit(value)),
        st.sampled_from(_OPERATORS),
        _literal(name),
        st.booleans(),
    )


def _among(name: str) -> st.SearchStrategy[Expression]:
    values = VALUES[name][1]
    return st.builds(lambda chosen: col(name).is_in(chosen), st.lists(st.sampled_from(values), min_size=1, max_size=25))


def _between(name: str) -> st.SearchStrategy[Expression]:
    bound = st.sampled_from(VALUES[name][1])
    return st.builds(lambda low, high: col(name).between(low, high), bound, bound)


_two_columns = st.builds(
    lambda left, right, op: getattr(col(left), op)(col(right)),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
    st.sampled_from(["__eq__", "__lt__", "__ge__", "eq_null_safe"]),
)

_nulls = st.builds(
    lambda name, is_null: col(name).is_null() if is_null else col(name).not_null(),
    st.sampled_from(list(VALUES)),
    st.booleans(),
)

_text_matches = st.builds(
    lambda match, text: match(text),
    st.sampled_from([lambda text: col("text").startswith(text), lambda text: col("view").endswith(text), lambda text: col("text").contains(text)]),
    st.sampled_from(_TEXTS),
)

_arithmetic = st.builds(
    lambda name, op, by, bound: op(col(name), by) > bound,
    st.sampled_from(NUMBERS),
    st.sampled_from(
        [
            lambda left, right: left + right,
            lambda left, right: left - right,
            lambda left, right: left * right,
            lambda left, right: left / right,
            lambda left, right: left % right,
        ]
    ),
    st.one_of(st.sampled_from([1, 2, 7, 0.5]), st.sampled_from(NUMBERS).map(col)),
    st.sampled_from([0, 1, 3, 0.25]),
)

_casts = st.builds(
    lambda name, to, bound: col(name).cast(to) > bound,
    st.sampled_from(INTEGERS),
    st.sampled_from([DataType.int64(), DataType.float64(), DataType.int32(), DataType.uint64()]),
    st.sampled_from([0, 1, 7, 0.5]),
)

_leaves = st.one_of(
    st.sampled_from(FLAT).flatmap(_comparison),
    st.sampled_from(FLAT).flatmap(_comparison),
    st.sampled_from(FLAT).flatmap(_among),
    st.sampled_from([name for name in FLAT if name != "flag"]).flatmap(_between),
    _two_columns,
    _nulls,
    _text_matches,
    _arithmetic,
    _casts,
    st.sampled_from(
        [
            col("flag"),
            ~col("flag"),
            lit(True),
            col("flag") ^ col("i8").is_null(),
            col("f64").is_nan(),
            col("f32").is_inf(),
            col("i64").fill_null(3) > 2,
            col("id") % 3 == 1,
        ]
    ),
)

predicates = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda left, right: left & right, inner, inner),
        st.builds(lambda left, right: left | right, inner, inner),
        st.builds(lambda operand: ~operand, inner),
    ),
    max_leaves=5,
)
"""Conditions of every kind, and combinations of them."""
