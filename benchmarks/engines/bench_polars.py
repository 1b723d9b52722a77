"""Times Polars over Lightstream, over Arrow Flight and over a local Parquet file of the same table, interleaved.

Flight is used as one does with Polars: `do_get`, `read_all`, `from_arrow`; it has no way to say which rows and columns are
wanted.
"""

import argparse
import json
from pathlib import Path

import data
from interleaved import measure, show
from polars_client import EXPRESSIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="in-memory,streaming", help="engines of Polars, by commas")
    parser.add_argument("--out", type=Path, default=Path("target/bench"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    places = {"parquet": str(data.parquet(arguments.rows, arguments.out))}
    records = []
    for engine in arguments.engines.split(","):
        records += measure(
            "polars_client.py", places, EXPRESSIONS, arguments.rows, arguments.rounds, engine=engine
        )
    show(records, "engine")
    path = arguments.out / "polars.json"
    path.write_text(json.dumps(records, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
