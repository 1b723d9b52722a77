"""Serves the table by one system: `serve.py lightstream|flight ROWS`. Says where, and stays until its input is closed."""

import json
import sys

import pyarrow as pa

import data
from processes import answer_questions, say

PARTS = 8
"""Endpoints of a flight."""


def serve_lightstream(table: pa.Table) -> None:
    import lightstream_core

    with lightstream_core.serve({"orders": table}) as server:
        say({"url": f"{server.url}/orders"})
        answer_questions(lambda _: dict(server.stats()))


def serve_flight(table: pa.Table) -> None:
    import pyarrow.flight as flight

    class Orders(flight.FlightServerBase):
        """A ticket is JSON: columns, and which part of how many; messages are of about a batch each."""

        def get_flight_info(self, context: object, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
            columns = json.loads(descriptor.command) or table.column_names
            endpoints = [flight.FlightEndpoint(json.dumps([columns, n, PARTS]).encode(), []) for n in range(PARTS)]
            return flight.FlightInfo(table.select(columns).schema, descriptor, endpoints, table.num_rows, table.nbytes)

        def do_get(self, context: object, ticket: flight.Ticket) -> flight.RecordBatchStream:
            columns, part, parts = json.loads(ticket.ticket)
            first, end = table.num_rows * part // parts, table.num_rows * (part + 1) // parts
            return flight.RecordBatchStream(table.select(columns or table.column_names).slice(first, end - first))

    with Orders("grpc://127.0.0.1:0") as server:
        say({"url": f"grpc://127.0.0.1:{server.port}"})
        answer_questions(lambda _: {})


if __name__ == "__main__":
    system, rows = sys.argv[1], int(sys.argv[2])
    {"lightstream": serve_lightstream, "flight": serve_flight}[system](data.table(rows))
