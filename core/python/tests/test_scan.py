"""Scans against the same rows at hand."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lightstream_core as ls


def sorted_rows(table: pa.Table) -> pa.Table:
    return table.sort_by("n").combine_chunks()


def test_a_scan_is_the_table(client: ls.Client, numbers: pa.Table) -> None:
    scan = client.scan("numbers", partitions=4)
    assert len(scan.partitions) == 4
    assert pa.schema(scan.schema) == numbers.schema
    assert scan.schema == client.table("numbers").schema
    assert scan.num_rows == numbers.num_rows
    assert sorted_rows(pa.table(scan)) == sorted_rows(numbers)


def test_a_scan_read_twice_gives_its_rows_twice(client: ls.Client, numbers: pa.Table) -> None:
    scan = client.scan("numbers", ordered=True)
    for _ in range(2):
        assert pa.table(scan) == numbers
    reader = scan.read()
    assert pa.table(reader) == numbers
    with pytest.raises(ls.InvalidArgumentError, match="handed over"):
        pa.table(reader)


def test_ordered_scans_keep_the_order_of_all_partitions(client: ls.Client, numbers: pa.Table) -> None:
    assert pa.table(client.scan("numbers", ordered=True, partitions=5)) == numbers


def test_partitions_are_disjoint_and_together_the_table(client: ls.Client, numbers: pa.Table) -> None:
    scan = client.scan("numbers", partitions=6, columns=["n"])
    parts = [pa.table(partition.read()) for partition in reversed(scan.partitions)]
    assert [partition.index for partition in scan.partitions] == list(range(6))
    assert [partition.rows for partition in reversed(scan.partitions)] == [part.num_rows for part in parts]
    assert all(partition.nbytes for partition in scan.partitions)
    assert sorted_rows(pa.concat_tables(parts)) == numbers.select(["n"]).combine_chunks()


def test_columns_by_name_and_position(client: ls.Client, numbers: pa.Table) -> None:
    by_name = client.scan("numbers", columns=["half", "n"], ordered=True)
    assert pa.table(by_name) == numbers.select(["half", "n"])
    assert pa.table(client.scan("numbers", columns=(2, 0), ordered=True)) == numbers.select(["half", "n"])
    for wrong in (["no"], [17]):
        with pytest.raises(ls.InvalidArgumentError):
            client.scan("numbers", columns=wrong)
    with pytest.raises(TypeError):
        client.scan("numbers", columns="n")
    with pytest.raises(TypeError):
        client.scan("numbers", columns=["n", 1])  # type: ignore[arg-type]


def test_no_columns_give_counts_of_rows(client: ls.Client, numbers: pa.Table) -> None:
    batches = list(client.scan("numbers", columns=[], where="n < 1234"))
    assert sum(batch.num_rows for batch in batches) == 1234
    assert all(batch.num_columns == 0 for batch in batches)
    assert sum(pa.record_batch(batch).num_rows for batch in batches) == 1234


def test_where_is_applied_at_the_server(client: ls.Client, server: ls.Server, numbers: pa.Table) -> None:
    scan = client.scan("numbers", where="n >= 500 AND text = 'text 3'", ordered=True)
    assert scan.filters == ["exact", "exact"]
    keep = pc.and_(pc.greater_equal(numbers["n"], 500), pc.equal(numbers["text"], "text 3"))
    before = server.stats()["rows_sent"]
    assert pa.table(scan) == numbers.filter(keep)
    assert server.stats()["rows_sent"] - before < 1200


def test_what_the_server_does_not_filter_exactly_is_filtered_here(client: ls.Client, numbers: pa.Table) -> None:
    where = "half IN (0.0, 1.0, 33.5) AND n < 40000"
    scan = client.scan("numbers", columns=["text"], where=where, partitions=3, ordered=True)
    assert scan.filters == ["inexact", "exact"]
    assert pa.schema(scan.schema).names == ["text"]
    expected = numbers.take([0, 2, 67]).select(["text"]).combine_chunks()
    assert pa.table(scan).combine_chunks() == expected
    parts = [pa.table(partition.read()) for partition in scan.partitions]
    assert pa.concat_tables(parts).combine_chunks() == expected
    assert all(partition.rows is None for partition in scan.partitions)


def test_the_rest_of_a_filter_can_be_left_to_the_caller(client: ls.Client) -> None:
    where = "half IN (0.0, 1.0) AND n < 40"
    scan = client.scan("numbers", columns=["n"], where=where, limit=1, residual="caller")
    assert scan.filters == ["inexact", "exact"]
    assert set(pa.table(scan)["n"].to_pylist()) >= {0, 2}
    exact = client.scan("numbers", columns=["n"], where="n < 40", limit=1, residual="caller")
    assert pa.table(exact).num_rows == 1


def test_limits_count_for_the_whole_scan_and_for_a_partition(client: ls.Client, numbers: pa.Table) -> None:
    scan = client.scan("numbers", limit=1500, partitions=4, ordered=True)
    assert pa.table(scan) == numbers.slice(0, 1500)
    assert pa.table(scan.partitions[1].read()).num_rows == 1500
    assert [partition.rows for partition in scan.partitions] == [1500] * 4
    assert pa.table(scan.partitions[0].read(limit=10)) == numbers.slice(0, 10)
    assert pa.table(scan.partitions[0].read(limit=0)).num_rows == 0
    assert pa.table(client.scan("numbers", limit=0)).num_rows == 0


def test_empty_tables(client: ls.Client, numbers: pa.Table) -> None:
    scan = client.scan("empty")
    assert pa.table(scan) == numbers.slice(0, 0)
    assert list(scan) == []


def test_batches_and_readers_say_what_they_are(client: ls.Client, numbers: pa.Table) -> None:
    with client.scan("numbers", ordered=True).read() as reader:
        first = next(reader)
        assert pa.record_batch(first).schema == numbers.schema
        assert pa.schema(first) == numbers.schema
        assert (len(first), first.num_columns) == (first.num_rows, 5)
        assert first.nbytes > first.num_rows * 100
        assert reader.rows_read == first.num_rows
        assert reader.bytes_read > 0
        assert set(reader.metrics) == {"rows", "bytes", "frames", "retries"}
        assert reader.schema == first.schema
    with pytest.raises(ls.CancelledError, match="closed"):
        next(reader)


def test_a_reader_that_has_ended_stays_ended(client: ls.Client) -> None:
    with client.scan("numbers", where="n < 5").read() as reader:
        assert sum(batch.num_rows for batch in reader) == 5
        assert list(reader) == []
    assert list(reader) == []


def test_rows_that_are_left_of_a_reader(client: ls.Client, numbers: pa.Table) -> None:
    reader = client.scan("numbers", ordered=True).read()
    first = next(reader)
    rest = pa.table(reader)
    assert rest == numbers.slice(first.num_rows)
    assert reader.rows_read == numbers.num_rows


def test_the_memory_of_a_batch_outlives_everything_else(numbers: pa.Table) -> None:
    with ls.serve({"t": numbers}) as server:
        client = ls.connect(server.url)
        reader = client.scan("t", columns=["n"], ordered=True).read()
        batch = pa.record_batch(next(reader))
        del reader, client
    assert batch["n"].to_pylist() == list(range(batch.num_rows))


def test_snapshots(client: ls.Client) -> None:
    table = client.table("numbers")
    scan = client.scan("numbers", snapshot=table.snapshot)
    assert scan.snapshot == table.snapshot is not None
    with pytest.raises(ls.ExpiredError) as raised:
        client.scan("numbers", snapshot="another")
    assert raised.value.code == "expired"


def test_tables_and_schemas(client: ls.Client, server: ls.Server, numbers: pa.Table) -> None:
    assert client.tables() == ["empty", "numbers"]
    assert client.ping() > 0
    table = client.table("numbers")
    assert (table.name, table.num_rows, table.estimated_rows) == ("numbers", 100_000, 100_000)
    assert pa.schema(table) == numbers.schema
    schema = table.schema
    assert schema.names == [field.name for field in schema] == numbers.column_names
    assert len(schema) == 5
    assert (schema["n"].type, schema[0].nullable, schema[-1].name) == ("Int64", True, "pad")
    assert pa.field(schema["items"]) == numbers.schema.field("items")
    assert schema == client.scan("numbers").schema != client.scan("numbers", columns=[0]).schema
    named = ls.connect(server.url + "/numbers")
    assert (named.url, named.default_table) == (server.url, "numbers")
    assert named.table().num_rows == named.scan().num_rows == 100_000
    with pytest.raises(ls.InvalidArgumentError, match="no table is named"):
        client.scan()


def test_queries_are_refused_where_the_server_knows_no_sql(client: ls.Client) -> None:
    with pytest.raises(ls.UnimplementedError):
        client.query("SELECT 1")


def test_several_threads_read_at_once(client: ls.Client, numbers: pa.Table) -> None:
    from concurrent.futures import ThreadPoolExecutor

    scan = client.scan("numbers", partitions=8)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda partition: pa.table(partition.read()), scan.partitions * 2))
    assert sum(part.num_rows for part in parts) == 2 * numbers.num_rows


def test_polars_reads_a_scan(client: ls.Client, numbers: pa.Table) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(client.scan("numbers", columns=["n", "text"], ordered=True, types={"utf8": "utf8_view"}))
    assert frame.equals(pl.from_arrow(numbers.select(["n", "text"])))


def test_wrong_arguments_are_named(client: ls.Client) -> None:
    wrong = [
        (TypeError, "columns is a sequence", {"columns": "n"}),
        (TypeError, "columns are all named", {"columns": [-1]}),
        (ls.InvalidArgumentError, "limit is 0 or more, not -1", {"limit": -1}),
        (ls.InvalidArgumentError, "limit is 0 or more, not 18446744073709551616", {"limit": 1 << 64}),
        (TypeError, "limit is a whole number, not str", {"limit": "5"}),
        (TypeError, "limit is a whole number, not bool", {"limit": True}),
        (ls.InvalidArgumentError, "partitions is 1 or more, not 0", {"partitions": 0}),
        (ls.InvalidArgumentError, "partitions is too large", {"partitions": 1 << 40}),
        (TypeError, "ordered", {"ordered": "yes"}),
        (TypeError, "snapshot", {"snapshot": 5}),
    ]
    for kind, message, arguments in wrong:
        with pytest.raises(kind, match=message):
            client.scan("numbers", **arguments)  # type: ignore[arg-type]
    for empty in (client.scan, client.table):
        with pytest.raises(ls.InvalidArgumentError, match="not empty"):
            empty("")
    with pytest.raises(ls.InvalidArgumentError, match="limit is 0 or more"):
        client.scan("numbers").partitions[0].read(limit=-1)
    for options, message in (
        ([], "storage_options is a mapping"),
        ({1: "x"}, "names in storage_options are text, not int"),
        ({"retries": [3]}, '"retries" takes text'),
    ):
        with pytest.raises(TypeError, match=message):
            ls.connect(client.url, storage_options=options)  # type: ignore[arg-type]
