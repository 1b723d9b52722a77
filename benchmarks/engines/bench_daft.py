"""Times Daft over Lightstream, over Arrow Flight and over the same table in its own memory, interleaved.

Flight is a data source of Daft written the straightforward way: an endpoint of the flight is a task, which gives the
batches of `do_get` as they come. The server knows columns by name, in the ticket.
"""

import argparse
import json
from pathlib import Path

from daft_client import QUERIES
from interleaved import measure, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("target/bench"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    places = {"in-process": str(arguments.rows)}
    records = measure("daft_client.py", places, QUERIES, arguments.rows, arguments.rounds)
    show(records)
    path = arguments.out / "daft.json"
    path.write_text(json.dumps(records, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
