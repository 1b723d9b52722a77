"""Columns of every type that Polars filters, with values at the limits of their types, and predicates on them."""

from __future__ import annotations

import datetime as dt
import math
import random
import zoneinfo
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import strategies as st

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

_MOMENTS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12, 30, 15, 123456),
    dt.datetime(9999, 12, 31, 23, 59, 59),
]
_WITHIN_NANOSECONDS = [each for each in _MOMENTS if 1700 < each.year < 2200]
_TEXTS = [
    "",
    "a",
    "ab",
    "b",
    "A",
    "a%",
    "a_b",
    "it's",
    'say "x"',
    "é",
    "zz",
    "ab\\",
    "表",
    "a longer text than twelve bytes",
]


def _integers(bits: int, is_signed: bool) -> list[int]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return sorted({least, least + 1, most, most - 1, 0, 1, 2, 7, 100, *([-1, -2, -7] if is_signed else [])})


_FLOATS = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 7.0, 100.0, 3e38]

VALUES: dict[str, tuple[pl.DataType, list[Any]]] = {
    "i8": (pl.Int8(), _integers(8, True)),
    "i16": (pl.Int16(), _integers(16, True)),
    "i32": (pl.Int32(), _integers(32, True)),
    "i64": (pl.Int64(), [*_integers(64, True), 2**53, 2**53 + 1, -(2**53) - 1]),
    "u8": (pl.UInt8(), _integers(8, False)),
    "u16": (pl.UInt16(), _integers(16, False)),
    "u32": (pl.UInt32(), _integers(32, False)),
    "u64": (pl.UInt64(), [*_integers(64, False), 2**53, 2**53 + 1]),
    "f32": (pl.Float32(), _FLOATS),
    "f64": (pl.Float64(), [*_FLOATS, 1e308, 2.0**53, 5e-324]),
    "text": (pl.String(), _TEXTS),
    "bytes": (pl.Binary(), [b"", b"a", b"ab", b"\xff\x00", b"\x00", b"a longer value than twelve bytes"]),
    "flag": (pl.Boolean(), [True, False]),
    "day": (pl.Date(), [each.date() for each in _MOMENTS]),
    "clock": (pl.Time(), [dt.time(), dt.time(12, 30), dt.time(12, 30, 0, 1), dt.time(23, 59, 59, 999999)]),
    "ms": (pl.Datetime("ms"), [each.replace(microsecond=each.microsecond // 1000 * 1000) for each in _MOMENTS]),
    "us": (pl.Datetime("us"), _MOMENTS),
    "ns": (pl.Datetime("ns"), _WITHIN_NANOSECONDS),
    "berlin": (
        pl.Datetime("us", "Europe/Berlin"),
        [
            dt.datetime(2024, 3, 31, 1, 59, tzinfo=BERLIN),
            dt.datetime(2024, 3, 31, 3, 1, tzinfo=BERLIN),
            dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=0),
            dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
            dt.datetime(1970, 1, 1, tzinfo=BERLIN),
        ],
    ),
    "span": (
        pl.Duration("us"),
        [dt.timedelta(), dt.timedelta(microseconds=1), dt.timedelta(days=-3), dt.timedelta(1e5)],
    ),
    "span_ms": (pl.Duration("ms"), [dt.timedelta(), dt.timedelta(milliseconds=1), dt.timedelta(days=-3)]),
    "money": (
        pl.Decimal(12, 2),
        [Decimal(x) for x in ("0", "0.01", "-0.01", "3.14", "9999999999.99", "-9999999999.99")],
    ),
    "wide": (pl.Decimal(38, 4), [Decimal(x) for x in ("0", "0.0001", "3.14", "-3.1400", "12345678901234567890.1234")]),
    "category": (pl.Categorical(), ["b", "a", "zz", "it's", ""]),
    "grade": (pl.Enum(["zz", "b", "a", "it's"]), ["b", "a", "zz", "it's"]),
    "list": (pl.List(pl.Int64()), [[], [1], [1, 2], [None]]),
    "record": (pl.Struct({"x": pl.Int64(), "y": pl.String()}), [{"x": 1, "y": "a"}, {"x": None, "y": None}]),
}
"""For each column its type and the values that occur."""

INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
NUMBERS = [*INTEGERS, "f32", "f64"]
NESTED = ["list", "record"]
FLAT = [name for name in VALUES if name not in NESTED]


def table(height: int, seed: int) -> pl.DataFrame:
    """Rows with a number and a column of each type: random values, a sixth of them null."""
    chance = random.Random(seed)
    columns = [pl.Series("id", range(height), dtype=pl.Int64)]
    for name, (dtype, values) in VALUES.items():
        drawn = [None if chance.random() < 1 / 6 else chance.choice(values) for _ in range(height)]
        columns.append(pl.Series(name, drawn, dtype=dtype))
    return pl.DataFrame(columns)


def _literal(name: str) -> st.SearchStrategy[Any]:
    dtype, values = VALUES[name]
    if isinstance(dtype, pl.Enum | pl.Categorical):
        return st.sampled_from(values).map(lambda value: pl.lit(value, dtype=pl.String))
    typed = st.sampled_from(values).map(lambda value: pl.lit(value, dtype=dtype))
    bare = st.sampled_from(values)
    if name in INTEGERS:
        others = st.sampled_from([-1, 0, 3, 300, 2**31, 2**63, -(2**63), 0.5, 2.0, -1.5, 1e18, math.nan, math.inf])
        return st.one_of(typed, bare, others)
    if name in ("f32", "f64"):
        return st.one_of(typed, bare, st.sampled_from([-1, 0, 1, 7, 0.1, 2**24 + 1]))
    if name == "day":
        return st.one_of(typed, bare, st.sampled_from(_MOMENTS))
    if name in ("ms", "us"):
        return st.one_of(typed, bare, st.sampled_from(_MOMENTS), st.sampled_from([each.date() for each in _MOMENTS]))
    if name in ("money", "wide"):
        return st.one_of(typed, bare, st.sampled_from([Decimal("3.1415"), 3, 0, Decimal("1e20"), Decimal("-0.005")]))
    return st.one_of(typed, bare)


def _comparison(name: str) -> st.SearchStrategy[pl.Expr]:
    operators = ["eq", "ne", "eq_missing", "ne_missing"]
    if name not in ("grade",):
        operators += ["lt", "le", "gt", "ge"]
    return st.builds(
        lambda op, literal, is_mirrored: (
            getattr(literal, op)(pl.col(name))
            if is_mirrored and isinstance(literal, pl.Expr)
            else getattr(pl.col(name), op)(literal)
        ),
        st.sampled_from(operators),
        _literal(name),
        st.booleans(),
    )


def _among(name: str) -> st.SearchStrategy[pl.Expr]:
    dtype, values = VALUES[name]
    listed = pl.String() if isinstance(dtype, pl.Categorical) else dtype
    return st.builds(
        lambda chosen, nulls_equal: pl.col(name).is_in(
            pl.Series(chosen, dtype=listed).implode(), nulls_equal=nulls_equal
        ),
        st.lists(st.sampled_from([None, *values]), max_size=4),
        st.booleans(),
    )


def _between(name: str) -> st.SearchStrategy[pl.Expr]:
    dtype, values = VALUES[name]
    bound = st.sampled_from(values).map(lambda value: pl.lit(value, dtype=dtype))
    closed = st.sampled_from(["both", "left", "right", "none"])
    return st.builds(lambda low, high, closed: pl.col(name).is_between(low, high, closed=closed), bound, bound, closed)


_ORDERED = [name for name in FLAT if name not in ("grade", "category", "flag")]

_two_columns = st.builds(
    lambda left, right, op: getattr(pl.col(left), op)(pl.col(right)),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
    st.sampled_from(["eq", "lt", "ge", "ne_missing"]),
)

_nulls = st.builds(
    lambda name, is_null: pl.col(name).is_null() if is_null else pl.col(name).is_not_null(),
    st.sampled_from(list(VALUES)),
    st.booleans(),
)

_text_matches = st.builds(
    lambda match, text: match(text),
    st.sampled_from(
        [
            lambda text: pl.col("text").str.starts_with(text),
            lambda text: pl.col("text").str.ends_with(text),
            lambda text: pl.col("text").str.contains(text, literal=True),
            lambda text: pl.col("category").cast(pl.String).str.starts_with(text),
        ]
    ),
    st.sampled_from(_TEXTS),
)

_floats = st.sampled_from(
    [
        getattr(pl.col(name), test)()
        for name in ("f32", "f64")
        for test in ("is_nan", "is_not_nan", "is_finite", "is_infinite")
    ]
)

_arithmetic = st.builds(
    lambda name, op, by, bound: op(pl.col(name), by) > bound,
    st.sampled_from(NUMBERS),
    st.sampled_from(
        [
            lambda left, right: left + right,
            lambda left, right: left - right,
            lambda left, right: left * right,
            lambda left, right: left / right,
            lambda left, right: left // right,
            lambda left, right: left % right,
            lambda left, right: right - left,
        ]
    ),
    st.one_of(st.sampled_from([1, 2, 7, 0, 0.5]), st.sampled_from(NUMBERS).map(lambda name: pl.col(name))),
    st.sampled_from([0, 1, 3, 0.25]),
)

_casts = st.builds(
    lambda name, to, bound: pl.col(name).cast(to, strict=False) > bound,
    st.sampled_from(NUMBERS),
    st.sampled_from([pl.Int64, pl.Float64, pl.Int8, pl.UInt64, pl.Float32]),
    st.sampled_from([0, 1, 7, 0.5]),
)

_that_stay = st.sampled_from(
    [
        pl.col("text").str.contains("^a.?$"),
        pl.col("text").str.len_chars() > 2,
        pl.col("us").dt.year() == 2024,
        pl.col("id") % 3 == 1,
        pl.col("list").list.len() > 1,
        pl.col("record").struct.field("x") == 1,
        pl.when(pl.col("flag")).then(pl.col("i64") > 0).otherwise(pl.col("f64") > 0),
        pl.col("f64").fill_null(0.0) > 0.5,
    ]
)

_leaves = st.one_of(
    st.sampled_from(FLAT).flatmap(_comparison),
    st.sampled_from(FLAT).flatmap(_among),
    st.sampled_from(_ORDERED).flatmap(_between),
    _two_columns,
    _nulls,
    _text_matches,
    _floats,
    _arithmetic,
    _casts,
    _that_stay,
    st.sampled_from(
        [pl.col("flag"), ~pl.col("flag"), pl.lit(True), pl.lit(False), pl.col("flag") ^ pl.col("i8").is_null()]
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
