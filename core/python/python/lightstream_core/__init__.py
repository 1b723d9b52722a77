"""Tables of Lightstream servers in Python, and tables of Python on a Lightstream server.

Rows cross as Arrow data through PyCapsules: whatever takes or gives ``__arrow_c_stream__`` (pyarrow, Polars, DuckDB,
pandas and others) works with this, and none of them is needed.

>>> import lightstream_core as ls                                                             # doctest: +SKIP
>>> with ls.serve({"flights": table}) as server:                                              # doctest: +SKIP
...     client = ls.connect(server.url)
...     pyarrow.table(client.scan("flights", columns=["carrier"], where="month = 7"))
"""

from __future__ import annotations

import atexit

from . import _native
from ._connection import Connection, CredentialProvider
from ._errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    ExpiredError,
    InternalError,
    InvalidArgumentError,
    LightstreamError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from ._native import (
    Batch,
    Client,
    Expr,
    Field,
    Partition,
    Reader,
    Scan,
    Schema,
    Server,
    Table,
    connect,
    connect_async,
    serve,
)

__all__ = [
    "Batch",
    "CancelledError",
    "Client",
    "Connection",
    "CredentialProvider",
    "DataLossError",
    "DeadlineExceededError",
    "ExpiredError",
    "Expr",
    "Field",
    "InternalError",
    "InvalidArgumentError",
    "LightstreamError",
    "NotFoundError",
    "Partition",
    "PermissionDeniedError",
    "Reader",
    "ResourceExhaustedError",
    "Scan",
    "Schema",
    "Server",
    "Table",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "connect",
    "connect_async",
    "serve",
]

# At the end of the interpreter servers are stopped, and threads leave it while it is still whole.
atexit.register(_native._end)
