"""Every Arrow type comes back as it was, or is refused by column and type when the table is scanned."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import lightstream_core as core
import polars as pl
import pyarrow as pa
import pytest
from conftest import served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import table

from lightstream_polars import scan_lightstream

_MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15)
_INSTANT = _MOMENT.replace(tzinfo=dt.timezone.utc)


def _of(values: list[Any], data_type: pa.DataType) -> tuple[pa.Array, list[Any]]:
    return pa.array(values, data_type), values


TAKEN: dict[str, tuple[pa.Array, list[Any]]] = {
    "null": _of([None, None], pa.null()),
    "bool": _of([True, None, False], pa.bool_()),
    **{
        name: _of([0, None, 100], getattr(pa, name)())
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "int64 at its limits": _of([-(2**63), None, 2**63 - 1], pa.int64()),
    "uint64 at its limit": _of([2**64 - 1, None], pa.uint64()),
    "float32": _of([1.5, None, -0.0], pa.float32()),
    "float64": _of([1.5, None, float("inf")], pa.float64()),
    **{
        name: _of(["", None, "a text that is longer than a view holds"], getattr(pa, name)())
        for name in ("string", "large_string", "string_view")
    },
    **{
        name: _of([b"", None, b"bytes that are longer than a view holds"], getattr(pa, name)())
        for name in ("binary", "large_binary", "binary_view")
    },
    "fixed_size_binary": _of([b"abc", None, b"\x00\xff\x00"], pa.binary(3)),
    "fixed_size_binary of nothing": _of([b"", None], pa.binary(0)),
    "date32": _of([_MOMENT.date(), None], pa.date32()),
    "date64": (pa.array([_MOMENT.date(), None], pa.date64()), [dt.datetime(2024, 2, 29), None]),
    **{f"time32 in {unit}": _of([dt.time(12, 30), None], pa.time32(unit)) for unit in ("s", "ms")},
    **{f"time64 in {unit}": _of([dt.time(12, 30, 1, 5), None], pa.time64(unit)) for unit in ("us", "ns")},
    **{f"timestamp in {unit}": _of([_MOMENT, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    **{
        f"timestamp in {zone}": _of([_INSTANT, None], pa.timestamp("us", zone))
        for zone in ("UTC", "Europe/Berlin", "+02:00", "+00:00")
    },
    **{
        f"duration in {unit}": _of([dt.timedelta(days=-1, seconds=5), None], pa.duration(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    "decimal32": _of([Decimal("1.25"), None, Decimal("-99999.99"), Decimal("0.01")], pa.decimal32(7, 2)),
    "decimal64": _of([Decimal("1.25"), None, Decimal("-9999999999.99"), Decimal("0.01")], pa.decimal64(12, 2)),
    "decimal128": _of([Decimal("1.25"), None, Decimal("9" * 36 + ".99")], pa.decimal128(38, 2)),
    "decimal128 of fractions": _of([Decimal("0." + "1" * 38), None], pa.decimal128(38, 38)),
    "decimal128 of hundreds": _of([Decimal("-1200"), None], pa.decimal128(5, -2)),
    "dictionary": (pa.array(["b", None, "a", "b"]).dictionary_encode(), ["b", None, "a", "b"]),
    "dictionary of large strings": (
        pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint8()), pa.array(["a", "b"], pa.large_string())),
        ["b", None, "a"],
    ),
    "dictionary with a null value": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None])),
        ["a", None, None],
    ),
    "dictionary of numbers": (pa.array([5, None, 7]).dictionary_encode(), [5, None, 7]),
    "run_end_encoded": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", None]), ["a", "a", None]),
    "list": _of([[1], None, [], [None, 2]], pa.list_(pa.int64())),
    "large_list": _of([["a"], None, []], pa.large_list(pa.string())),
    "list_view": _of([[1], None, [], [2, 3]], pa.list_view(pa.int64())),
    "large_list_view": _of([["a"], None, ["b", "c"]], pa.large_list_view(pa.string())),
    "fixed_size_list": _of([[1, 2], None], pa.list_(pa.int64(), 2)),
    "list of run ends": (
        pa.ListArray.from_arrays([0, 2, 3], pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])),
        [[7, 7], [8]],
    ),
    "struct": _of(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.int8()), ("b", pa.string())])
    ),
    "list of structs": _of([[{"a": Decimal("1.5")}], None], pa.list_(pa.struct([("a", pa.decimal32(5, 1))]))),
}

REFUSED: dict[str, tuple[pa.Array, str]] = {
    "interval": (pa.array([pa.MonthDayNano([1, 2, 3])]), "Interval"),
    "decimal256": (pa.array([Decimal("1.5")], pa.decimal256(50, 2)), "Decimal256"),
    "decimal of too many hundreds": (pa.array([Decimal("1e30")], pa.decimal128(38, -5)), "Decimal128"),
    "union": (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])]), "Union"),
    "list of intervals": (
        pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([pa.MonthDayNano([1, 2, 3])])),
        "Interval",
    ),
    "time zone that is unknown": (pa.array([0], pa.timestamp("us", "+05:30")), "05:30"),
    "arrays of nothing": (pa.array([[]], pa.list_(pa.int64(), 0)), "FixedSizeList"),
}


def _as_python(values: list[Any]) -> list[Any]:
    return [value.to_list() if isinstance(value, pl.Series) else value for value in values]


@pytest.mark.parametrize("name", TAKEN)
def test_values_come_back(engine: str, name: str) -> None:
    column, expected = TAKEN[name]
    # Slices have offsets, which is where buffers are misread.
    rows = pa.table({"other": range(len(column)), "column": column})
    with served({"t": rows, "sliced": rows.slice(1)}) as server:
        for table_name, values in (("t", expected), ("sliced", expected[1:])):
            remote = scan_lightstream(f"{server.url}/{table_name}")
            got = remote.collect(engine=engine)
            assert got.schema == remote.collect_schema()
            assert _as_python(got["column"].to_list()) == values
            nulls = remote.filter(pl.col("column").is_null()).collect(engine=engine)
            assert nulls.height == values.count(None)


@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_polars_cannot_hold_is_refused_by_column_and_type(name: str) -> None:
    column, type_name = REFUSED[name]
    refused = pytest.raises(core.UnimplementedError, match=f"bad one.*{type_name}")
    with served({"t": pa.table({"good": [1], "bad one": column})}) as server, refused:
        scan_lightstream(f"{server.url}/t")


def test_a_column_name_that_occurs_twice_is_refused() -> None:
    rows = pa.table([pa.array([1]), pa.array([2])], names=["same", "same"])
    with served({"t": rows}) as server, pytest.raises(core.InvalidArgumentError, match="same"):
        scan_lightstream(f"{server.url}/t")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(height=st.integers(0, 200), seed=st.integers(0, 10_000), cut=st.integers(0, 50))
def test_random_tables_come_back(engine: str, height: int, seed: int, cut: int) -> None:
    local = table(height, seed).slice(cut)
    with served({"t": local}) as server:
        assert scan_lightstream(f"{server.url}/t").collect(engine=engine).equals(local)
