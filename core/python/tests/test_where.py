"""Conditions, against pyarrow on the same rows."""

from __future__ import annotations

import math
from typing import Any, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lightstream_core as ls

FLOATS = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan, None]
TABLE = pa.table(
    {
        "i": pa.array([(n * 7919) % 101 - 50 if n % 13 else None for n in range(2000)], pa.int32()),
        "j": pa.array([n % 17 for n in range(2000)], pa.int64()),
        "f": pa.array([FLOATS[n % len(FLOATS)] for n in range(2000)], pa.float64()),
        "s": [None if n % 19 == 0 else "ab" * (n % 4) + "c" * (n % 3) for n in range(2000)],
        "b": [None if n % 23 == 0 else n % 2 == 0 for n in range(2000)],
    }
)

COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

Pair = tuple[ls.Expr, pc.Expression]


@pytest.fixture(scope="module")
def client() -> Iterator[ls.Client]:
    with ls.serve({"t": TABLE}) as server:
        yield ls.connect(server.url + "/t")


def literal(value: Any, kind: pa.DataType) -> ls.Expr:
    return ls.Expr.literal(pa.array([value], kind))


def comparisons() -> st.SearchStrategy[Pair]:
    constants = {
        "i": (st.integers(-60, 60), pa.int32()),
        "j": (st.integers(-1, 18), pa.int64()),
        "f": (st.sampled_from([value for value in FLOATS if value is not None]), pa.float64()),
        "s": (st.sampled_from(["", "c", "ab", "abcc", "ababab"]), pa.string()),
    }

    def pair(name: str, op: str, value: Any) -> Pair:
        kind = constants[name][1]
        ours = ls.Expr.compare(op, ls.Expr.column(name), literal(value, kind))  # type: ignore[arg-type]
        return ours, COMPARE[op](pc.field(name), pa.scalar(value, kind))

    return st.sampled_from(list(constants)).flatmap(
        lambda name: st.builds(pair, st.just(name), st.sampled_from(list(COMPARE)), constants[name][0])
    )


def leaves() -> st.SearchStrategy[Pair]:
    names = st.sampled_from(TABLE.column_names)
    values = st.lists(st.integers(-60, 60), max_size=5)
    return st.one_of(
        comparisons(),
        names.map(lambda name: (ls.Expr.is_null(ls.Expr.column(name)), pc.field(name).is_null())),
        names.map(lambda name: (ls.Expr.is_not_null(ls.Expr.column(name)), pc.field(name).is_valid())),
        st.just((ls.Expr.column("b"), pc.field("b"))),
        st.just((ls.Expr.is_nan(ls.Expr.column("f")), pc.is_nan(pc.field("f")))),
        st.tuples(st.integers(-60, 60), st.integers(-60, 60)).map(
            lambda ends: (
                ls.Expr.between(ls.Expr.column("i"), literal(ends[0], pa.int32()), literal(ends[1], pa.int32())),
                (pc.field("i") >= pa.scalar(ends[0], pa.int32())) & (pc.field("i") <= pa.scalar(ends[1], pa.int32())),
            )
        ),
        values.map(
            lambda values: (
                ls.Expr.and_(
                    [
                        ls.Expr.is_in(ls.Expr.column("i"), pa.array(values, pa.int32())),
                        ls.Expr.is_not_null(ls.Expr.column("i")),
                    ]
                ),
                pc.field("i").isin(pa.array(values, pa.int32())),
            )
        ),
        st.sampled_from(["ab", "c", ""]).map(
            lambda text: (
                ls.Expr.starts_with(ls.Expr.column("s"), literal(text, pa.string())),
                pc.starts_with(pc.field("s"), text),
            )
        ),
        st.sampled_from(["%b%", "ab_%", "%c", "_"]).map(
            lambda pattern: (
                ls.Expr.like(ls.Expr.column("s"), literal(pattern, pa.string())),
                pc.match_like(pc.field("s"), pattern),
            )
        ),
    )


def conditions() -> st.SearchStrategy[Pair]:
    def join(pairs: list[Pair], every: bool) -> Pair:
        ours = [pair[0] for pair in pairs]
        theirs = pairs[0][1]
        for _, other in pairs[1:]:
            theirs = theirs & other if every else theirs | other
        return (ls.Expr.and_(ours) if every else ls.Expr.or_(ours)), theirs

    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds(join, st.lists(inner, min_size=1, max_size=3), st.booleans()),
            inner.map(lambda pair: (ls.Expr.not_(pair[0]), ~pair[1])),
        ),
        max_leaves=6,
    )


