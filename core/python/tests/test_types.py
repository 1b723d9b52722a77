"""Rules for types: every value stays what it is, at any depth."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lightstream_core as ls

POLARS = {
    "utf8": "utf8_view",
    "large_utf8": "utf8_view",
    "binary": "binary_view",
    "large_binary": "binary_view",
    "fixed_size_binary": "binary_view",
    "run_end_encoded": "values",
    "list": "large_list",
    "list_view": "large_list",
    "large_list_view": "large_list",
    "map": "large_list",
    "decimal32": "decimal128",
    "decimal64": "decimal128",
    "time32": "time64",
    "date64": "timestamp",
}
DAFT = {
    "utf8_view": "large_utf8",
    "utf8": "large_utf8",
    "binary_view": "large_binary",
    "dictionary": "values",
    "run_end_encoded": "values",
    "list": "large_list",
    "list_view": "large_list",
    "large_list_view": "large_list",
    "decimal32": "decimal128",
    "decimal64": "decimal128",
    "time32": "time64",
    "float16": "float32",
}


def convert(table: pa.Table, types: dict[str, str]) -> pa.Table:
    with ls.serve({"t": table}) as server:
        scan = ls.connect(server.url + "/t").scan(types=types, ordered=True)
        read = pa.table(scan)
    assert read.schema == pa.schema(scan.schema)
    read.validate(full=True)
    return read


def arrays(size: int) -> st.SearchStrategy[pa.Array]:
    """Arrays of many types, nested too, whole and sliced."""

    def of(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
        return st.lists(st.none() | values, min_size=size, max_size=size).map(lambda values: pa.array(values, kind))

    text, data = st.text(max_size=20), st.binary(max_size=20)
    number = st.integers(-(2**31), 2**31 - 1)
    decimals = st.integers(-9999, 9999).map(lambda n: decimal.Decimal(n).scaleb(-2))
    times = st.integers(0, 86399).map(lambda s: (datetime.datetime.min + datetime.timedelta(seconds=s)).time())
    dates = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
    flat = st.one_of(
        *(of(text, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
        *(of(data, kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        of(st.binary(min_size=3, max_size=3), pa.binary(3)),
        of(number, pa.int32()),
        *(of(decimals, kind(6, 2)) for kind in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)),
        *(of(times, kind) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("ns"))),
        *(of(dates, kind) for kind in (pa.date32(), pa.date64())),
        of(st.floats(width=16, allow_nan=False), pa.float16()),
        of(text, pa.string()).map(lambda array: array.dictionary_encode()),
        of(text, pa.string_view()).map(lambda array: array.cast(pa.string()).dictionary_encode()),
        of(st.sampled_from([1, 2]), pa.int64()).map(lambda array: pa.compute.run_end_encode(array)),
        of(st.sampled_from(["a", "b"]), pa.string()).map(lambda array: pa.compute.run_end_encode(array)),
    )
    lists = st.lists(text, max_size=4)
    nested = st.one_of(
        *(
            of(lists, kind(pa.string()))
            for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
        ),
        of(st.lists(decimals, min_size=2, max_size=2), pa.list_(pa.decimal32(6, 2), 2)),
        of(st.dictionaries(text, lists, max_size=3).map(lambda d: list(d.items())), pa.map_(pa.string(), pa.list_(pa.string()))),
        of(
            st.fixed_dictionaries({"t": times, "l": lists}),
            pa.struct({"t": pa.time32("s"), "l": pa.list_view(pa.large_string())}),
        ),
        of(st.lists(st.lists(text, max_size=2), max_size=2), pa.list_(pa.list_view(pa.string()))),
    )
    return st.one_of(flat, nested)


def tables() -> st.SearchStrategy[pa.Table]:
    def sliced(columns: list[pa.Array], start: int) -> pa.Table:
        return pa.table({f"c{index}": column for index, column in enumerate(columns)}).slice(start)

    return st.integers(0, 12).flatmap(
        lambda size: st.builds(sliced, st.lists(arrays(size), min_size=1, max_size=4), st.integers(0, size))
    )


def plain(value: Any) -> Any:
    """A value without the differences that types make: midnight of a day is that day."""
    if isinstance(value, dict):
        items = {key: plain(inner) for key, inner in value.items()}
        return tuple(items.values()) if set(items) in ({"key", "value"}, {"keys", "values"}) else items
    if isinstance(value, (list, tuple)):
        inner = [plain(item) for item in value]
        return tuple(inner) if isinstance(value, tuple) else inner
    if isinstance(value, datetime.datetime):
        assert value.time() == datetime.time()
        return value.date()
    return value


def kinds(kind: pa.DataType) -> set[str]:
    """The kinds of a type and of all within it."""
    found = {str(kind).split("<")[0].split("[")[0].split("(")[0]}
    if isinstance(kind, pa.DictionaryType):
        return found | kinds(kind.value_type)
    if isinstance(kind, pa.RunEndEncodedType):
        return found | kinds(kind.value_type)
    for index in range(kind.num_fields):
        found |= kinds(kind.field(index).type)
    return found


@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from([POLARS, DAFT]))
def test_values_stay_what_they_are(table: pa.Table, types: dict[str, str]) -> None:
    read = convert(table, types)
    for before, after in zip(table.columns, read.columns, strict=True):
        assert plain(after.to_pylist()) == plain(before.to_pylist())
    unwanted = {"run_end_encoded", "list_view", "large_list_view", "decimal32", "decimal64", "time32"}
    unwanted |= {"string"} if types is POLARS else {"dictionary", "string_view", "halffloat"}
    assert not unwanted & set().union(*(kinds(field.type) for field in read.schema))


def test_what_no_rule_names_stays_as_it_is() -> None:
    table = pa.table({"s": ["a", None], "d": pa.array(["x", "y"]).dictionary_encode()})
    assert convert(table, {}) == table
    assert convert(table, {"decimal32": "decimal128", "utf8": "utf8"}) == table


def test_views_point_into_the_bytes_that_came() -> None:
    text = pa.table({"s": ["long enough not to be inlined"] * 1000})
    array = convert(text, {"utf8": "utf8_view"})["s"].chunk(0)
    assert array.type == pa.string_view()
    assert len(array.buffers()) == 3  # validity, views, and one buffer of bytes


@pytest.mark.parametrize(
    ("column", "kind", "path"),
    [
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "interval", '"c"'),
        (pa.array([[(1, 2, 3)]], pa.list_(pa.month_day_nano_interval())), "interval", '"c.item"'),
        (pa.array([{"x": 1}], pa.struct({"x": pa.decimal256(50, 2)})), "decimal256", '"c.x"'),
        (pa.array([1200], pa.decimal128(5, -2)), "decimal_negative_scale", '"c"'),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "union", '"c"'),
    ],
)
def test_a_refused_type_names_column_and_type(column: pa.Array, kind: str, path: str) -> None:
    with ls.serve({"t": pa.table({"c": column, "n": [1]})}) as server:
        client = ls.connect(server.url + "/t")
        with pytest.raises(ls.UnimplementedError) as raised:
            client.scan(types={kind: "refuse"})
        assert path in str(raised.value) and kind in str(raised.value)
        assert raised.value.code == "unimplemented"
        assert pa.table(client.scan(types={kind: "refuse"}, columns=["n"])).num_rows == 1


def test_decimals_of_negative_scale_get_all_their_digits() -> None:
    table = pa.table({"d": pa.array([decimal.Decimal(1200), None], pa.decimal128(5, -2))})
    read = convert(table, {"decimal_negative_scale": "decimal128"})
    assert read.schema == pa.schema({"d": pa.decimal128(7, 0)})
    assert read["d"].to_pylist() == [decimal.Decimal(1200), None]


@pytest.mark.parametrize(
    "types",
    [
        {"nothing": "utf8"},
        {"utf8": "binary"},
        {"int64": "int32"},
        {"decimal128": "decimal64"},
        {"float64": "float32"},
        {"time64": "time32"},
        {"union": "values"},
        {"timestamp": "date32"},
    ],
)
def test_rules_that_could_lose_a_value_are_refused(types: dict[str, str]) -> None:
    with ls.serve({"t": pa.table({"n": [1]})}) as server:
        with pytest.raises(ls.InvalidArgumentError):
            ls.connect(server.url + "/t").scan(types=types)


def test_every_widening_of_flat_types() -> None:
    table = pa.table(
        {
            "i8": pa.array([-128, 127], pa.int8()),
            "u32": pa.array([0, 2**32 - 1], pa.uint32()),
            "f16": pa.array([1.5, None], pa.float16()),
            "d": pa.array([1, -5], pa.duration("s")),
            "d32": pa.array([datetime.date(2024, 2, 29), None], pa.date32()),
            "fsl": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        }
    )
    rules = {
        "int8": "int64",
        "uint32": "int64",
        "float16": "float64",
        "duration": "int64",
        "date32": "timestamp",
        "fixed_size_list": "list",
    }
    read = convert(table, rules)
    assert [str(field.type) for field in read.schema] == [
        "int64", "int64", "double", "int64", "timestamp[ms]", "list<item: int64>",
    ]  # fmt: skip
    assert read["u32"].to_pylist() == [0, 2**32 - 1]
    assert read["d"].to_pylist() == [1, -5]
    assert read["fsl"].to_pylist() == [[1, 2], None]
    assert read["d32"].to_pylist() == [datetime.datetime(2024, 2, 29), None]
