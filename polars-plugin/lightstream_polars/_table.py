"""A remote table as Polars sees it, and the plan of one read of it.

Decides what is asked of the server: columns, conditions, limit and snapshot. Reads no rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import lightstream_core as core
import polars as pl

from lightstream_polars import _interrupts as interrupts
from lightstream_polars._predicate import FLOAT_RULE, Translation, translate
from lightstream_polars._types import IMPORT_RULES, imported

T = TypeVar("T")

_PARTITIONS: Final = 2 * max(4, os.cpu_count() or 1)
"""Most partitions of a scan, unless the options say otherwise: enough to keep every core and the network busy."""


@dataclass(frozen=True)
class Predicate:
    """A predicate: what of it can be sent, and the columns that it needs."""

    translation: Translation
    columns: frozenset[str]


class Plan:
    """A planned read. No rows have come with it."""

    def __init__(self, scan: core.Scan, schema: pl.Schema, conjuncts: Sequence[core.Expr], applied: set[int]) -> None:
        self.schema = schema
        self.snapshot = scan.snapshot
        self.filters = tuple((str(expr), support) for expr, support in zip(conjuncts, scan.filters, strict=True))
        """What the server was asked to keep, as text, each with how far it does: exact or inexact."""
        self.applied = frozenset(applied)
        """Which of the predicates the rows that come satisfy, so that Polars need not look again."""
        self.partitions = scan.partitions
        """The partitions to read, in order."""
        self.sources = max(1, len(scan.partitions))
        """How many partitions there are; one without rows where there is none."""


class RemoteTable:
    """A table: its columns as they are on the server and in Polars."""

    def __init__(self, connection: core.Connection, snapshot: str | None) -> None:
        self.connection = connection
        self.snapshot = snapshot
        self.name, self._described, scan = self._request(lambda client: _describe(client, snapshot))
        self._fields = {field.name: field for field in scan.schema}
        if len(self._fields) != len(scan.schema):
            names = [field.name for field in scan.schema]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise core.InvalidArgumentError(
                f"table {self.name!r} has more than one column named {', '.join(map(repr, twice))}: Polars has no "
                "place for them"
            )
        self.schema = imported(scan.schema)
        self.estimated_rows = self._described.estimated_rows
        self._positions = {name: at for at, name in enumerate(self.schema)}

    def __reduce__(self) -> tuple[object, ...]:
        return RemoteTable, (self.connection, self.snapshot)

    def _request(self, make: Callable[[core.Client], T]) -> T:
        """What a request gives. An interrupt ends the wait for it."""
        return interrupts.call(lambda: make(self.connection.client))

    def predicate(self, expr: pl.Expr, prefix: str = "") -> Predicate:
        """A predicate on columns of the table, which it names with a prefix."""
        columns = frozenset(name.removeprefix(prefix) for name in expr.meta.root_names())
        return Predicate(translate(expr, self.schema, self._described.schema, prefix), columns)

    def plan(
        self,
        columns: Collection[str],
        predicates: Sequence[Predicate] = (),
        *,
        limit: int | None = None,
        snapshot: str | None = None,
    ) -> Plan:
        """Plan a read of `columns`, in the table's order, of the rows that satisfy `predicates`.

        What a predicate needs that Polars has to apply again comes, too. A limit counts for each partition, and before
        predicates, which are then not sent.
        """
        translations = [predicate.translation if limit is None else Translation() for predicate in predicates]
        promised = {at for at, translation in enumerate(translations) if self._promises(translation)}
        conjuncts = [conjunct for translation in translations for conjunct in translation.conjuncts]
        while True:
            left = [predicate.columns for at, predicate in enumerate(predicates) if at not in promised]
            wanted = sorted(set(columns).union(*left), key=self._positions.__getitem__)
            scan = self._scan(wanted, conjuncts, limit, snapshot)
            applied = _applied(translations, scan.filters)
            if promised <= applied:
                break
            # This server does less than the core promises: Polars needs the columns to look again.
            promised &= applied
        self._check(scan.schema, wanted)
        schema = pl.Schema({name: self.schema[name] for name in wanted})
        return Plan(scan, schema, conjuncts, promised)

    def _promises(self, translation: Translation) -> bool:
        """Whether any server that obeys the core's rules applies a predicate whole and exactly."""
        supports = (each.support(self._described.schema, FLOAT_RULE) for each in translation.conjuncts)
        return translation.is_whole and all(support == "exact" for support in supports)

    def _scan(
        self,
        columns: Sequence[str],
        where: Sequence[core.Expr],
        limit: int | None,
        snapshot: str | None,
    ) -> core.Scan:
        positions = [self._positions[name] for name in columns]
        partitions = None if self.connection.is_set("partitions") else _PARTITIONS
        return self._request(
            lambda client: client.scan(
                self.name,
                columns=positions,
                where=list(where) or None,
                float_rule=FLOAT_RULE,
                limit=limit,
                partitions=partitions,
                ordered=True,
                snapshot=snapshot if snapshot is not None else self.snapshot,
                types=IMPORT_RULES,
                residual="caller",
            )
        )

    def _check(self, schema: core.Schema, columns: Sequence[str]) -> None:
        fields = list(schema)
        if [self._fields[name] for name in columns] != fields:
            raise core.InvalidArgumentError(
                f"the columns of table {self.name!r} are no longer those that it had when it was scanned "
                f"({', '.join(f'{field.name} {field.type}' for field in fields)} came where "
                f"{', '.join(f'{name} {self._fields[name].type}' for name in columns)} were expected): scan it again"
            )


def _describe(client: core.Client, snapshot: str | None) -> tuple[str, core.Table, core.Scan]:
    table = client.table(snapshot=snapshot)
    # Asks for no rows: what is wanted is the schema as it will be imported, or what cannot be.
    return table.name, table, client.scan(table.name, limit=0, snapshot=snapshot, types=IMPORT_RULES)


def _applied(translations: Sequence[Translation], supports: Sequence[str]) -> set[int]:
    """Which predicates the server applies whole and exactly."""
    applied = set()
    rest = iter(supports)
    for at, translation in enumerate(translations):
        answers = [next(rest) for _ in translation.conjuncts]
        if translation.is_whole and all(answer == "exact" for answer in answers):
            applied.add(at)
    return applied
