"""The same table read by Daft on Ray: each worker reads its partitions straight from the server.

`ray.init()` starts a cluster of this machine; with an address it joins one. Workers take the token from their own
environment: what travels with a task holds no secrets.
"""

from pathlib import Path

import daft
import lightstream_core
import pyarrow.parquet as pq
import ray
from daft import col
from lightstream_daft import read_lightstream

DATA = Path(__file__).parent / "data"
TOKEN = "for this example alone"


def check(token: str | None) -> str:
    """Says whose a token is; the server asks it of every connection."""
    if token != TOKEN:
        raise PermissionError("this token is not known")
    return "example"


ray.init(
    num_cpus=2,
    include_dashboard=False,
    log_to_driver=False,
    logging_level="ERROR",
    runtime_env={"env_vars": {"LIGHTSTREAM_TOKEN": TOKEN}},
)
daft.set_runner_ray()

with lightstream_core.serve({"flights": pq.read_table(DATA / "flights.parquet")}, authenticator=check) as server:
    flights = read_lightstream(f"{server.url}/flights", storage_options={"token": TOKEN, "partitions": 8})
    by_origin = (
        flights.where(col("month") == 7)
        .groupby("origin")
        .agg(col("flight").count().alias("flights"), col("distance").sum().alias("miles"))
        .sort("origin")
    )
    for row in by_origin.to_pylist():
        print(row)
