"""Random queries give the same on a remote table as on the same rows here, on both engines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import lightstream_core as core
import polars as pl
import pytest
from conftest import PAD, padded, served
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from samples import NUMBERS, VALUES, predicates, table

from lightstream_polars import scan_lightstream

pytestmark = pytest.mark.filterwarnings("ignore")

Query = Callable[[pl.LazyFrame], pl.LazyFrame]

_HEIGHTS = [0, 1, 60, 400]
_TABLES = {f"t{height}": table(height, seed=height) for height in _HEIGHTS}

# More than the default only where somebody looks for faults.
_EXAMPLES = int(os.environ.get("LIGHTSTREAM_TEST_EXAMPLES", "100"))

_examples = settings(
    max_examples=_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({name: padded(rows) for name, rows in _TABLES.items()}) as server:
        yield server


def compare(server: core.Server, name: str, query: Query, engine: str, *, is_ordered: bool = True) -> None:
    """Both answers, or both refusals."""
    local, remote = _TABLES[name].lazy(), scan_lightstream(f"{server.url}/{name}").drop(PAD)
    try:
        expected = query(local).collect(engine=engine)
    except pl.exceptions.PanicException:  # A fault of Polars itself is no answer to compare with.
        reject()
    except Exception as refusal:
        with pytest.raises(type(refusal)):
            query(remote).collect(engine=engine)
        return
    assert_frame_equal(query(remote).collect(engine=engine), expected, check_row_order=is_ordered, check_exact=True)


tables = st.sampled_from(list(_TABLES))
some_columns = st.lists(st.sampled_from(["id", *VALUES]), min_size=1, max_size=5, unique=True)
counts = st.sampled_from([0, 1, 3, 57, 58, 120, 500])


@_examples
@given(table=tables, conditions=st.lists(predicates, min_size=1, max_size=3), columns=some_columns)
def test_filters(server: core.Server, engine: str, table: str, conditions: list[pl.Expr], columns: list[str]) -> None:
    compare(server, table, lambda frame: frame.filter(*conditions).select(columns), engine)


@_examples
@given(table=tables, condition=predicates)
def test_lengths_of_what_passes(server: core.Server, engine: str, table: str, condition: pl.Expr) -> None:
    compare(server, table, lambda frame: frame.filter(condition).select(pl.len()), engine)


_slices = st.one_of(
    counts.map(lambda count: lambda frame: frame.head(count)),
    counts.map(lambda count: lambda frame: frame.tail(count)),
    st.builds(
        lambda at, count: lambda frame: frame.slice(at, count), st.sampled_from([0, 1, 57, 130, -1, -58, -130]), counts
    ),
)
_orderly = st.one_of(
    _slices,
    predicates.map(lambda condition: lambda frame: frame.filter(condition)),
    st.just(lambda frame: frame.with_row_index("row").drop("row")),
    st.just(lambda frame: frame.with_columns((pl.col("i8").cast(pl.Int64) * 2).alias("twice")).drop("twice")),
    st.sampled_from(["i64", "text", "us", "id"]).map(lambda by: lambda frame: frame.sort(by, "id", nulls_last=True)),
    st.just(lambda frame: frame.reverse()),
)


@_examples
@given(table=tables, steps=st.lists(_orderly, min_size=1, max_size=4), columns=some_columns)
def test_chains_of_operations(
    server: core.Server, engine: str, table: str, steps: list[Query], columns: list[str]
) -> None:
    def query(frame: pl.LazyFrame) -> pl.LazyFrame:
        for step in steps:
            frame = step(frame)
        return frame.select(columns)

    compare(server, table, query, engine)


@_examples
@given(
    table=tables,
    condition=predicates,
    key=st.sampled_from(["flag", "text", "i8", "category", "day"]),
    number=st.sampled_from(NUMBERS),
)
def test_groups(server: core.Server, engine: str, table: str, condition: pl.Expr, key: str, number: str) -> None:
    def query(frame: pl.LazyFrame) -> pl.LazyFrame:
        groups = frame.filter(condition).group_by(key, maintain_order=True)
        return groups.agg(pl.len(), pl.col(number).min().alias("least"), pl.col("id").max().alias("last"))

    compare(server, table, query, engine)


@_examples
@given(
    table=tables,
    other=tables,
    how=st.sampled_from(["inner", "left", "semi", "anti", "full"]),
    conditions=st.tuples(predicates, predicates),
    key=st.sampled_from(["id", "text", "i8", "day"]),
)
def test_joins_also_of_a_table_with_itself(
    server: core.Server, engine: str, table: str, other: str, how: str, conditions: tuple[pl.Expr, pl.Expr], key: str
) -> None:
    def joined(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
        kept = right.filter(conditions[1]).select(key, pl.col("id").alias("other"), "i64").head(40)
        return (
            left.filter(conditions[0])
            .select(pl.col("id").alias("one"), key, "text" if key != "text" else "i8")
            .join(kept, on=key, how=how)
        )

    local = joined(_TABLES[table].lazy(), _TABLES[other].lazy())
    remote = joined(
        scan_lightstream(f"{server.url}/{table}").drop(PAD), scan_lightstream(f"{server.url}/{other}").drop(PAD)
    )
    try:
        expected = local.collect(engine=engine)
    except Exception as refusal:
        with pytest.raises(type(refusal)):
            remote.collect(engine=engine)
        return
    assert_frame_equal(remote.collect(engine=engine), expected, check_row_order=False, check_exact=True)
