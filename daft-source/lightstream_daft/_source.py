"""A remote table as a source of Daft: what is asked of the server, and the tasks that read it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Literal

import lightstream_core as core
import pyarrow as pa
from daft.io.pushdowns import Pushdowns
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import RecordBatch
from daft.schema import Schema

from lightstream_core import Connection, CredentialProvider

from lightstream_daft._connection import connection, memory_limit
from lightstream_daft._predicate import FLOAT_RULE, Translation, required_columns, translate
from lightstream_daft._rows import Rows
from lightstream_daft._types import IMPORT_RULES, imported

_PARTITIONS: Final = 4 * max(4, os.cpu_count() or 1)
"""Most tasks of a scan, unless the options say otherwise."""


class LightstreamSource(DataSource):
    """A table of a Lightstream server. See :func:`lightstream_daft.read_lightstream`."""

    def __init__(
        self,
        url: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        credential_provider: CredentialProvider | Literal["auto"] | None = "auto",
        snapshot: str | None = None,
    ) -> None:
        made = connection(url, storage_options, credential_provider)
        table = made.client.default_table
        if table is None:
            raise core.InvalidArgumentError(
                f"{made.shown!r} names no table: say which, as in lightstream://host:7654/table"
            )
        self._open(made, table, snapshot)

    @classmethod
    def of(cls, connection: Connection, table: str, snapshot: str | None) -> LightstreamSource:
        """A table of a server that there is a connection to."""
        made = cls.__new__(cls)
        made._open(connection, table, snapshot)
        return made

    def _open(self, connection: Connection, table: str, snapshot: str | None) -> None:
        self._connection = connection
        self._snapshot = snapshot
        client = connection.client
        self._table = client.table(table, snapshot=snapshot)
        # Refuses types by column, and brings no row.
        self._scanned = client.scan(table, limit=0, snapshot=snapshot, types=IMPORT_RULES).schema
        names = self._scanned.names
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise core.InvalidArgumentError(
                f"table {table!r} has more than one column named {', '.join(map(repr, twice))}: Daft has no place for them"
            )
        self._schema = imported(self._scanned)

    def __reduce__(self) -> tuple[Any, ...]:
        return LightstreamSource.of, (self._connection, self._table.name, self._snapshot)

    @property
    def name(self) -> str:
        return f"Lightstream({self._table.name} at {self._connection.shown})"

    @property
    def schema(self) -> Schema:
        return self._schema

    def supports_count_pushdown(self) -> bool:
        return True

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """Plans the scan, once for all tasks, so that they are of one snapshot."""
        if pushdowns.aggregation is not None:
            yield await self._count(pushdowns)
            return
        columns = self._columns(pushdowns)
        types = {field.name: field.dtype for field in self._schema}
        translation = translate(pushdowns.filters, types, self._table.schema)
        scan = await self._plan(columns, translation, pushdowns.limit)
        schema = Schema.from_field_name_and_types([(name, types[name]) for name in columns])
        limit = pushdowns.limit if pushdowns.filters is None else None
        memory = memory_limit(self._connection, scan.nbytes)
        for partition in scan.partitions:
            yield LightstreamTask(self._connection, partition, schema, limit, memory)
            if limit is not None and partition.rows is not None:
                limit -= partition.rows
                if limit <= 0:
                    return

    def _columns(self, pushdowns: Pushdowns) -> list[str]:
        """What Daft wants, and what it needs to apply the filter again, in the table's order."""
        required = required_columns(pushdowns.filters)
        if pushdowns.columns is None or required is None:
            return self._names()
        return [name for name in self._names() if name in required or name in pushdowns.columns]

    def _names(self) -> list[str]:
        return self._scanned.names

    async def _plan(self, columns: list[str], translation: Translation, limit: int | None) -> core.Scan:
        # A limit may only go where everything before it does.
        is_exact = translation.is_whole and all(
            conjunct.support(self._table.schema, FLOAT_RULE) == "exact" for conjunct in translation.conjuncts
        )
        return await self._connection.client.scan_async(
            self._table.name,
            columns=[self._names().index(name) for name in columns],
            where=translation.conjuncts or None,
            float_rule=FLOAT_RULE,
            partitions=None if self._connection.is_set("partitions") else _PARTITIONS,
            ordered=True,
            snapshot=self._snapshot,
            types=IMPORT_RULES,
            residual="caller",
            limit=limit if is_exact else None,
        )

    async def _count(self, pushdowns: Pushdowns) -> DataSourceTask:
        """How many rows there are, under the name of the column that Daft asks for."""
        scan = await self._plan([], Translation(), None)
        [column, *_] = pushdowns.columns or self._names()
        return CountTask(self._connection, scan.num_rows, list(scan.partitions), column, self._schema)


class LightstreamTask(DataSourceTask):
    """A partition. It can be pickled, and holds no secrets but its ticket and, where there is one, the credential provider."""

    def __init__(
        self, connection: Connection, partition: core.Partition, schema: Schema, limit: int | None, memory_limit: int | None
    ) -> None:
        self._connection = connection
        self._memory_limit = memory_limit
        self._partition = partition
        self._schema = schema
        self._limit = limit

    @property
    def schema(self) -> Schema:
        return self._schema

    def read(self) -> AsyncIterator[RecordBatch]:
        reader = self._partition.read(
            limit=self._limit, client=self._connection.client, memory_limit=self._memory_limit
        )
        return Rows(reader, self)


class CountTask(DataSourceTask):
    """The number of rows of a table, which is known or counted without moving columns."""

    def __init__(
        self, connection: Connection, rows: int | None, partitions: list[core.Partition], column: str, schema: Schema
    ) -> None:
        self._connection = connection
        self._rows = rows
        self._partitions = [] if rows is not None else partitions
        self._column = column
        self._schema = schema

    @property
    def schema(self) -> Schema:
        # Daft wants the table's here, though what comes is a count.
        return self._schema

    async def read(self) -> AsyncIterator[RecordBatch]:
        rows = self._rows or 0
        for partition in self._partitions:
            async for batch in partition.read(client=self._connection.client):
                rows += batch.num_rows
        counted = pa.record_batch({self._column: pa.array([rows], pa.uint64())})
        yield RecordBatch.from_arrow_record_batches([counted], counted.schema)

