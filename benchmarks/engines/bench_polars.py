"""Times Polars over Lightstream, over Arrow Flight and over a local Parquet file of the same table, interleaved.

Every query is run by every system in each round, after one round to warm up; the answers are compared. Each system is
queried from a process of its own, and served from another. Flight is used as one does with Polars: `do_get`, `read_all`,
`from_arrow`; it has no way to say which rows and columns are wanted.
"""

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

import data
from polars_client import EXPRESSIONS
from processes import Peer

SYSTEMS = ["lightstream", "flight", "parquet"]


def measure(rows: int, rounds: int, engine: str, folder: Path) -> list[dict[str, Any]]:
    servers = {system: Peer("serve.py", system, str(rows)) for system in ("lightstream", "flight")}
    places = {system: server.ready["url"] for system, server in servers.items()}
    places["parquet"] = str(data.parquet(rows, folder))
    clients = {system: Peer("polars_client.py", system, places[system]) for system in SYSTEMS}
    records = []
    for query in EXPRESSIONS:
        runs: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
        for turn in range(rounds + 1):
            for system, client in clients.items():
                server = servers.get(system)
                before = server.cpu_seconds() if server else 0.0
                run = client.ask(query=query, engine=engine)
                run["cpu_s"] += (server.cpu_seconds() if server else 0.0) - before
                if turn > 0:
                    runs[system].append(run)
        compare(query, runs)
        for system, taken in runs.items():
            seconds = sorted(run["seconds"] for run in taken)
            records.append(
                {
                    "system": f"polars-{system}",
                    "query": query,
                    "engine": engine,
                    "rows": taken[0]["rows"],
                    "seconds": {
                        "median": statistics.median(seconds),
                        "min": seconds[0],
                        "max": seconds[-1],
                    },
                    "cpu_s": statistics.median(run["cpu_s"] for run in taken),
                    "peak_rss_bytes": max(run["peak_rss_bytes"] for run in taken),
                }
            )
    for peer in (*clients.values(), *servers.values()):
        peer.stop()
    return records


def compare(query: str, runs: dict[str, list[dict[str, Any]]]) -> None:
    expected = runs["parquet"][0]
    for system, taken in runs.items():
        for run in taken:
            same = math.isclose(run["check"], expected["check"], rel_tol=1e-6)
            if run["rows"] != expected["rows"] or not same:
                raise SystemExit(f"{query}: {system} gives {run}, local Parquet {expected}")


def show(records: list[dict[str, Any]]) -> None:
    best = {(r["engine"], r["query"]): r["seconds"]["median"] for r in records if r["system"] == "polars-lightstream"}
    print(f"{'engine':<10} {'query':<10} {'system':<19} {'ms (least to greatest)':>28} {'CPU ms':>8} {'peak MiB':>9} {'x lightstream':>14}")
    for r in records:
        seconds = r["seconds"]
        times = f"{seconds['median'] * 1e3:.1f} ({seconds['min'] * 1e3:.1f} to {seconds['max'] * 1e3:.1f})"
        ratio = seconds["median"] / best[r["engine"], r["query"]]
        print(
            f"{r['engine']:<10} {r['query']:<10} {r['system']:<19} {times:>28} {r['cpu_s'] * 1e3:>8.0f}"
            f" {r['peak_rss_bytes'] >> 20:>9} {ratio:>14.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="in-memory,streaming", help="engines of Polars, by commas")
    parser.add_argument("--out", type=Path, default=Path("target/bench"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    records = []
    for engine in arguments.engines.split(","):
        records += measure(arguments.rows, arguments.rounds, engine, arguments.out)
    show(records)
    path = arguments.out / "polars.json"
    path.write_text(json.dumps(records, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
