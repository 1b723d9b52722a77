"""Translation of predicates: what goes, what stays, and that what is not understood stays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import lightstream_core as core
import msgpack
import polars as pl
import pytest
from conftest import served
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.io.plugins import register_io_source
from samples import table

import lightstream_polars._predicate as predicate
from lightstream_polars._predicate import FLOAT_RULE, translate

LOCAL = table(10, seed=1)


@pytest.fixture(scope="module")
def schema() -> Iterator[core.Schema]:
    with served({"t": LOCAL}) as server:
        yield core.connect(server.url).table("t").schema


def typed(expr: pl.Expr) -> pl.Expr:
    """The predicate as Polars hands it to a source, with the types that it has found."""
    seen: list[pl.Expr] = []

    def source(columns, predicate, n_rows, batch_size):
        del columns, n_rows, batch_size
        seen.append(predicate)
        return iter([LOCAL.clear()])

    register_io_source(source, schema=LOCAL.schema).filter(expr).collect()
    [found] = seen
    return found


def sent(expr: pl.Expr, schema: core.Schema) -> list[str]:
    """What goes to the server, with `…` for what stays."""
    translation = translate(typed(expr), LOCAL.schema, schema)
    assert all(each.support(schema, FLOAT_RULE) != "unsupported" for each in translation.conjuncts)
    return [str(each) for each in translation.conjuncts] + ([] if translation.is_whole else ["…"])


x = pl.col

GOES = {
    "i64 > 3": x("i64") > 3,
    "i64 < 3": pl.lit(3) > x("i64"),
    "i8 = 3": x("i8") == 3,
    "i64 > 3 ": x("i64") > 3.5,
    "i64 >= 4": x("i64") >= 3.5,
    "i64 <> i64": x("i64") == 3.5,
    "i64 < 4": x("i64") < 3.5,
    "i64 <= -4": x("i64") <= -3.5,
    "f64 > NaN": x("f64") > float("nan"),
    "f32 > 0.1": x("f32") > 0.1,
    "text = 'it''s'": x("text") == "it's",
    "bytes = X'00ff'": x("bytes") == b"\x00\xff",
    "flag": x("flag"),
    "NOT flag": ~x("flag"),
    "day >= DATE '2024-01-02'": x("day") >= dt.date(2024, 1, 2),
    "us < TIMESTAMP '2024-01-02T03:04:05'": x("us") < dt.datetime(2024, 1, 2, 3, 4, 5),
    "money < 3.1415": x("money") < Decimal("3.1415"),
    "category = 'a'": x("category") == "a",
    "grade = 'a'": x("grade") == "a",
    "i64 IN (1, 2)": x("i64").is_in([1, None, 2]),
    "i64 IS NULL OR i64 IN (1)": x("i64").is_in([1, None], nulls_equal=True),
    "i64 IS NOT NULL AND i64 IN (1)": x("i64").is_in([1], nulls_equal=True),
    "i64 >= 1 AND i64 < 5": x("i64").is_between(1, 5, closed="left"),
    "i64 > 1 AND i64 <= 5": x("i64").is_between(1, 5, closed="right"),
    "i64 IS NULL": x("i64").is_null(),
    "list IS NOT NULL": x("list").is_not_null(),
    "starts_with(text, '%')": x("text").str.starts_with("%"),
    "ends_with(text, 'a')": x("text").str.ends_with("a"),
    "contains(text, 'a.b')": x("text").str.contains("a.b", literal=True),
    "i64 IS NOT DISTINCT FROM 3": x("i64").eq_missing(3),
    "i64 IS DISTINCT FROM i8": x("i64").ne_missing(x("i8")),
    "i64 > 3 OR text = 'x'": (x("i64") > 3) | (x("text") == "x"),
    "f64 * 2.0 > 1.0": x("f64") * 2 > 1,
    "i32 / 2.0 > 0.25": x("i32") / 2 > 0.25,
    "u8 % 2 = 1": x("u8") % 2 == 1,
    "i8 > 3": x("i8").cast(pl.Int64) > 3,
    "is_nan(f64)": x("f64").is_nan(),
    "i32 * 1.0 > f32": x("i32") > x("f32"),
    "f32 * 2.0 > 0.1": x("f32").cast(pl.Float64) * 2 > 0.1,
}

STAYS = {
    "regular expression": x("text").str.contains("a.b"),
    "strict cast": x("i64").cast(pl.Int8) > 3,
    "cast that may lose": x("f64").cast(pl.Int64, strict=False) > 3,
    "function of text": x("text").str.to_lowercase() == "a",
    "part of a date": x("day").dt.year() == 2024,
    "integers that may wrap": x("i64") + 1 > 3,
    "integers rounded down": x("i64") // 2 > 3,
    "sign of a remainder": x("i64") % 2 == 1,
    "floats that integers round to": x("i64") > 1e17,
    "order of an enum": x("grade") < "a",
    "look-up in a column": x("i64").is_in(x("list")),
    "other values for nulls": x("i64").fill_null(0) > 3,
    "half of an OR": (x("i64") > 3) | x("text").str.contains("a.b"),
    "what stays under NOT": ~x("text").str.contains("a.b"),
}


@pytest.mark.parametrize("expected", GOES)
def test_what_goes(schema: core.Schema, expected: str) -> None:
    assert sent(GOES[expected], schema) == [expected.strip()]


@pytest.mark.parametrize("name", STAYS)
@pytest.mark.filterwarnings("ignore")
def test_what_stays(schema: core.Schema, name: str) -> None:
    assert sent(STAYS[name], schema) == ["…"]


@pytest.mark.filterwarnings("ignore")
def test_python_functions_stay(schema: core.Schema) -> None:
    function = x("i64").map_elements(lambda value: value > 3, return_dtype=pl.Boolean)
    assert sent(function & (x("i8") > 3), schema) in (["i8 > 3", "…"], ["…"])


def test_each_conjunct_goes_or_stays_by_itself(schema: core.Schema) -> None:
    stays = x("text").str.contains("a.b")
    found = sent((x("i64") > 3) & stays & (x("flag") | x("i8").is_null()), schema)
    assert sorted(found) == ["flag OR i8 IS NULL", "i64 > 3", "…"]


def test_a_null_in_a_list_is_no_value(schema: core.Schema) -> None:
    assert sent(~x("i64").is_in([1, None]), schema) == ["NOT i64 IN (1)"]


def test_columns_of_odd_names_are_quoted() -> None:
    names = ['a "b"', "a.b", "it's", "Ü x", "select"]
    local = pl.DataFrame({name: ["a", "b"] for name in names}, schema={name: pl.Categorical for name in names})
    with served({"t": local}) as server:
        schema = core.connect(server.url).table("t").schema
        for name in names:
            found = translate(pl.col(name) == pl.lit("a"), local.schema, schema)
            assert found.is_whole
            assert [each.columns() for each in found.conjuncts] == [{name}]


class Serialized:
    """Stands for an expression of which only the serialized form matters."""

    def __init__(self, form: object) -> None:
        self._form = form

    @property
    def meta(self) -> Serialized:
        return self

    def serialize(self) -> bytes:
        return msgpack.packb(self._form)


forms = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(), st.text(max_size=5), st.binary(max_size=20)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["Column", "Literal", "Scalar", "Series", "Int64", "String", "List", "Datetime", "Decimal", "Enum"]
                + ["Null", "Cast", "expr", "dtype", "options", "Function", "input", "function", "Boolean", "IsIn"]
                + ["IsBetween", "Not", "IsNull", "StringExpr", "Contains", "StartsWith", "BinaryExpr", "left", "op"]
                + ["right", "Ternary", "predicate", "truthy", "falsy", "Alias", "StructExpr", "FieldByName"]
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=20,
)


@settings(max_examples=500, deadline=None)
@given(form=forms)
def test_forms_that_are_not_known_stay(form: object) -> None:
    with_nothing = translate(Serialized(form), LOCAL.schema, _SCHEMA)  # type: ignore[arg-type]
    assert all(each.support(_SCHEMA, FLOAT_RULE) != "unsupported" for each in with_nothing.conjuncts)


@pytest.mark.parametrize("garbage", [b"", b"\xc1", b"\x81", b"not msgpack at all", b"\xff" * 100])
def test_bytes_that_are_not_a_form_stay(garbage: bytes) -> None:
    class Garbage(Serialized):
        def serialize(self) -> bytes:
            return garbage

    assert translate(Garbage(None), LOCAL.schema, _SCHEMA) == predicate.Translation()  # type: ignore[arg-type]


def test_a_known_form_with_something_new_in_it_stays(schema: core.Schema) -> None:
    form = msgpack.unpackb((typed(x("i64").is_between(1, 5))).meta.serialize())
    form["Function"]["function"]["Boolean"]["IsBetween"]["closed"] = "Sideways"
    assert not translate(Serialized(form), LOCAL.schema, schema).conjuncts  # type: ignore[arg-type]
    form["Function"]["function"]["Boolean"] = {"IsApproximately": {"closed": "Both"}}
    assert not translate(Serialized(form), LOCAL.schema, schema).conjuncts  # type: ignore[arg-type]


def test_chains_longer_than_the_stack_are_no_fault(schema: core.Schema) -> None:
    long_and = pl.all_horizontal([x("i64") != each for each in range(300)])
    long_or = x("i64") == 0
    for each in range(1, 300):
        long_or = long_or | (x("i64") == each)
    assert len(translate(typed(long_and), LOCAL.schema, schema).conjuncts) in (0, 300)
    translate(typed(long_or), LOCAL.schema, schema)


with served({"t": LOCAL}) as _server:
    _SCHEMA = core.connect(_server.url).table("t").schema
