"""A remote table as a part of a query that Polars resolves each time it runs: what is pushed down is settled here.

Reads no rows itself.
"""

from __future__ import annotations

import itertools
from typing import Final

import polars as pl
from polars.io.external_reader import scan_external_reader
from polars.lazyframe.resolver import FilterExpr, LazyFrameResolver, ResolvedLazyFrameProps

from lightstream_polars._pins import Pins
from lightstream_polars._progress import Progress
from lightstream_polars._reader import PartitionsBuilder
from lightstream_polars._table import Plan, RemoteTable

_PINS: Final = Pins()
_NEVER_AGAIN: Final = itertools.count()
_PREFIX: Final = "remote."
_HEIGHT: Final = "height"


class TableResolver(LazyFrameResolver):
    """A remote table under other names, with a first column of nothing in front. :meth:`frame` is the table itself.

    Where Polars wants no column but only the number of rows, as for ``len()``, it asks a resolver for the first one.
    That this is a column of nothing spares the rows the journey. The other names keep the selection in :meth:`frame`
    from being optimised away: where Polars replaces a resolver by no rows, as above a condition that is never true, it
    forgets which columns were selected from it.
    """

    def __init__(self, table: RemoteTable, n_rows: int | None = None, progress: Progress | None = None) -> None:
        self._table = table
        self._n_rows = n_rows
        self._progress = progress

    def frame(self) -> pl.LazyFrame:
        """The table's own columns under their own names."""
        if not self._table.schema:
            # A selection of no columns has no rows.
            return self.lazy().drop(_HEIGHT)
        return self.lazy().select(pl.col(_PREFIX + name).alias(name) for name in self._table.schema)

    def schema(self) -> pl.Schema:
        return _renamed(self._table.schema, has_height=True)

    def resolve_lazyframe(
        self,
        *,
        projection: list[str] | None,
        limit: int | None,
        filters: list[FilterExpr],
        filter_columns: list[str],
        filter_drop_columns_idx: int | None,
        existing_resolved_version_key: str | None,
    ) -> tuple[pl.LazyFrame | None, ResolvedLazyFrameProps]:
        del filter_columns, existing_resolved_version_key  # Tickets go out of date: a plan is made for every run.
        wanted = list(self.schema()) if projection is None else projection
        kept = wanted if filter_drop_columns_idx is None else wanted[:filter_drop_columns_idx]
        columns = [name.removeprefix(_PREFIX) for name in kept if name != _HEIGHT]
        first = min((each for each in (limit, self._n_rows) if each is not None), default=None)
        table = self._table
        predicates = [table.predicate(each.expr, _PREFIX) for each in filters]
        plan = _PINS.plan(
            (table.connection.key, table.name, table.snapshot),
            lambda snapshot: table.plan(columns, predicates, limit=first, snapshot=snapshot),
            lambda plan: plan.snapshot,
        )
        schema = _renamed(plan.schema, has_height=_HEIGHT in wanted)
        builder = PartitionsBuilder(plan, schema, self._shown(plan, first), self._progress)
        frame = scan_external_reader(builder, sources=[str(at) for at in range(plan.sources)], schema=schema)
        if self._n_rows is not None:
            frame = frame.head(self._n_rows)
        if projection is not None:
            names = [name for name in wanted if name in schema]
            frame = frame.select(names) if names else frame.drop("*")
        version = plan.snapshot if plan.snapshot is not None else f"unnamed {next(_NEVER_AGAIN)}"
        return frame, ResolvedLazyFrameProps(version_key=version, applied_filters=plan.applied)

    def _shown(self, plan: Plan, limit: int | None) -> dict[str, str]:
        shown = {
            "name": "lightstream",
            "url": self._table.connection.shown,
            "table": self._table.name,
            "snapshot": plan.snapshot or "none",
            "columns": ", ".join(plan.schema) or "none, only the number of rows",
            "filters": " AND ".join(_shown_filter(*each) for each in plan.filters) or "none",
            "partitions": str(plan.sources),
        }
        if limit is not None:
            shown["limit"] = str(limit)
        return shown

    def cse_eq(self, other: object) -> bool:
        if not isinstance(other, TableResolver):
            return False
        return self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        return self._table.connection.key, self._table.name, self._table.snapshot, self._n_rows


def _renamed(schema: pl.Schema, has_height: bool) -> pl.Schema:
    names = {_PREFIX + name: dtype for name, dtype in schema.items()}
    return pl.Schema({_HEIGHT: pl.Null(), **names} if has_height else names)


def _shown_filter(text: str, support: str) -> str:
    return text if support == "exact" else f"({text}) [{support}: applied again here]"
