"""What the tests share: the engines of Polars, and tables of small partitions."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from serving import DEADLINE_SECONDS, Traffic, served, settled, traffic, until, within_deadline

__all__ = [
    "DEADLINE_SECONDS",
    "HAS_RESOLVERS",
    "PAD",
    "Traffic",
    "needs_resolvers",
    "padded",
    "served",
    "settled",
    "traffic",
    "until",
    "within_deadline",
]

HAS_RESOLVERS = tuple(int(part) for part in pl.__version__.split(".")[:2]) >= (2, 1)

needs_resolvers = pytest.mark.skipif(
    not HAS_RESOLVERS, reason=f"Polars {pl.__version__} has no resolvers, or faulty ones: less is pushed down there"
)

PAD = "padding"
"""A last column that makes rows so long that some sixty fill a partition. Tests never read it."""

_PAD_BYTES = 1 << 16
_PAD_ROWS = 1024
_padding = pa.FixedSizeBinaryArray.from_buffers(
    pa.binary(_PAD_BYTES), _PAD_ROWS, [None, pa.allocate_buffer(_PAD_BYTES * _PAD_ROWS)]
)


@pytest.fixture(params=["in-memory", "streaming"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def padded(rows: pl.DataFrame | pa.Table) -> pa.Table:
    """The rows with padding: a table of some sixty rows a partition."""
    table = rows if isinstance(rows, pa.Table) else rows.to_arrow(compat_level=pl.CompatLevel.newest())
    return table.append_column(PAD, _padding.slice(0, table.num_rows))
