"""The table that Python engines are measured with: made from nothing but a number of rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 1 << 17
GROUPS = 100


def table(rows: int) -> pa.Table:
    """Numbers, a time, short and longer strings and a column of few values; `group` keeps 1 % of the rows where it is 7."""
    batches = []
    for first in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - first)
        random = np.random.default_rng(first)
        ids = np.arange(first, first + count, dtype=np.int64)
        numbers = random.integers(0, 1_000_000, count)
        cities = pa.array(["Lima", "Oslo", "Quito", "Accra", "Hanoi"])
        batches.append(
            pa.record_batch(
                {
                    "id": pa.array(ids),
                    "group": pa.array(random.integers(0, GROUPS, count).astype(np.int32)),
                    "price": pa.array(random.random(count) * 1000),
                    "amount": pa.array(random.random(count).astype(np.float32)),
                    "at": pa.array(ids * 1_000_000 + 1_700_000_000_000_000, pa.timestamp("us")),
                    "city": cities.take(pa.array(random.integers(0, 5, count))),
                    "note": pa.array([f"order number {n}, to be sent" for n in numbers]),
                }
            )
        )
    return pa.Table.from_batches(batches)


def parquet(rows: int, folder: Path) -> Path:
    """The same table as a Parquet file, written once for each size."""
    path = folder / f"orders-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        pq.write_table(table(rows), part, compression="zstd", row_group_size=1 << 20)
        part.rename(path)
    return path
