"""Rows that Python gives and that are not what was said of them."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pyarrow as pa
import pytest

import lightstream_core as ls

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("text", pa.string())])
GOOD = pa.record_batch([pa.array([1], pa.int64()), pa.array(["a"])], SCHEMA)

WRONG = {
    "has 1 columns where the schema has 2": pa.record_batch({"n": [1]}),
    'called "m"': pa.record_batch({"m": [1], "text": ["a"]}),
    '"n" of a batch has the type Int32': pa.record_batch({"n": pa.array([1], pa.int32()), "text": ["a"]}),
    '"text" of a batch has the type Binary': pa.record_batch({"n": [1], "text": [b"a"]}),
    '"n" has nulls': pa.record_batch({"n": pa.array([None], pa.int64()), "text": ["a"]}),
}


def reader(*batches: pa.RecordBatch) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, iter(batches))


class Array:
    """Exports the array of one thing with the schema of another."""

    def __init__(self, array: Any, schema: Any) -> None:
        self.array, self.schema_of = array, schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema_of.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]


def of(name: str, array: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([array], [name])


@pytest.mark.parametrize("wrong", WRONG)
def test_a_batch_that_differs_from_the_schema_of_its_reader_is_refused(wrong: str) -> None:
    with ls.serve({"t": lambda: reader(GOOD, WRONG[wrong], GOOD)}) as server:
        rows = ls.connect(server.url).scan("t").read()
        assert pa.record_batch(next(rows)).equals(GOOD)
        with pytest.raises(ls.InternalError, match=wrong) as raised:
            next(rows)
        assert (raised.value.table, raised.value.retryable) == ("t", False)
    with pytest.raises(ls.InvalidArgumentError, match=wrong):
        ls.serve({"t": reader(GOOD, WRONG[wrong])})


def test_a_batch_may_leave_out_what_its_schema_allows() -> None:
    nullable = pa.record_batch({"n": [2], "text": [None]}, pa.schema({"n": pa.int64(), "text": pa.string()}))
    with ls.serve({"t": lambda: reader(GOOD, nullable)}) as server:
        scan = ls.connect(server.url).scan("t")
        assert not scan.schema["n"].nullable
        assert pa.table(scan).to_pylist() == [{"n": 1, "text": "a"}, {"n": 2, "text": None}]


@pytest.mark.parametrize(
    ("array", "schema", "message"),
    [
        (of("a", pa.array([1])), pa.schema({"a": pa.int64(), "b": pa.int64()}), "1 children where 2 are needed"),
        (of("a", pa.array([1])), pa.schema({"a": pa.string()}), '"a" of the type Utf8 has 2 buffers where 3'),
        (of("a", pa.array(["x"])), pa.schema({"a": pa.int64()}), "3 buffers where 2"),
        (of("a", pa.array([1])), pa.schema({"a": pa.list_(pa.int64())}), "0 children where 1"),
        (of("a", pa.array([[1]])), pa.schema({"a": pa.list_(pa.string())}), '"a.item" of the type Utf8'),
        (of("a", pa.array([[1]], pa.list_(pa.int64(), 1))), pa.schema({"a": pa.list_(pa.int64(), 3)}), "1 rows long"),
        (of("a", pa.array([1])), pa.schema({"a": pa.dictionary(pa.int64(), pa.string())}), "no dictionary"),
        (of("a", pa.array(["x"]).dictionary_encode()), pa.schema({"a": pa.int32()}), "has a dictionary"),
        (of("a", pa.array([b"\xff"])), pa.schema({"a": pa.string()}), "(?i)utf"),
        (of("a", pa.array([1])), pa.schema({"a": pa.null()}), "2 buffers where 0"),
        (pa.array([{"a": 1}, None]), pa.schema({"a": pa.int64()}), "null as a whole"),
        (of("a", pa.array([None], pa.int64())), pa.schema([pa.field("a", pa.int64(), nullable=False)]), "(?i)null"),
    ],
)
def test_an_array_that_does_not_match_its_schema_is_refused(array: Any, schema: pa.Schema, message: str) -> None:
    given = Array(array, schema)
    with pytest.raises((ls.InvalidArgumentError, TypeError), match=message):
        ls.serve({"t": given})
    with ls.serve({"t": lambda: given}) as server, pytest.raises(ls.LightstreamError, match=message) as raised:
        list(ls.connect(server.url).scan("t"))
    assert raised.value.table == "t"


def test_keys_beyond_their_dictionary_are_refused() -> None:
    keys = pa.array([0, 7], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(keys, pa.array(["x"]), safe=False)
    with pytest.raises(ls.InvalidArgumentError, match="7"):
        ls.serve({"t": of("a", wrong)})


def test_constants_are_checked_too() -> None:
    class Wrong:
        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            return pa.string().__arrow_c_schema__(), pa.array([1]).__arrow_c_array__()[1]

    with pytest.raises(ls.InvalidArgumentError, match="2 buffers where 3"):
        ls.Expr.literal(Wrong())


def test_a_stream_that_was_given_before_is_refused() -> None:
    once = reader(GOOD)
    with ls.serve({"t": once}) as server:
        client = ls.connect(server.url)
        for _ in range(2):
            assert pa.table(client.scan("t")).num_rows == 1
        with pytest.raises(ValueError, match="read once"):
            ls.serve({"t": once})
        read = client.scan("t").read()
        list(read)
        with pytest.raises(ls.InvalidArgumentError, match="read to its end"):
            ls.serve({"t": read})
        closed = client.scan("t").read()
        closed.close()
        with pytest.raises(ls.InvalidArgumentError, match="closed"):
            ls.serve({"t": closed})
    with ls.serve({"t": lambda: once}) as server, pytest.raises(ls.InternalError, match="read once"):
        ls.connect(server.url).scan("t")


def test_a_callable_that_returns_one_stream_again_is_refused_from_the_second_time_on() -> None:
    once = reader(GOOD)
    with ls.serve({"t": lambda: once}) as server:
        scan = ls.connect(server.url).scan("t")
        with pytest.raises(ls.InternalError, match="needs a new one"):
            list(scan)


def test_what_a_reader_raises_while_it_is_served_is_raised() -> None:
    def failing(error: BaseException) -> Callable[[], Iterator[pa.RecordBatch]]:
        def make() -> Iterator[pa.RecordBatch]:
            yield GOOD
            raise error

        return make

    for error in (OSError("the pump is broken"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            ls.serve({"t": pa.RecordBatchReader.from_batches(SCHEMA, failing(error)())})


def test_rows_without_columns_are_counted() -> None:
    table = pa.table({"a": range(5)}).select([])
    with ls.serve({"t": table, "made": lambda: table, "batch": table.to_batches()[0]}) as server:
        client = ls.connect(server.url)
        for name in client.tables():
            scan = client.scan(name)
            assert (len(scan.schema), pa.table(scan).num_rows) == (0, 5)
            assert [batch.num_rows for batch in scan] == [5]
            assert sum(batch.num_rows for batch in client.scan(name, limit=3)) == 3
