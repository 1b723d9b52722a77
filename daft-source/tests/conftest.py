"""What the tests share: Daft alone, its local runner, and tables of small partitions."""

from __future__ import annotations

import os

# Before Daft is imported: it asks once.
os.environ.setdefault("DAFT_ANALYTICS_ENABLED", "0")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
os.environ.setdefault("DAFT_RUNNER", "native")

import pyarrow as pa

PAD = "padding"
"""A last column that makes rows so long that some sixty fill a partition. Tests never read it."""

_PAD_BYTES = 1 << 16
_PAD_ROWS = 1024
_padding = pa.FixedSizeBinaryArray.from_buffers(
    pa.binary(_PAD_BYTES), _PAD_ROWS, [None, pa.allocate_buffer(_PAD_BYTES * _PAD_ROWS)]
)


def padded(rows: pa.Table) -> pa.Table:
    """The rows with padding: a table of some sixty rows a partition."""
    return rows.append_column(PAD, _padding.slice(0, rows.num_rows))
