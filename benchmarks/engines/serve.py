"""Serves the table by one system: `serve.py lightstream|flight ROWS`. Says where, and stays until its input is closed."""

import sys

import pyarrow as pa

import data
from processes import answer_questions, say


def serve_lightstream(table: pa.Table) -> None:
    import lightstream_core

    with lightstream_core.serve({"orders": table}) as server:
        say({"url": f"{server.url}/orders"})
        answer_questions(lambda _: dict(server.stats()))


def serve_flight(table: pa.Table) -> None:
    import pyarrow.flight as flight

    class Orders(flight.FlightServerBase):
        """One ticket: the whole table, in messages of about a batch each."""

        def do_get(self, context: object, ticket: object) -> flight.RecordBatchStream:
            return flight.RecordBatchStream(table)

    with Orders("grpc://127.0.0.1:0") as server:
        say({"url": f"grpc://127.0.0.1:{server.port}"})
        answer_questions(lambda _: {})


if __name__ == "__main__":
    system, rows = sys.argv[1], int(sys.argv[2])
    {"lightstream": serve_lightstream, "flight": serve_flight}[system](data.table(rows))
