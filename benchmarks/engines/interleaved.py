"""Systems that take turns: every query is run by each in each round, after one round to warm up, and answers are compared.

Each system is queried from a process of its own, and served from another.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from processes import Peer

SERVED = ("lightstream", "flight")
"""The systems of `serve.py`."""


def measure(
    client: str, places: Mapping[str, str], queries: Iterable[str], rows: int, rounds: int, **question: Any
) -> list[dict[str, Any]]:
    """Times the queries of a client's script. `places` are the systems that need no server, by name; others are served."""
    servers = {system: Peer("serve.py", system, str(rows)) for system in SERVED}
    everywhere = {system: server.ready["url"] for system, server in servers.items()} | places
    clients = {system: Peer(client, system, place) for system, place in everywhere.items()}
    records = []
    for query in queries:
        runs: dict[str, list[dict[str, Any]]] = {system: [] for system in clients}
        for turn in range(rounds + 1):
            for system, peer in clients.items():
                server = servers.get(system)
                before = server.cpu_seconds() if server else 0.0
                run = peer.ask(query=query, **question)
                run["cpu_s"] += (server.cpu_seconds() if server else 0.0) - before
                if turn > 0:
                    runs[system].append(run)
        compare(query, runs)
        for system, taken in runs.items():
            seconds = sorted(run["seconds"] for run in taken)
            records.append(
                {
                    "system": system,
                    "query": query,
                    **question,
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
    """Ends the benchmark where a system's answer is not that of the last one, which is local."""
    expected = list(runs.values())[-1][0]
    for system, taken in runs.items():
        for run in taken:
            same = math.isclose(run["check"], expected["check"], rel_tol=1e-6)
            if run["rows"] != expected["rows"] or not same:
                raise SystemExit(f"{query}: {system} gives {run}, local data {expected}")


def show(records: list[dict[str, Any]], *keys: str) -> None:
    """Prints the records as a table; `keys` are what the questions said besides the query."""
    of = lambda record: (*(record[key] for key in keys), record["query"])  # noqa: E731
    best = {of(r): r["seconds"]["median"] for r in records if r["system"] == "lightstream"}
    names = "".join(f"{key:<11}" for key in keys)
    print(
        f"{names}{'query':<12}{'system':<12}{'ms (least to greatest)':>28} {'CPU ms':>8} {'peak MiB':>9} {'x lightstream':>14}"
    )
    for r in records:
        seconds = r["seconds"]
        times = f"{seconds['median'] * 1e3:.1f} ({seconds['min'] * 1e3:.1f} to {seconds['max'] * 1e3:.1f})"
        ratio = seconds["median"] / best[of(r)]
        names = "".join(f"{r[key]:<11}" for key in keys)
        print(
            f"{names}{r['query']:<12}{r['system']:<12}{times:>28} {r['cpu_s'] * 1e3:>8.0f}"
            f" {r['peak_rss_bytes'] >> 20:>9} {ratio:>14.2f}"
        )
