"""Queries the table with Polars through one system: `polars_client.py lightstream|flight|parquet PLACE`."""

import sys
from typing import Any, Callable

import polars as pl

from processes import answer_questions, say, timed

EXPRESSIONS: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "collect": lambda frame: frame,
    "filter-1%": lambda frame: frame.filter(pl.col("group") == 7).select("id", "price", "note"),
    "sum": lambda frame: frame.select(pl.col("price").sum(), pl.col("amount").sum()),
    "group-by": lambda frame: frame.group_by("city").agg(pl.len(), pl.col("price").mean()).sort("city"),
    "head": lambda frame: frame.head(10),
}


def frames(system: str, place: str) -> Callable[[], pl.LazyFrame]:
    if system == "parquet":
        return lambda: pl.scan_parquet(place)
    if system == "lightstream":
        from lightstream_polars import scan_lightstream

        return lambda: scan_lightstream(place)
    import pyarrow.flight as flight

    client = flight.connect(place)

    def read() -> pl.LazyFrame:
        frame = pl.from_arrow(client.do_get(flight.Ticket(b"[[], 0, 1]")).read_all())
        assert isinstance(frame, pl.DataFrame)
        return frame.lazy()

    return read


def main(system: str, place: str) -> None:
    frame = frames(system, place)

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            result = EXPRESSIONS[question["query"]](frame()).collect(engine=question["engine"])
            return {"rows": result.height, "check": check(result)}

        return timed(work)

    say({"ready": True})
    answer_questions(answer)


def check(result: pl.DataFrame) -> float:
    """The sum of all numbers, by which answers are compared."""
    numbers = result.select(pl.selectors.numeric().cast(pl.Float64).sum())
    return float(sum(value or 0.0 for value in numbers.row(0))) if numbers.width else 0.0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
