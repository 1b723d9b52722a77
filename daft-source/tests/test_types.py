"""Types: what Daft takes arrives whole, what it can be given in another form does, and the rest is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import daft
import lightstream_core as core
import pyarrow as pa
import pytest
from serving import served

from lightstream_daft import read_lightstream

_DAY = dt.date(2024, 2, 29)
_MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123000)
_TEXTS = ["", "a", "a longer text than twelve bytes"]


def _nested(item: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 1, len(item)], pa.int32()), item)


ARRIVE: dict[str, pa.Array] = {
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False]),
    **{
        str(kind): pa.array([0, None, 7], kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "float16": pa.array([1.5, None, -2.0]).cast(pa.float16()),
    "float32": pa.array([1.5, None, -2.0], pa.float32()),
    "float64": pa.array([1.5, None, float("inf")]),
    **{str(kind): pa.array([*_TEXTS, None], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{
        str(kind): pa.array([*(text.encode() for text in _TEXTS), None], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "fixed_size_binary": pa.array([b"ab", None], pa.binary(2)),
    "date32": pa.array([_DAY, None]),
    "date64": pa.array([_DAY, None], pa.date64()),
    **{f"time32 {unit}": pa.array([dt.time(1, 2, 3), None], pa.time32(unit)) for unit in ("s", "ms")},
    **{f"time64 {unit}": pa.array([dt.time(1, 2, 3), None], pa.time64(unit)) for unit in ("us", "ns")},
    **{f"timestamp {unit}": pa.array([_MOMENT.replace(microsecond=0), None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "timestamp UTC": pa.array([_MOMENT, None], pa.timestamp("us", "UTC")),
    "timestamp Berlin": pa.array([_MOMENT, None], pa.timestamp("us", "Europe/Berlin")),
    **{f"duration {unit}": pa.array([dt.timedelta(days=1), None], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "decimal32": pa.array([Decimal("1.25"), None], pa.decimal32(7, 2)),
    "decimal64": pa.array([Decimal("1.25"), None], pa.decimal64(12, 2)),
    "decimal128": pa.array([Decimal("1.25"), None], pa.decimal128(38, 2)),
    "decimal128 negative": pa.array([Decimal(1200), None], pa.decimal128(5, -2)),
    "month_day_nano_interval": pa.array([pa.MonthDayNano([1, 2, 3]), None]),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "run_end_encoded": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1, None])),
    "list": pa.array([[1, None], None, []]),
    "large_list": pa.array([[1, None], None, []], pa.large_list(pa.int64())),
    "list_view": pa.array([[1, None], None, []], pa.list_view(pa.int64())),
    "large_list_view": pa.array([[1, None], None, []], pa.large_list_view(pa.int64())),
    "fixed_size_list": pa.array([[1, None], None, [3, 4]], pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "list of views": _nested(pa.array(["a", None, "b"], pa.string_view())),
    "list of dictionaries": _nested(pa.array(["a", None, "b"]).dictionary_encode()),
    "struct of time32": pa.StructArray.from_arrays([pa.array([dt.time(1), None], pa.time32("s"))], ["t"]),
}

REFUSED: dict[str, pa.Array] = {
    "decimal256": pa.array([Decimal("1.25")], pa.decimal256(50, 2)),
    "list of decimal256": pa.array([[Decimal("1.25")]], pa.list_(pa.decimal256(50, 2))),
    "fixed_size_binary 0": pa.array([b""], pa.binary(0)),
}


def values(column: pa.Array) -> list[Any]:
    if pa.types.is_date64(column.type):
        column = column.cast(pa.timestamp("ms"))
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


@pytest.mark.parametrize("name", ARRIVE)
def test_values_arrive(name: str) -> None:
    column = ARRIVE[name]
    rows = pa.table({"id": pa.array(range(len(column))), "x": column})
    with served({"t": pa.concat_tables([rows, rows])}) as server:
        frame = read_lightstream(f"{server.url}/t")
        assert values(frame.to_arrow().column("x")) == values(column) * 2
        kept = frame.where(frame["id"] == 1).to_arrow()
        assert values(kept.column("x")) == values(column.slice(1, 1)) * 2
        assert kept.schema == frame.to_arrow().schema
    with served({"t": rows.slice(0, 0)}) as server:
        assert read_lightstream(f"{server.url}/t").to_arrow().num_rows == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_daft_does_not_take_is_refused_by_name(name: str) -> None:
    rows = pa.table({"fine": [1], "odd column": REFUSED[name]})
    with served({"t": rows}) as server:
        with pytest.raises(core.UnimplementedError, match="odd column"):
            read_lightstream(f"{server.url}/t")
        assert core.connect(server.url).scan("t", columns=["fine"]).num_rows == 1


def test_text_and_bytes_share_their_memory() -> None:
    rows = pa.table({"x": pa.array(["a longer text than twelve bytes"] * 1000, pa.large_string())})
    with served({"t": rows}) as server:
        assert read_lightstream(f"{server.url}/t").to_arrow().column("x").to_pylist() == rows.column("x").to_pylist()


@pytest.mark.parametrize("name", ["a b", "a.b", 'a"b', "a'b", "ä/ö", "SELECT", "A", "%41", "a,b", "_"])
def test_odd_names_of_tables_and_columns(name: str) -> None:
    from urllib.parse import quote

    with served({name: pa.table({name: [1, 2, 3], "other": [4, 5, 6]})}) as server:
        frame = read_lightstream(f"{server.url}/{quote(name, safe='')}")
        assert frame.where(daft.col(name) > 1).select(name).to_pydict() == {name: [2, 3]}
        assert frame.count_rows() == 3


def test_columns_of_one_name_are_refused() -> None:
    rows = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    with served({"t": rows}) as server, pytest.raises(core.InvalidArgumentError, match="'x'"):
        read_lightstream(f"{server.url}/t")
