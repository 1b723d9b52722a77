"""Memory is bounded where Daft lets rows go, and nothing stalls where it keeps them all.

Queries run in processes of their own, whose greatest memory is theirs alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import conftest
import lightstream_core as core
import pyarrow as pa
import pytest
from serving import served, traffic

from lightstream_daft._connection import MEMORY_LIMIT, connection, memory_limit

GIB = 1 << 30
STREAM_BYTES = 10 * GIB
BATCH_ROWS = 128
BATCHES = STREAM_BYTES // (BATCH_ROWS << 16)

PEAK = """
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
"""

CONSUMERS = {
    "a slow function": """
@daft.func.batch(return_dtype=daft.DataType.int64())
def slowly(id, padding):
    time.sleep(0.002)
    return id
frame = frame.select(slowly(daft.col("id"), daft.col("padding")).alias("id"))
print(json.dumps({"rows": frame.count_rows(), "peak": peak()}))
""",
    "a slow loop": """
rows = 0
for batch in frame.to_arrow_iter():
    time.sleep(0.002)
    rows += batch.num_rows
print(json.dumps({"rows": rows, "peak": peak()}))
""",
}

HOLDERS = {
    "collect": "len(frame.collect())",
    "sort": "len(frame.sort('id', desc=True).collect())",
    "join": "len(frame.join(frame, on='id').collect())",
    "group": "len(frame.groupby('id').agg(daft.col('padding').any_value()).collect())",
    "partitions": "sum(len(part) for part in list(frame.iter_partitions()))",
}


def run(code: str, url: str) -> dict[str, int]:
    """What a program prints about the table of a URL."""
    start = (
        "import json, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import conftest, daft\n"
        "from lightstream_daft import read_lightstream\n" + PEAK + "frame = read_lightstream(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", start + code, url], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    counted: dict[str, int] = json.loads(done.stdout)
    return counted


@pytest.fixture(scope="module")
def stream() -> Iterator[core.Server]:
    """Ten gigabytes, made as they are read."""
    batch = conftest.padded(pa.table({"id": range(BATCH_ROWS)})).to_batches()[0]

    def made() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(BATCHES)))

    with served({"t": made}) as server:
        yield server


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_slow_consumer_of_ten_gigabytes_needs_less_than_one(stream: core.Server, consumer: str) -> None:
    with traffic(stream) as sent:
        counted = run(CONSUMERS[consumer], f"{stream.url}/t")
    print(consumer, {name: f"{value:,}" for name, value in counted.items()}, f"sent {sent.nbytes:,} bytes")
    assert counted["rows"] == BATCHES * BATCH_ROWS
    assert sent.nbytes >= STREAM_BYTES
    assert counted["peak"] < GIB


def test_only_scans_that_may_not_fit_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = connection("lightstream://127.0.0.1:1/t", None, None)
    assert memory_limit(made, None) == MEMORY_LIMIT
    assert memory_limit(made, 100 * GIB) == MEMORY_LIMIT
    assert memory_limit(made, 1 << 20) is None
    monkeypatch.setenv("LIGHTSTREAM_MEMORY_LIMIT", "1MiB")
    # What is said is left to the connection.
    assert memory_limit(connection("lightstream://127.0.0.1:1/t", None, None), None) is None


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_keeps_all_rows_ends_with_a_hundredth_of_the_memory(holder: str) -> None:
    table = conftest.padded(pa.table({"id": range(400)}))
    with served({"t": pa.concat_tables([table, table.slice(0, 100)])}) as server:
        bound = 500 * (1 << 16) // 100
        counted = run(
            f'print(json.dumps({{"rows": {HOLDERS[holder]}}}))', f"{server.url}/t?memory_limit={bound}"
        )
    assert counted["rows"] == {"join": 100 * 4 + 300, "group": 400}.get(holder, 500)
