"""A Lightstream server as a catalog of Daft: its tables by name, in SQL too."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

import lightstream_core as core
from daft import DataFrame
from daft.catalog import Catalog, Function, Identifier, NotFoundError, Properties, Table
from daft.io.partitioning import PartitionField
from daft.schema import Schema
from lightstream_core import Connection, CredentialProvider

from lightstream_daft._connection import connection
from lightstream_daft._source import LightstreamSource


class LightstreamCatalog(Catalog):
    """The tables of a Lightstream server.

    Parts of a table's name that dots separate are namespaces. The catalog can be attached to a session under any alias,
    and pickled. It cannot be changed.

    Parameters
    ----------
    url
        The server, as in ``lightstream://host:7654``.
    name
        What the catalog is called in a session; the host by default.
    storage_options, credential_provider
        As for :func:`lightstream_daft.read_lightstream`.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        credential_provider: CredentialProvider | Literal["auto"] | None = "auto",
    ) -> None:
        self._connection = connection(url, storage_options, credential_provider)
        if self._connection.client.default_table is not None:
            raise core.InvalidArgumentError(f"{self._connection.shown!r} names a table: a catalog is a whole server")
        self._name = "lightstream" if name is None else name

    def __reduce__(self) -> tuple[Any, ...]:
        return _catalog, (self._connection, self._name)

    @property
    def name(self) -> str:
        return self._name

    def _names(self) -> list[str]:
        return self._connection.client.tables()

    def _list_tables(self, pattern: str | None = None) -> list[Identifier]:
        return [_identifier(name) for name in self._names() if _is_like(name, pattern)]

    def _list_namespaces(self, pattern: str | None = None) -> list[Identifier]:
        found = {name.rpartition(".")[0] for name in self._names()}
        return [_identifier(name) for name in sorted(found) if name and _is_like(name, pattern)]

    def _has_namespace(self, ident: Identifier) -> bool:
        prefix = ".".join(ident) + "."
        return any(name.startswith(prefix) for name in self._names())

    def _has_table(self, ident: Identifier) -> bool:
        try:
            self._connection.client.table(".".join(ident))
        except core.NotFoundError:
            return False
        return True

    def _get_table(self, ident: Identifier) -> Table:
        return LightstreamTable(self._connection, ".".join(ident))

    def _get_function(self, ident: Identifier) -> Function:
        raise NotFoundError(f"function {str(ident)!r} not found: a Lightstream server has none")

    def _create_function(self, ident: Identifier, function: Function | Callable[..., Any]) -> NoReturn:
        raise _fixed("create a function")

    def _create_namespace(self, ident: Identifier) -> NoReturn:
        raise _fixed("create a namespace")

    def _create_table(
        self,
        ident: Identifier,
        schema: Schema,
        properties: Properties | None = None,
        partition_fields: list[PartitionField] | None = None,
    ) -> NoReturn:
        raise _fixed("create a table")

    def _drop_namespace(self, ident: Identifier) -> NoReturn:
        raise _fixed("drop a namespace")

    def _drop_table(self, ident: Identifier) -> NoReturn:
        raise _fixed("drop a table")


class LightstreamTable(Table):
    """A table of a catalog."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._table_name = name
        try:
            self._source = LightstreamSource.of(connection, name, None)
        except core.NotFoundError as error:
            raise NotFoundError(str(error)) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return LightstreamTable, (self._connection, self._table_name)

    @property
    def name(self) -> str:
        return self._table_name.rpartition(".")[2]

    def schema(self) -> Schema:
        return self._source.schema

    def read(self, **options: Any) -> DataFrame:
        """The table lazily; ``snapshot`` says at which state."""
        Table._validate_options("Lightstream read", options, {"snapshot"})
        if options.get("snapshot") is None:
            return self._source.read()
        return LightstreamSource.of(self._connection, self._table_name, options["snapshot"]).read()

    def append(self, df: DataFrame, **options: Any) -> NoReturn:
        raise _fixed("append to a table")

    def overwrite(self, df: DataFrame, **options: Any) -> NoReturn:
        raise _fixed("overwrite a table")


def _catalog(made: Connection, name: str) -> LightstreamCatalog:
    return LightstreamCatalog(
        made.url, name=name, storage_options=made.options, credential_provider=made.credential_provider
    )


def _identifier(name: str) -> Identifier:
    return Identifier(*name.split("."))


def _is_like(name: str, pattern: str | None) -> bool:
    """Whether a name matches a pattern of SQL's LIKE."""
    if pattern is None:
        return True
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(regex, name, re.DOTALL) is not None


def _fixed(what: str) -> NotImplementedError:
    return NotImplementedError(f"a Lightstream catalog cannot {what} in this release")
