"""A remote table as a part of a query that Polars resolves each time it runs: what is pushed down is settled here.

Reads no rows itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

import polars as pl
from polars.io.external_reader import scan_external_reader
from polars.lazyframe.resolver import FilterExpr, LazyFrameResolver, ResolvedLazyFrameProps

from lightstream_polars._pins import Pins
from lightstream_polars._reader import PartitionsBuilder
from lightstream_polars._table import Plan, RemoteTable

_PINS: Final = Pins()
_NEVER_AGAIN: Final = itertools.count()
_HEIGHT: Final = "__height"


class TableResolver(LazyFrameResolver):
    """A remote table, with a first column of nothing in front.

    Where Polars wants no column but only the number of rows, as for ``len()``, it asks a resolver for the first one.
    That this is a column of nothing spares the rows the journey. :meth:`frame` is without it.
    """

    def __init__(self, table: RemoteTable, progress: Callable[[int], object] | None = None) -> None:
        self._table = table
        self._progress = progress
        self._height = _HEIGHT
        while self._height in table.schema:
            self._height += "_"

    def frame(self) -> pl.LazyFrame:
        """The table's own columns.

        They are given other names and their own again. The in-memory engine of Polars 2.1 panics where it computes a
        common subexpression right above a resolver that it asked for some of the columns; above a renaming it does not.
        """
        renamed = {name: f"{name}\u200b" for name in self._table.schema}
        own = (pl.col(name).alias(other) for name, other in renamed.items())
        return self.lazy().select(own).select(pl.col(other).alias(name) for name, other in renamed.items())

    def schema(self) -> pl.Schema:
        return pl.Schema([(self._height, pl.Null()), *self._table.schema.items()])

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
        columns = [name for name in wanted if name != self._height]
        table = self._table
        plan = _PINS.plan(
            (table.connection.key, table.name, table.snapshot),
            lambda snapshot: table.plan(
                columns, [each.expr for each in filters], kept, limit=limit, snapshot=snapshot
            ),
            lambda plan: plan.snapshot,
        )
        height = self._height if self._height in wanted else None
        schema = plan.schema if height is None else pl.Schema([(height, pl.Null()), *plan.schema.items()])
        builder = PartitionsBuilder(table, plan, height, self._shown(plan, limit), self._progress)
        sources = [str(at) for at in range(plan.sources)]
        frame = scan_external_reader(builder, sources=sources, schema=schema)
        names = [name for name in wanted if name in schema]
        if projection is not None:
            frame = frame.select(pl.col(name) for name in names) if names else frame.drop("*")
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
        mine, others = self._table, other._table
        return (mine.connection.key, mine.name, mine.snapshot) == (others.connection.key, others.name, others.snapshot)


def _shown_filter(text: str, support: str) -> str:
    return text if support == "exact" else f"({text}) [{support}: applied again here]"
