# The native part. Everything public is exported by `lightstream_core`, where it is to be imported from.

from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import (
    Any,
    Callable,
    Coroutine,
    Dict,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
    final,
)

__all__ = [
    "Batch",
    "Client",
    "Expr",
    "Field",
    "Partition",
    "Reader",
    "Scan",
    "Schema",
    "Server",
    "Table",
    "_client",
    "_end",
    "_partition",
    "_portable",
    "connect",
    "connect_async",
    "serve",
]

class _ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: Optional[object] = None) -> Tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...

_Rows = Union[_ArrowStream, _ArrowArray]
_Option = Union[str, int, float, bool, timedelta, None]
_Support = Literal["exact", "inexact", "unsupported"]
_FloatRule = Literal["total_order", "total_order_zero_equal", "nan_largest", "ieee"]
_Compare = Literal["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
_Arithmetic = Literal["+", "-", "*", "/", "%"]

@final
class Field:
    """A column: its name, its Arrow type as text, and whether it may hold nulls."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def nullable(self) -> bool: ...
    def __arrow_c_schema__(self) -> object: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Schema:
    """The columns of a table or scan."""

    @property
    def names(self) -> List[str]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Field]: ...
    def __getitem__(self, key: Union[str, int], /) -> Field: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Table:
    """A table as the server describes it, at one snapshot."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def snapshot(self) -> Optional[str]:
        """The state that is described; None where it does not outlive a scan."""

    @property
    def num_rows(self) -> Optional[int]:
        """How many rows there are, where that is known for certain."""

    @property
    def estimated_rows(self) -> Optional[int]:
        """How many rows there are, as far as is known."""

    @property
    def nbytes(self) -> Optional[int]:
        """Bytes in memory, as far as is known."""

    @property
    def ordering(self) -> List[Tuple[List[str], bool, bool]]:
        """The order of the rows: for each column its path, whether it descends, and whether nulls come first."""

    def __arrow_c_schema__(self) -> object: ...

@final
class Batch:
    """Rows that have come, as one Arrow array of structs.

    Their memory is freed with the last array that points into it.
    """

    @property
    def num_rows(self) -> int: ...
    @property
    def num_columns(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes of the buffers that the arrays point into, shared ones counted once for each array."""

    @property
    def schema(self) -> Schema: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: Optional[object] = None) -> Tuple[object, object]:
        """The rows as they are: what is requested is not looked at."""

    def __len__(self) -> int: ...

@final
class Reader:
    """The rows of a scan or partition, batch by batch, for loops and asynchronous loops.

    It ends only once all rows have come and the server has said so; what is missing is an error. Nothing is sent before
    the first batch is wanted, and no more is read than is wanted (but for what is on its way). Closing or dropping it
    cancels the read at the server. After an error nothing more comes.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def rows_read(self) -> int:
        """Rows that this has given."""

    @property
    def bytes_read(self) -> int:
        """Bytes of rows that have come in."""

    @property
    def metrics(self) -> Dict[str, int]:
        """What has come in so far.

        ``rows``, ``bytes`` and ``frames`` as they came from the server, and ``retries``, how often reading was taken up
        again after a connection was lost.
        """

    def __iter__(self) -> Reader: ...
    def __next__(self) -> Batch: ...
    def __aiter__(self) -> Reader: ...
    def __anext__(self) -> Coroutine[Any, Any, Batch]:
        """The next batch. Cancelling it loses no rows: they are the next then."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The rows that are left, in the types that they have: what is requested is not looked at.

        After this they come no other way. An error shows as the consumer's own, with the message of this one.
        """

    def __arrow_c_schema__(self) -> object: ...
    def close(self) -> None:
        """End the read and tell the server. Whoever waits for rows of this gets a ``cancelled`` error."""

    def __enter__(self) -> Reader: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        value: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None: ...

@final
class Partition:
    """A part of a scan that is read on its own. No row is in two partitions, and together they are the whole.

    It can be pickled: what is pickled holds the server's URL, the options without secrets and a ticket, which lets
    whoever has it read these rows while it is good. Another process takes secrets from its own environment, and connects
    when it first reads.
    """

    @property
    def index(self) -> int:
        """Its place among the partitions of the scan."""

    @property
    def url(self) -> str:
        """The server that is read from."""

    @property
    def estimated_rows(self) -> Optional[int]:
        """How many rows there are at most, as far as is known; filters are not counted in."""

    @property
    def rows(self) -> Optional[int]:
        """How many rows a read gives, where that is known for certain."""

    @property
    def nbytes(self) -> Optional[int]:
        """Bytes in memory before filters, as far as is known."""

    @property
    def schema(self) -> Schema: ...
    def read(
        self,
        *,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
        client: Optional[Client] = None,
        memory_limit: Optional[int] = None,
    ) -> Reader:
        """Read the rows behind the first ``offset``, at most ``limit`` of them. Each call is a read of its own.

        The server leaves out the rows of ``offset``, unless some of the condition is applied here. They count towards the
        limit of the scan. Beyond the end there are none, which is no error.

        They come over the connections of ``client``, and with its options and credentials, where one is given. A
        ``memory_limit``, in bytes, stands in place of that option.
        """

    def __reduce__(self) -> Tuple[Any, Tuple[Any, ...]]: ...

@final
class Scan:
    """A planned scan.

    Its plan is good for a while (an hour unless the server says otherwise), and for as many reads as are wanted: each
    gives all rows.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def snapshot(self) -> Optional[str]:
        """The state that is read; None where it does not outlive the plan."""

    @property
    def ordering(self) -> List[Tuple[List[str], bool, bool]]:
        """The order of the rows, partition after partition, as in `Table.ordering`."""

    @property
    def num_rows(self) -> Optional[int]:
        """How many rows there are, where that is known for certain; a limit is not counted in."""

    @property
    def estimated_rows(self) -> Optional[int]:
        """How many rows there are, as far as is known; a limit is not counted in."""

    @property
    def nbytes(self) -> Optional[int]:
        """Bytes in memory, as far as is known; a limit is not counted in."""

    @property
    def partitions(self) -> List[Partition]:
        """The partitions in the table's order."""

    @property
    def filters(self) -> List[_Support]:
        """How far the server applies each conjunct of ``where``.

        What is not ``exact`` is applied as rows come in, here and in partitions that are read elsewhere, unless the scan
        was made with ``residual="caller"``.
        """

    def read(self) -> Reader:
        """Read all rows."""

    def __iter__(self) -> Reader: ...
    def __aiter__(self) -> Reader: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """All rows, in the types that they have: what is requested is not looked at. Each call is a read of its own."""

    def __arrow_c_schema__(self) -> object: ...

@final
class Client:
    """A client of one server. It may be used from several threads at once.

    Waiting gives up Python's lock, and ends with what a signal raises. The methods that end in ``_async`` return
    coroutines; cancelling one ends its work. All raise `LightstreamError`.
    """

    @property
    def url(self) -> str:
        """The server's URL, without table and options."""

    @property
    def default_table(self) -> Optional[str]:
        """The table that the URL named."""

    def ping(self) -> float:
        """Ask whether the server is there; return how many seconds the answer took."""

    def ping_async(self) -> Coroutine[Any, Any, float]: ...
    def tables(self) -> List[str]:
        """The names of all tables, in order."""

    def tables_async(self) -> Coroutine[Any, Any, List[str]]: ...
    def table(self, name: Optional[str] = None, *, snapshot: Optional[str] = None) -> Table:
        """What a table is, at a snapshot or the newest. Without a name it is the one of the URL."""

    def table_async(
        self, name: Optional[str] = None, *, snapshot: Optional[str] = None
    ) -> Coroutine[Any, Any, Table]: ...
    def scan(
        self,
        table: Optional[str] = None,
        *,
        columns: Optional[Union[Sequence[str], Sequence[int]]] = None,
        where: Optional[Union[str, Expr, Sequence[Expr]]] = None,
        float_rule: Optional[_FloatRule] = None,
        limit: Optional[int] = None,
        partitions: Optional[int] = None,
        ordered: Optional[bool] = None,
        snapshot: Optional[str] = None,
        types: Optional[Mapping[str, str]] = None,
        residual: Literal["scan", "caller"] = "scan",
    ) -> Scan:
        """Plan a scan of a table. No rows are read yet.

        ``columns`` are names, or positions from 0 on; none at all (an empty sequence) gives counts of rows alone.
        ``where`` is SQL as it stands after WHERE, one condition (both are split at AND), or several, each judged on its
        own. ``float_rule`` says how floats compare (``total_order_zero_equal`` by default). ``limit`` counts for the
        whole scan, and for each partition that is read alone. ``partitions`` is the most that there will be. With
        ``ordered`` rows come in the table's order, in one partition unless ``partitions`` says otherwise. ``types`` maps
        kinds of types that are not wanted to kinds that are, or to ``refuse``. With ``residual="caller"`` rows that the
        server does not filter exactly come too, and where there are such no limit is applied.
        """

    def scan_async(
        self,
        table: Optional[str] = None,
        *,
        columns: Optional[Union[Sequence[str], Sequence[int]]] = None,
        where: Optional[Union[str, Expr, Sequence[Expr]]] = None,
        float_rule: Optional[_FloatRule] = None,
        limit: Optional[int] = None,
        partitions: Optional[int] = None,
        ordered: Optional[bool] = None,
        snapshot: Optional[str] = None,
        types: Optional[Mapping[str, str]] = None,
        residual: Literal["scan", "caller"] = "scan",
    ) -> Coroutine[Any, Any, Scan]: ...
    def query(
        self, sql: str, *, partitions: Optional[int] = None, types: Optional[Mapping[str, str]] = None
    ) -> Scan:
        """Plan a scan of the result of a query in the server's own SQL."""

    def query_async(
        self, sql: str, *, partitions: Optional[int] = None, types: Optional[Mapping[str, str]] = None
    ) -> Coroutine[Any, Any, Scan]: ...

@final
class Expr:
    """A condition, or a value within one: what a filter is made of, whatever engine it comes from.

    Constants keep their exact Arrow types. What a node means is what SQL says, with its three-valued logic.
    """

    @staticmethod
    def column(name: str, *struct_path: str) -> Expr:
        """A column; further names are fields of structs within it."""

    @staticmethod
    def literal(value: _Rows) -> Expr:
        """The only value of something with ``__arrow_c_array__`` or ``__arrow_c_stream__``."""

    @staticmethod
    def compare(op: _Compare, left: Expr, right: Expr) -> Expr: ...
    @staticmethod
    def and_(operands: Sequence[Expr]) -> Expr: ...
    @staticmethod
    def or_(operands: Sequence[Expr]) -> Expr: ...
    @staticmethod
    def not_(operand: Expr) -> Expr: ...
    @staticmethod
    def is_null(operand: Expr) -> Expr: ...
    @staticmethod
    def is_not_null(operand: Expr) -> Expr: ...
    @staticmethod
    def is_nan(operand: Expr) -> Expr: ...
    @staticmethod
    def is_in(operand: Expr, values: _Rows, negated: bool = False) -> Expr:
        """Whether the operand is among the values of something with ``__arrow_c_array__`` or ``__arrow_c_stream__``."""

    @staticmethod
    def between(operand: Expr, low: Expr, high: Expr, negated: bool = False) -> Expr: ...
    @staticmethod
    def like(operand: Expr, pattern: Expr, case_insensitive: bool = False, negated: bool = False) -> Expr: ...
    @staticmethod
    def starts_with(operand: Expr, text: Expr) -> Expr: ...
    @staticmethod
    def ends_with(operand: Expr, text: Expr) -> Expr: ...
    @staticmethod
    def contains(operand: Expr, text: Expr) -> Expr: ...
    @staticmethod
    def cast(operand: Expr, to: _ArrowSchema) -> Expr:
        """A cast that cannot lose a value, to the type of something with ``__arrow_c_schema__``."""

    @staticmethod
    def arithmetic(op: _Arithmetic, left: Expr, right: Expr) -> Expr: ...
    @staticmethod
    def parse(sql: str, schema: _ArrowSchema) -> List[Expr]:
        """Read a condition as it stands after WHERE, over columns of a schema, and split it at AND."""

    def support(self, schema: _ArrowSchema, float_rule: Optional[_FloatRule] = None) -> _Support:
        """How far the condition can be applied away from an engine that compares floats by this rule."""

    def columns(self) -> Set[str]:
        """The names of the top-level columns that are read."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class Server:
    """A running server. It ends when stopped, when a ``with`` block ends, or when nothing refers to it any more."""

    @property
    def url(self) -> str:
        """The URL of the first place that it listens at, with the port that was taken."""

    @property
    def urls(self) -> List[str]:
        """The URLs of all places."""

    def stats(self) -> Dict[str, int]:
        """What it has done since it started.

        ``connections`` accepted, ``plans`` made, ``scans`` (partitions that readers began), ``active_connections`` and
        ``active_scans`` now, ``batches_sent``, ``rows_sent`` and ``bytes_sent`` of rows, and ``errors`` answered. The
        numbers settle once ``active_scans`` is 0, and stay after it was stopped.
        """

    def stop(self, drain: float = 0.0) -> bool:
        """Accept no more connections, let scans under way finish for ``drain`` seconds, then end.

        Returns whether all of them finished. Stopping again does nothing.
        """

    def __enter__(self) -> Server: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        value: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None: ...

def connect(
    url: str,
    *,
    storage_options: Optional[Mapping[str, _Option]] = None,
    credential_provider: Optional[Callable[[], Union[str, Mapping[str, str]]]] = None,
    **options: _Option,
) -> Client:
    """Connect to the server that a URL names, and wait until it has answered.

    Options go by name, as keywords, or in ``storage_options`` below those; both go before the URL's own, and those
    before the environment (``LIGHTSTREAM_READ_TIMEOUT`` and so on). Numbers are seconds where a time is wanted, and
    bytes where a size is.

    ``credential_provider`` is called for a token (as text, or as ``{"token": …}``) when the first connection is made,
    and again when the server refuses the last one; it goes before the options ``token`` and ``token_file``. It is called
    from another thread, and what it raises becomes an ``unauthenticated`` error with its message. It has as long as a
    connection may take (``connect_timeout``, 10 seconds unless set); then the request fails with ``deadline_exceeded``,
    while the call itself is left to end. Partitions that are pickled leave it behind.

    With ``tls=skip-verify`` a `RuntimeWarning` says that nobody checks who the server is.
    """

def connect_async(
    url: str,
    *,
    storage_options: Optional[Mapping[str, _Option]] = None,
    credential_provider: Optional[Callable[[], Union[str, Mapping[str, str]]]] = None,
    **options: _Option,
) -> Coroutine[Any, Any, Client]: ...
def serve(
    tables: Mapping[str, Union[_Rows, str, PathLike[str], Callable[[], _Rows]]],
    *,
    listen: Union[str, Sequence[str], None] = None,
    ticket_key: Optional[bytes] = None,
    authenticator: Optional[Callable[[Optional[str]], str]] = None,
    token_file: Union[str, PathLike[str], None] = None,
    tls_cert: Union[str, PathLike[str], None] = None,
    tls_key: Union[str, PathLike[str], None] = None,
    tls_client_ca: Union[str, PathLike[str], None] = None,
    max_connections: Optional[int] = None,
    max_scans: Optional[int] = None,
) -> Server:
    """Serve tables by name until the server is stopped.

    A table is something with ``__arrow_c_stream__`` or ``__arrow_c_array__``, which is read now and kept in memory
    without copying; the path of an Arrow IPC file or stream, which is mapped; or a callable that returns one of the
    first two anew for each scan. Such a table is never held as a whole: it is one partition, has no snapshot, and a
    connection that is lost ends its scan. The callable is called from other threads, once more than there are scans (for
    the schema), and what it raises reaches the client with its message.

    ``listen`` is where: a URL or several, by default a free port of this machine's own. ``ticket_key`` (32 bytes or
    more) lets servers that share it read each other's partitions. ``authenticator`` is given the token of each client that
    connects, or None where it shows none, and returns whose it is; what it raises refuses the client, with its message.
    ``token_file`` says instead who may connect and read what, as for ``lightstream serve --token-file``.

    ``tls_cert`` and ``tls_key`` (PEM files, read again when they change) secure connections over TCP; with
    ``tls_client_ca`` every client must show a certificate that one of these authorities has signed. Clients beyond
    ``max_connections`` are told that the server is busy (10,000 unless given), and partitions beyond ``max_scans`` that are
    read at a time (256) take turns.

    A stream can be read once: one that was served or read before is a `ValueError` where that can be known, as of readers
    of this package and streams that were given to this function. Each batch is checked against the schema that was declared;
    one that differs is an ``invalid_argument`` error here, and an ``internal`` one for clients of a callable.
    """

def _end() -> None: ...
def _partition(state: Tuple[Any, ...]) -> Partition: ...
def _client(
    url: str,
    *,
    storage_options: Optional[Mapping[str, _Option]] = None,
    credential_provider: Optional[Callable[[], Union[str, Mapping[str, str]]]] = None,
) -> Client: ...
def _portable(url: str, options: Mapping[str, _Option]) -> Tuple[str, Dict[str, str]]: ...
