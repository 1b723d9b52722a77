"""Scans from end to end: what comes back, what travels, and what is said of it."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from urllib.parse import quote

import lightstream_core as core
import polars as pl
import pyarrow as pa
import pytest
from conftest import HAS_RESOLVERS, PAD, needs_resolvers, padded, served, traffic
from polars.testing import assert_frame_equal

import lightstream_polars
from lightstream_polars import read_lightstream, scan_lightstream

ROWS = 640
LOCAL = pl.DataFrame(
    {
        "id": pl.Series(range(ROWS)),
        "name": [f"name {i % 10}" for i in range(ROWS)],
        "value": [i * 0.5 for i in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({"t": padded(LOCAL), "small": LOCAL.head(7), "empty": LOCAL.clear()}) as server:
        yield server


@pytest.fixture
def remote(server: core.Server) -> pl.LazyFrame:
    return scan_lightstream(f"{server.url}/t").drop(PAD)


def test_the_signature_is_the_documented_one() -> None:
    assert sorted(lightstream_polars.__all__) == ["read_lightstream", "scan_lightstream"]
    parameters = inspect.signature(scan_lightstream).parameters
    assert list(parameters) == ["url", "storage_options", "credential_provider", "n_rows", "snapshot"]
    assert all(each.kind is each.KEYWORD_ONLY for name, each in parameters.items() if name != "url")
    assert parameters["credential_provider"].default == "auto"


QUERIES = {
    "all": lambda frame: frame,
    "one column": lambda frame: frame.select("value"),
    "columns in another order": lambda frame: frame.select("value", "id"),
    "no column": lambda frame: frame.select([]),
    "only columns dropped": lambda frame: frame.drop("id", "name", "value").with_row_index(),
    "length": lambda frame: frame.select(pl.len()),
    "length of what passes": lambda frame: frame.filter(pl.col("name") == "name 3").select(pl.len()),
    "filter": lambda frame: frame.filter(pl.col("id") > 100, pl.col("name") == "name 3"),
    "filter on what is not selected": lambda frame: frame.filter(pl.col("name") == "name 3").select("value"),
    "filter that stays": lambda frame: frame.filter(pl.col("name").str.contains("^name [34]$")).select("id"),
    "filters of both kinds": lambda frame: frame.filter(
        pl.col("name").str.contains("^name [34]$"), pl.col("id") > 100, pl.col("value").cast(pl.Int32) % 2 == 0
    ).select("value"),
    "head": lambda frame: frame.head(100),
    "filter after head": lambda frame: frame.head(100).filter(pl.col("name") == "name 3"),
    "head after filter": lambda frame: frame.filter(pl.col("name") == "name 3").head(20),
    "tail": lambda frame: frame.tail(100),
    "tail after filter": lambda frame: frame.filter(pl.col("name") == "name 3").tail(20),
    "slice": lambda frame: frame.slice(130, 70),
    "slice from the end": lambda frame: frame.slice(-130, 70),
    "slice beyond the end": lambda frame: frame.slice(600, 100),
    "slice behind the end": lambda frame: frame.slice(ROWS + 5, 10),
    "slice of no column": lambda frame: frame.slice(130, 70).select(pl.len()),
    "row index": lambda frame: frame.with_row_index().filter(pl.col("id") % 100 == 3),
    "sort": lambda frame: frame.sort("value", descending=True).head(5),
    "group": lambda frame: frame.group_by("name", maintain_order=True).agg(pl.col("value").sum(), pl.len()),
    "join with itself": lambda frame: frame.join(frame.filter(pl.col("id") < 10), on="id", maintain_order="left"),
    "nothing passes": lambda frame: frame.filter(pl.col("id") < 0),
    "a constant false": lambda frame: frame.filter(pl.lit(False)),
    "a constant false above a slice": lambda frame: frame.head(100).filter(pl.col("id").is_in([])).select("value"),
    "a constant false above all columns": lambda frame: frame.head(100).filter(pl.col("id").is_in([])),
    "a constant false above a row index": lambda frame: frame.with_row_index().filter(pl.lit(False)).select("name"),
    "a constant column": lambda frame: frame.with_columns(pl.lit(1).alias("one")).select("one"),
    "reverse": lambda frame: frame.reverse().head(3),
    "gather": lambda frame: frame.gather_every(100) if hasattr(frame, "gather_every") else frame,
    "unpivot": lambda frame: frame.unpivot(index="id", on="name", value_name="text").head(3),
    "concat": lambda frame: pl.concat([frame.head(3), frame.tail(3)]),
    "a Python function": lambda frame: frame.filter(
        pl.col("id").map_elements(lambda value: value % 7 == 0, return_dtype=pl.Boolean), pl.col("id") > 50
    ),
}


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_query_gives_what_it_gives_on_local_rows(remote: pl.LazyFrame, engine: str, query) -> None:
    assert_frame_equal(query(remote).collect(engine=engine), query(LOCAL.lazy()).collect(engine=engine))


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
@pytest.mark.parametrize("table", ["small", "empty"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_small_tables_too(server: core.Server, engine: str, table: str, query) -> None:
    local = LOCAL.head(7) if table == "small" else LOCAL.clear()
    remote = scan_lightstream(f"{server.url}/{table}")
    assert_frame_equal(query(remote).collect(engine=engine), query(local.lazy()).collect(engine=engine))


def test_a_frame_may_be_collected_again(remote: pl.LazyFrame, engine: str) -> None:
    query = remote.filter(pl.col("id") > 600)
    assert query.collect(engine=engine).equals(query.collect(engine=engine))


def test_read_gives_all_rows(server: core.Server) -> None:
    assert read_lightstream(f"{server.url}/small").equals(LOCAL.head(7))
    assert read_lightstream(f"{server.url}/small", n_rows=3).equals(LOCAL.head(3))


def test_n_rows_comes_before_filters(server: core.Server, engine: str) -> None:
    remote = scan_lightstream(f"{server.url}/t", n_rows=100).drop(PAD)
    assert remote.select(pl.len()).collect(engine=engine).item() == 100
    kept = remote.filter(pl.col("id") >= 90).collect(engine=engine)
    assert kept.equals(LOCAL.slice(90, 10))
    assert remote.tail(3).collect(engine=engine).equals(LOCAL.slice(97, 3))
    assert remote.head(200).collect(engine=engine).equals(LOCAL.head(100))
    assert (
        remote.filter(pl.col("id").is_in([])).select("name").collect(engine=engine).equals(LOCAL.clear().select("name"))
    )


# What travels


def test_columns_that_are_not_wanted_do_not_travel(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    with traffic(server) as narrow:
        remote.select("id").collect(engine=engine)
    with traffic(server) as wide:
        remote.collect(engine=engine)
    assert narrow.rows == wide.rows == ROWS
    assert narrow.nbytes * 2 < wide.nbytes


def test_rows_that_do_not_pass_do_not_travel(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    query = remote.filter(pl.col("name") == "name 3", pl.col("id") >= 500).select("value")
    with traffic(server) as sent:
        rows = query.collect(engine=engine)
    assert sent.rows == rows.height == 14


def test_one_condition_that_stays_does_not_keep_the_others(
    server: core.Server, remote: pl.LazyFrame, engine: str
) -> None:
    query = remote.filter(pl.col("name").str.contains("^name [34]$"), pl.col("id") >= 500)
    with traffic(server) as sent:
        rows = query.collect(engine=engine)
    assert rows.height == 28
    assert sent.rows == 140


def test_half_of_an_and_may_go_and_half_of_an_or_never(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    local, sendable = pl.col("name").str.contains("^name [34]$"), pl.col("id") >= 500
    with traffic(server) as sent:
        assert remote.filter(local & sendable).collect(engine=engine).height == 28
    assert sent.rows == 140
    with traffic(server) as sent:
        assert remote.filter(local | sendable).collect(engine=engine).height == 240
    assert sent.rows == ROWS


@needs_resolvers
def test_a_length_is_known_without_rows(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    with traffic(server) as sent:
        assert remote.select(pl.len()).collect(engine=engine).item() == ROWS
    assert (sent.scans, sent.nbytes) == (0, 0)


@needs_resolvers
def test_the_length_of_what_passes_travels_as_a_number(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    with traffic(server) as column:
        remote.filter(pl.col("id") >= 100).select("id").collect(engine=engine)
    with traffic(server) as sent:
        assert remote.filter(pl.col("id") >= 100).select(pl.len()).collect(engine=engine).item() == 540
    assert sent.nbytes * 2 < column.nbytes


def test_nothing_is_asked_for_no_column(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    with traffic(server) as sent:
        assert remote.select([]).collect(engine=engine).shape == (0, 0)
    assert sent.rows == 0


def test_head_reads_its_rows(server: core.Server, remote: pl.LazyFrame, engine: str) -> None:
    with traffic(server) as sent:
        remote.head(3).collect(engine=engine)
    assert sent.rows == 3


@needs_resolvers
@pytest.mark.parametrize(
    "query", [lambda frame: frame.tail(3), lambda frame: frame.slice(300, 3)], ids=["tail", "slice"]
)
def test_a_slice_reads_what_is_around_it(server: core.Server, remote: pl.LazyFrame, engine: str, query) -> None:
    with traffic(server) as sent:
        query(remote).collect(engine=engine)
    assert sent.rows <= 70


@needs_resolvers
def test_the_first_rows_that_pass_end_a_streaming_read() -> None:
    rows = 4_000_000
    local = pl.DataFrame(
        {"id": pl.int_range(rows, eager=True), "value": pl.int_range(rows, eager=True).cast(pl.Float64)}
    )
    with served({"t": local}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        with traffic(server) as whole:
            remote.select(pl.col("id").sum(), pl.col("value").sum()).collect(engine="streaming")
        with traffic(server) as sent:
            head = remote.filter(pl.col("id") >= 10).head(3).collect(engine="streaming")
    assert head.equals(local.slice(10, 3))
    assert sent.nbytes * 2 < whole.nbytes


# What is said


def test_what_a_server_does_not_apply_exactly_is_applied_again(
    server: core.Server, remote: pl.LazyFrame, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a server of another kind might: it promises less than the core's rules do.
    monkeypatch.setattr("lightstream_polars._table._applied", lambda translations, supports: set())
    query = lambda frame: frame.filter(pl.col("name") == "name 3", pl.col("id") > 100).select("value")  # noqa: E731
    assert query(remote).collect(engine=engine).equals(query(LOCAL.lazy()).collect())
    if HAS_RESOLVERS:
        assert "SELECTION" in query(remote).explain()


@needs_resolvers
@pytest.mark.parametrize("table", ["t", "small"])
def test_explain_shows_what_is_pushed_and_reads_nothing(server: core.Server, table: str) -> None:
    remote = scan_lightstream(f"{server.url}/{table}")
    query = remote.filter(pl.col("name") == "name 3", pl.col("id") > 2, pl.col("name").str.contains("[3]")).select(
        "value"
    )
    snapshot = core.connect(server.url).table(table).snapshot
    with traffic(server) as sent:
        plan = query.explain()
    assert sent.rows == 0
    assert f"table: {table}" in plan
    assert f"snapshot: {snapshot}" in plan
    assert "name = 'name 3'" in plan
    assert "id > 2" in plan
    assert "columns: name, value" in plan
    assert "SELECTION" in plan
    assert "str.contains" in plan


@needs_resolvers
def test_explain_keeps_secrets(server: core.Server) -> None:
    plan = scan_lightstream(f"{server.url}/t?retries=0").explain()
    assert "retries" not in plan


@pytest.mark.parametrize(
    "name",
    [
        "it's",
        'double "quoted"',
        "a.b",
        "a.b.c",
        "two words",
        "Ünïcödé 表",
        "UPPER",
        "upper",
        "per%cent",
        "a/b",
        "#",
        "?x=1",
        "select",
    ],
)
def test_odd_names_of_tables_and_columns_work(engine: str, name: str) -> None:
    local = pl.DataFrame({name: ["x", "it's", None], f"{name} 2": [1, 2, 3], "__height": [True, False, None]})
    with served({name: local}) as server:
        remote = scan_lightstream(f"{server.url}/{quote(name, safe='')}")
        assert remote.collect(engine=engine).equals(local)
        query = lambda frame: frame.filter(pl.col(name) == "it's", pl.col(f"{name} 2") > 1)  # noqa: E731
        with traffic(server) as sent:
            assert query(remote).collect(engine=engine).equals(query(local.lazy()).collect())
        assert sent.rows == 1
        assert remote.select(pl.len()).collect(engine=engine).item() == 3


@pytest.mark.parametrize("name", ["*", "^a.*$", "", "remote.id", "height"])
def test_names_that_mean_something_to_polars_are_names(engine: str, name: str) -> None:
    local = pl.DataFrame({"ab": [1, 2], name: ["x", "y"]})
    with served({"t": local}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        assert remote.collect(engine=engine).equals(local)
        assert remote.select(pl.len()).collect(engine=engine).item() == 2
        assert remote.filter(pl.nth(1) == "y").collect(engine=engine).equals(local.slice(1))


def test_a_table_that_is_missing_is_named(server: core.Server) -> None:
    with pytest.raises(core.NotFoundError, match="missing"):
        scan_lightstream(f"{server.url}/missing")


def test_an_unknown_option_is_refused(server: core.Server) -> None:
    with pytest.raises(core.InvalidArgumentError, match="read_timeout"):
        scan_lightstream(f"{server.url}/t", storage_options={"read_timeot": "5s"})


def test_a_snapshot_that_is_gone_is_an_error(server: core.Server) -> None:
    with pytest.raises(core.LightstreamError):
        scan_lightstream(f"{server.url}/t", snapshot="0123456789abcdef-7")


def test_a_snapshot_that_is_there_is_read(server: core.Server, engine: str) -> None:
    snapshot = core.connect(server.url).table("small").snapshot
    assert snapshot is not None
    remote = scan_lightstream(f"{server.url}/small", snapshot=snapshot)
    assert remote.collect(engine=engine).equals(LOCAL.head(7))


def test_each_run_reads_the_newest_state(tmp_path, engine: str) -> None:
    path = tmp_path / "t.arrow"
    LOCAL.head(5).write_ipc(path)
    with served({"t": str(path)}) as server:
        query = scan_lightstream(f"{server.url}/t").filter(pl.col("id") >= 0)
        assert query.collect(engine=engine).height == 5
        newer = tmp_path / "newer.arrow"
        LOCAL.head(9).write_ipc(newer)
        newer.rename(path)
        assert query.collect(engine=engine).height == 9


@needs_resolvers
def test_a_query_reads_one_state(tmp_path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, newer = tmp_path / "t.arrow", tmp_path / "newer.arrow"
    LOCAL.head(5).write_ipc(path)
    LOCAL.head(9).write_ipc(newer)
    plan = lightstream_polars._table.RemoteTable.plan

    def plan_and_replace(self, *arguments, **options):
        planned = plan(self, *arguments, **options)
        if newer.exists():
            newer.rename(path)
        return planned

    monkeypatch.setattr(lightstream_polars._table.RemoteTable, "plan", plan_and_replace)
    with served({"t": str(path)}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        joined = remote.select("id", "name").join(remote.select("id", "value"), on="id", how="full")
        try:
            assert joined.collect(engine=engine).height == 5
        except pl.exceptions.ComputeError as error:
            # A server that no longer has the state says so; what must not be is a mixture.
            assert "expired" in str(error)


def test_a_table_whose_columns_changed_says_so(tmp_path, engine: str) -> None:
    path = tmp_path / "t.arrow"
    LOCAL.head(5).write_ipc(path)
    with served({"t": str(path)}) as server:
        query = scan_lightstream(f"{server.url}/t")
        newer = tmp_path / "newer.arrow"
        LOCAL.head(5).select(pl.col("name"), pl.col("id"), pl.col("value")).write_ipc(newer)
        newer.rename(path)
        with pytest.raises(Exception, match="scan it again"):
            query.collect(engine=engine)


def test_a_server_that_is_gone_is_an_error(engine: str) -> None:
    with served({"t": LOCAL}) as server:
        remote = scan_lightstream(f"{server.url}/t", storage_options={"retries": 0})
    with pytest.raises((core.LightstreamError, pl.exceptions.ComputeError)):
        remote.collect(engine=engine)


def test_rows_that_a_function_makes(engine: str) -> None:
    def rows() -> pa.Table:
        return LOCAL.to_arrow()

    with served({"t": rows}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        for query in QUERIES.values():
            if query is not QUERIES["a Python function"]:
                assert_frame_equal(query(remote).collect(engine=engine), query(LOCAL.lazy()).collect(engine=engine))


def test_what_a_function_raises_reaches_the_reader(engine: str) -> None:
    calls = []

    def rows() -> pa.Table:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("the well is dry")
        return LOCAL.to_arrow()

    with served({"t": rows}) as server, pytest.raises(Exception, match="the well is dry"):
        scan_lightstream(f"{server.url}/t").collect(engine=engine)


@needs_resolvers
def test_a_lazy_frame_can_be_sent_elsewhere(server: core.Server, engine: str) -> None:
    query = scan_lightstream(f"{server.url}/small").filter(pl.col("id") > 3)
    again = pickle.loads(pickle.dumps(query))
    assert again.collect(engine=engine).equals(LOCAL.slice(4, 3))


@needs_resolvers
@pytest.mark.parametrize("options", [{}, {"partitions": 1}])
@pytest.mark.parametrize(
    "query",
    [lambda lf: lf.head(3), lambda lf: lf.slice(5, 3), lambda lf: lf.select(pl.len()), lambda lf: lf.filter(pl.col("id") == 5)],
)
def test_explain_reads_nothing_however_little_is_wanted(server: core.Server, options: dict[str, int], query) -> None:
    for table in ("t", "small"):
        frame = query(scan_lightstream(f"{server.url}/{table}", storage_options=options))
        with traffic(server) as sent:
            frame.explain()
        assert sent.rows == 0


def test_constants_that_are_too_large_to_send_stay(engine: str) -> None:
    local = pl.DataFrame({"text": ["a", "b"]})
    many = ["x" * 999 + str(n) for n in range(33_500)] + ["b"]
    with core.serve({"t": local}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        assert remote.filter(pl.col("text").is_in(many)).collect(engine=engine)["text"].to_list() == ["b"]
        assert remote.filter(pl.col("text") < "z" * 40_000_000).collect(engine=engine)["text"].to_list() == ["a", "b"]


_ORDER = pl.Enum(["c", "b", "a"])
_OTHER = pl.Enum(["a", "b", "c"])


@pytest.mark.parametrize("column", ["text", "grade", "category"])
@pytest.mark.parametrize("constant", [pl.lit("b", dtype=_ORDER), pl.lit("b", dtype=_OTHER), pl.lit("b")])
def test_constants_of_an_enum_compare_as_locally(engine: str, column: str, constant: pl.Expr) -> None:
    text = ["a", "b", "c", None]
    local = pl.DataFrame(
        {"text": text, "grade": pl.Series(text, dtype=_ORDER), "category": pl.Series(text, dtype=pl.Categorical)}
    )
    compared = pl.col(column)
    predicates = [
        compared == constant,
        compared != constant,
        compared < constant,
        compared >= constant,
        compared.eq_missing(constant),
        compared.is_between(constant, constant),
    ]
    with core.serve({"t": local.to_arrow(compat_level=pl.CompatLevel.newest())}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        kept = local.with_columns(pl.col("grade").cast(remote.collect_schema()["grade"]))
        for predicate in predicates:
            try:
                expected = kept.lazy().filter(predicate).collect()
            except pl.exceptions.PolarsError:
                # Which error it is depends on where Polars meets it.
                with pytest.raises(pl.exceptions.PolarsError):
                    remote.filter(predicate).collect(engine=engine)
                continue
            assert_frame_equal(remote.filter(predicate).collect(engine=engine), expected)


@pytest.mark.parametrize("kind", ["kept", "made anew"])
def test_rows_without_columns_are_rows(kind: str, engine: str) -> None:
    rows = pl.DataFrame(height=5)
    with core.serve({"t": rows if kind == "kept" else lambda: rows}) as server:
        remote = scan_lightstream(f"{server.url}/t")
        assert remote.collect(engine=engine).shape == (5, 0)
        assert remote.select(pl.len()).collect(engine=engine).item() == 5
        assert remote.slice(1, 3).collect(engine=engine).height == 3
        assert remote.tail(2).collect(engine=engine).height == 2
        assert remote.with_columns(one=pl.lit(1)).collect(engine=engine)["one"].to_list() == [1] * 5
        assert scan_lightstream(f"{server.url}/t", n_rows=3).collect(engine=engine).height == 3
        assert read_lightstream(f"{server.url}/t").height == 5


@pytest.mark.parametrize("call", [scan_lightstream, read_lightstream])
def test_wrong_arguments_are_named(server: core.Server, call: Callable[..., object]) -> None:
    url = f"{server.url}/t"
    for kind, message, arguments in (
        (ValueError, "n_rows is 0 or more, not -1", {"n_rows": -1}),
        (TypeError, "n_rows is a whole number or None, not str", {"n_rows": "5"}),
        (TypeError, "n_rows is a whole number or None, not bool", {"n_rows": True}),
        (TypeError, "storage_options is a mapping", {"storage_options": ["token"]}),
        (TypeError, "names in storage_options are text", {"storage_options": {1: "x"}}),
        (TypeError, "'snapshot'", {"snapshot": 5}),
        (ValueError, "partitions", {"storage_options": {"partitions": 0}}),
    ):
        with pytest.raises(kind, match=message):
            call(url, **arguments)
    with pytest.raises(TypeError, match="url is text, not int"):
        call(5)
