"""What users write, for the type checker alone: it is never run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import List, Optional

import lightstream_core as ls


class Rows:
    """Stands for a table of any package."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        raise NotImplementedError


def whole(table: Rows) -> List[int]:
    with ls.serve({"t": table, "file": Path("t.arrow"), "made": lambda: table}, listen=["lightstream://127.0.0.1:0"]) as server:
        client: ls.Client = ls.connect(server.url, retries=3, read_timeout=1.5, storage_options={"ordered": True})
        names: List[str] = client.tables()
        info: ls.Table = client.table(names[0])
        rows: Optional[int] = info.num_rows
        condition = ls.Expr.compare("<", ls.Expr.column("n"), ls.Expr.literal(table))
        scan = client.scan(
            "t", columns=["n"], where=[condition], float_rule="ieee", limit=rows, types={"utf8": "utf8_view"}
        )
        counts = [batch.num_rows for batch in scan]
        for partition in scan.partitions:
            with partition.read(limit=5) as reader:
                counts.extend(batch.num_rows for batch in reader)
                counts.append(reader.metrics["bytes"])
        names.extend(field.name for field in scan.schema)
        with ls.serve({"again": scan, "batch": next(scan.read())}):
            pass
        return counts


async def later(url: str) -> int:
    client = await ls.connect_async(url)
    scan = await client.scan_async(columns=[0, 2], where="n < 3", residual="caller")
    tables: List[str] = await client.tables_async()
    seconds: float = await asyncio.wait_for(client.ping_async(), 1)
    rows = len(tables) + round(seconds)
    async for batch in scan:
        rows += batch.num_rows
    first: ls.Batch = await scan.read().__anext__()
    return rows + len(first)


def failures(url: str) -> Optional[str]:
    try:
        ls.connect(url)
    except ls.NotFoundError as error:
        return error.table
    except ls.LightstreamError as error:
        code: str = error.code
        return code if error.retryable else error.peer
    return None
