"""Flights out of New York in 2013, on a server, queried with Daft.

Here one process is both sides, so that it runs anywhere: `lightstream serve` is the server elsewhere, and the URL is all
that changes.
"""

from pathlib import Path

import daft
import lightstream_core
import pyarrow.parquet as pq
from daft import col
from lightstream_daft import LightstreamCatalog, read_lightstream

DATA = Path(__file__).parent / "data"
TABLES = {name: pq.read_table(DATA / f"{name}.parquet") for name in ("flights", "airlines", "weather")}

with lightstream_core.serve(TABLES) as server:
    flights = read_lightstream(f"{server.url}/flights")
    print(f"{flights.count_rows()} flights")

    before = server.stats()
    late = flights.where(col("arr_delay") > 900).select("month", "day", "carrier", "arr_delay").sort("arr_delay", desc=True)
    for row in late.to_pylist():
        print(row)
    sent = server.stats()["rows_sent"] - before["rows_sent"]
    print(f"the server sent {sent} rows for that")

    session = daft.Session()
    session.attach_catalog(LightstreamCatalog(server.url), alias="far")
    punctual = session.sql(
        """
        SELECT name, count(*) AS flights, round(avg(arr_delay), 1) AS minutes_late
        FROM far.flights JOIN far.airlines ON flights.carrier = airlines.carrier
        WHERE month = 7 GROUP BY name ORDER BY minutes_late LIMIT 3
        """
    )
    for row in punctual.to_pylist():
        print(row)
