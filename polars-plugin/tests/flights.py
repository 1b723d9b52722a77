"""Questions about the flights that left New York in 2013, over LazyFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

import polars as pl
from polars import col

Tables = Mapping[str, pl.LazyFrame]

QUERIES: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    "late in July by airline": lambda t: (
        t["flights"]
        .filter(col("month") == 7)
        .join(t["airlines"], on="carrier")
        .group_by("name")
        .agg(pl.len().alias("flights"), col("arr_delay").mean().round(1).alias("minutes_late"))
        .sort("minutes_late", descending=True)
        .head(5)
    ),
    "distances by origin": lambda t: (
        t["flights"]
        .group_by("origin")
        .agg(pl.len(), col("distance").mean().alias("mean"), col("distance").max().alias("most"))
        .sort("origin")
    ),
    "over fifteen hours late": lambda t: (
        t["flights"]
        .filter(col("arr_delay") > 900)
        .select("month", "day", "carrier", "flight", "origin", "dest", "arr_delay")
        .sort("arr_delay", descending=True)
    ),
    "a day by the clock": lambda t: (
        t["flights"]
        .filter(
            col("time_hour") >= datetime(2013, 2, 8, 12, tzinfo=timezone.utc),
            col("time_hour") < datetime(2013, 2, 9, 12, tzinfo=timezone.utc),
            col("origin").is_in(["JFK", "LGA"]),
        )
        .group_by("origin", "hour")
        .agg(col("dep_delay").count().alias("departed"), col("dep_delay").is_null().sum().alias("cancelled"))
        .sort("origin", "hour")
    ),
    "old planes that are still in the air": lambda t: (
        t["planes"]
        .filter(col("year") < 1970, col("manufacturer").str.starts_with("B"), col("speed").is_null())
        .join(t["flights"], on="tailnum")
        .select("tailnum", "model", "dest", "distance")
        .unique()
        .sort("tailnum", "dest")
    ),
    "storms": lambda t: (
        t["weather"]
        .filter((col("wind_gust") > 40) | (col("precip") >= 0.5), col("visib").is_not_null())
        .join(t["flights"].filter(col("dep_delay") > 60), on=["origin", "time_hour"])
        .group_by("origin")
        .agg(pl.len(), col("dep_delay").max())
        .sort("origin")
    ),
    "the first rows": lambda t: t["flights"].select("year", "month", "day", "tailnum").head(20),
    "the last rows": lambda t: t["flights"].tail(20),
    "some in the middle": lambda t: t["flights"].slice(200_000, 7),
    "how many": lambda t: t["flights"].filter(col("air_time").is_null()).select(pl.len()),
}