@settings(max_examples=250, deadline=None)
@given(conditions())
def test_conditions_keep_the_rows_that_pyarrow_keeps(client: ls.Client, pair: Pair) -> None:
    ours, theirs = pair
    scan = client.scan(where=ours, float_rule="ieee", ordered=True, columns=["i", "j", "s", "b"])
    expected = TABLE.filter(theirs).select(["i", "j", "s", "b"]).combine_chunks()
    assert pa.table(scan).combine_chunks() == expected, str(ours)


@settings(max_examples=60, deadline=None)
@given(st.lists(conditions(), max_size=4))
def test_each_condition_of_a_sequence_is_a_conjunct(client: ls.Client, pairs: list[Pair]) -> None:
    scan = client.scan(where=[ours for ours, _ in pairs], float_rule="ieee", columns=["j"], ordered=True)
    assert len(scan.filters) == len(pairs)
    expected = TABLE
    for _, theirs in pairs:
        expected = expected.filter(theirs)
    assert pa.table(scan)["j"].to_pylist() == expected["j"].to_pylist()


@pytest.mark.parametrize(
    ("rule", "greater", "zeros"),
    [("total_order", 1, 1), ("total_order_zero_equal", 1, 2), ("nan_largest", 1, 2), ("ieee", 0, 2)],
)
def test_float_rules(client: ls.Client, rule: Any, greater: int, zeros: int) -> None:
    where = ls.Expr.compare(">", ls.Expr.column("f"), literal(math.inf, pa.float64()))
    assert pa.table(client.scan(where=where, float_rule=rule, columns=["f"])).num_rows == 250 * greater
    where = ls.Expr.compare("=", ls.Expr.column("f"), literal(0.0, pa.float64()))
    assert pa.table(client.scan(where=where, float_rule=rule, columns=["f"])).num_rows == 250 * zeros


def test_expressions_say_what_they_are() -> None:
    schema = pa.schema({"a": pa.int64(), "s": pa.struct({"x": pa.string()})})
    column, four = ls.Expr.column("a"), literal(4, pa.int64())
    assert str(ls.Expr.compare("is distinct from", column, four)) == "a IS DISTINCT FROM 4"
    assert repr(ls.Expr.not_(ls.Expr.is_in(column, pa.array([1, 2]), negated=True))) == "Expr(NOT a NOT IN (1, 2))"
    assert str(ls.Expr.arithmetic("%", column, four)) == "a % 4"
    assert str(ls.Expr.cast(column, pa.field("", pa.float32()))) == "CAST(a AS Float32)"
    assert str(ls.Expr.like(column, literal("x%", pa.string()), True, True)) == "a NOT ILIKE 'x%'"
    assert ls.Expr.compare("=", column, four) == ls.Expr.compare("=", column, literal(4, pa.int64()))
    assert ls.Expr.compare("=", column, four) != ls.Expr.compare("=", column, literal(4, pa.int32()))
    nested = ls.Expr.or_([ls.Expr.is_null(ls.Expr.column("s", "x")), ls.Expr.compare("<", column, four)])
    assert nested.columns() == {"a", "s"}
    parsed = ls.Expr.parse("a < 4 AND (a > 1 OR s.x = 'y')", schema)
    assert [str(conjunct) for conjunct in parsed] == ["a < 4", "a > 1 OR s.x = 'y'"]
    assert parsed[0].support(schema) == "exact"
    assert ls.Expr.column("nowhere").support(schema, "ieee") == "unsupported"
    chunked = pa.chunked_array([[1], [2, 3]])
    assert str(ls.Expr.is_in(column, chunked)) == "a IN (1, 2, 3)"
    for wrong in (pa.array([1, 2]), chunked, pa.array([], pa.int64())):
        with pytest.raises(ls.InvalidArgumentError):
            ls.Expr.literal(wrong)
    with pytest.raises(ls.InvalidArgumentError, match="IS NOT DISTINCT FROM"):
        ls.Expr.compare("==", column, four)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ls.Expr.literal(4)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ls.Expr.parse("a < 4", pa.int64())


def test_sql_and_expressions_agree(client: ls.Client) -> None:
    text = "i > 3 AND s LIKE '%c' OR b"
    parsed = ls.Expr.parse(text, client.table())
    by_text = pa.table(client.scan(where=text, ordered=True, columns=["j"]))
    assert pa.table(client.scan(where=parsed, ordered=True, columns=["j"])) == by_text
    assert by_text.num_rows > 0
