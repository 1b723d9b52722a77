"""Random queries give the same on a remote table as on the same rows here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import daft
import lightstream_core as core
import pytest
from conftest import PAD, padded
from daft import DataFrame, Expression, col
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from samples import INTEGERS, VALUES, plain, predicates, table
from serving import served

from lightstream_daft import read_lightstream

pytestmark = pytest.mark.filterwarnings("ignore")

Query = Callable[[DataFrame], DataFrame]

_HEIGHTS = [0, 1, 60, 400]
_ROWS = {f"t{height}": table(height, seed=height) for height in _HEIGHTS}
_LOCAL = {name: daft.from_arrow(plain(rows)) for name, rows in _ROWS.items()}

# More than the default only where somebody looks for faults.
_EXAMPLES = int(os.environ.get("LIGHTSTREAM_TEST_EXAMPLES", "60"))

_examples = settings(
    max_examples=_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def remote() -> Iterator[dict[str, DataFrame]]:
    with served({name: padded(rows) for name, rows in _ROWS.items()}) as server:
        yield {name: read_lightstream(f"{server.url}/{name}").exclude(PAD) for name in _ROWS}


def rows_of(frame: DataFrame) -> tuple[str, list[str]]:
    """The schema and the rows, as text: NaN is not equal to itself, and tells its sign."""
    arrow = frame.to_arrow()
    return str(arrow.schema), [repr(row) for row in arrow.to_pylist()]


def compare(local: DataFrame, remote: DataFrame, *, is_ordered: bool = True) -> None:
    """Both answers, or both refusals."""
    try:
        expected: Any = rows_of(local)
    except BaseException as refusal:
        if "panicked" in str(refusal):  # A fault of Daft itself is no answer to compare with.
            reject()
        with pytest.raises(type(refusal)):
            rows_of(remote)
        return
    found = rows_of(remote)
    if not is_ordered:
        expected, found = (expected[0], sorted(expected[1])), (found[0], sorted(found[1]))
    assert found == expected


def asked(query: Query, local: DataFrame, remote: DataFrame, *, is_ordered: bool = True) -> None:
    """The same query of both, where it can be made at all."""
    try:
        expected = query(local)
    except Exception as refusal:
        with pytest.raises(type(refusal)):
            query(remote)
        return
    compare(expected, query(remote), is_ordered=is_ordered)


tables = st.sampled_from(list(_ROWS))
some_columns = st.lists(st.sampled_from(["id", *VALUES]), min_size=1, max_size=5, unique=True)
counts = st.sampled_from([0, 1, 3, 57, 58, 120, 500])


@_examples
@given(name=tables, conditions=st.lists(predicates, min_size=1, max_size=3), columns=some_columns)
def test_filters(remote: dict[str, DataFrame], name: str, conditions: list[Expression], columns: list[str]) -> None:
    def query(frame: DataFrame) -> DataFrame:
        for condition in conditions:
            frame = frame.where(condition)
        return frame.select(*columns)

    asked(query, _LOCAL[name], remote[name])


@_examples
@given(name=tables, condition=predicates)
def test_counts_of_what_passes(remote: dict[str, DataFrame], name: str, condition: Expression) -> None:
    asked(lambda frame: frame.where(condition).count(), _LOCAL[name], remote[name])


# Where rows are put in order later, or counted, Daft takes the first that come.
_slices: st.SearchStrategy[Query] = st.one_of(
    st.just(lambda frame: frame),
    counts.map(lambda count: lambda frame: frame.limit(count)),
    counts.map(lambda count: lambda frame: frame.offset(count).limit(100)),
)
_steps: st.SearchStrategy[Query] = st.one_of(
    predicates.map(lambda condition: lambda frame: frame.where(condition)),
    st.just(lambda frame: frame.with_column("twice", col("id") * 2).exclude("twice")),
    st.sampled_from(["i64", "text", "us"]).map(lambda by: lambda frame: frame.sort([by, "id"])),
)


@_examples
@given(name=tables, steps=st.lists(_steps, max_size=3), last=_slices, columns=some_columns)
def test_chains_of_operations(
    remote: dict[str, DataFrame], name: str, steps: list[Query], last: Query, columns: list[str]
) -> None:
    def query(frame: DataFrame) -> DataFrame:
        for step in steps:
            frame = step(frame)
        return last(frame.select(*columns))

    asked(query, _LOCAL[name], remote[name])


@_examples
@given(
    name=tables,
    condition=predicates,
    key=st.sampled_from(["flag", "text", "i8", "coded", "day"]),
    # The least of floats with NaN depends in Daft on how rows are cut.
    number=st.sampled_from(INTEGERS),
)
def test_groups(remote: dict[str, DataFrame], name: str, condition: Expression, key: str, number: str) -> None:
    def query(frame: DataFrame) -> DataFrame:
        groups = frame.where(condition).groupby(key)
        return groups.agg(col("id").count().alias("rows"), col(number).min().alias("least"), col("id").max().alias("last"))

    asked(query, _LOCAL[name], remote[name], is_ordered=False)


@_examples
@given(
    name=tables,
    other=tables,
    how=st.sampled_from(["inner", "left", "semi", "anti", "outer"]),
    conditions=st.tuples(predicates, predicates),
    key=st.sampled_from(["id", "text", "i8", "day"]),
)
def test_joins_also_of_a_table_with_itself(
    remote: dict[str, DataFrame], name: str, other: str, how: Any, conditions: tuple[Expression, Expression], key: str
) -> None:
    def query(left: DataFrame, right: DataFrame) -> DataFrame:
        kept = right.where(conditions[1]).select(key, col("id").alias("other"), col("i64").alias("more"))
        return left.where(conditions[0]).select(col("id").alias("one"), key).join(kept, on=key, how=how)

    try:
        expected = query(_LOCAL[name], _LOCAL[other])
    except Exception as refusal:
        with pytest.raises(type(refusal)):
            query(remote[name], remote[other])
        return
    compare(expected, query(remote[name], remote[other]), is_ordered=False)


def test_the_order_of_partitions_is_kept(remote: dict[str, DataFrame]) -> None:
    assert remote["t400"].select("id").to_pydict()["id"] == list(range(400))


def test_frames_are_answered_again_and_again(remote: dict[str, DataFrame]) -> None:
    assert core.__name__
    for _ in range(3):
        assert remote["t400"].count_rows() == 400
