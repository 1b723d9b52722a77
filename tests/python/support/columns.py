"""Columns of each Arrow type, of few values, to find out what a server applies to them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

_DAYS = [dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 12, 31)]
_MOMENTS = [dt.datetime(2024, 1, 1), dt.datetime(2024, 2, 29, 12, 30), dt.datetime(2024, 12, 31)]
_INSTANTS = [each.replace(tzinfo=dt.timezone.utc) for each in _MOMENTS]
_CLOCKS = [dt.time(1), dt.time(12, 30), dt.time(23)]
_SPANS = [dt.timedelta(seconds=1), dt.timedelta(hours=1), dt.timedelta(days=1)]
_TEXTS = ["ab", "abc", "bcd"]
_DECIMALS = [Decimal("1.00"), Decimal("2.50"), Decimal("4.00")]


def arrow_types() -> dict[str, pa.Array]:
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


def first_value(column: pa.Array) -> pa.Array:
    """The first value in each row."""
    if isinstance(column, pa.RunEndEncodedArray):
        return pa.RunEndEncodedArray.from_arrays([len(column)], column.values.slice(0, 1))
    return pa.concat_arrays([column.slice(0, 1)] * len(column))
