"""The exceptions of this package: one base, and a class for each code, beside Python's own where there is one."""

from __future__ import annotations

from typing import Optional


class LightstreamError(Exception):
    """A request that failed.

    ``code`` is the kind of failure, as in ``"not_found"``. ``retryable`` says whether the same request may succeed when
    made again. ``table``, ``peer`` (a URL without secrets), ``partition`` and ``unit`` (positions from 0) say where it
    failed, as far as that is known.
    """

    code: str = "internal"
    retryable: bool = False
    table: Optional[str] = None
    peer: Optional[str] = None
    partition: Optional[int] = None
    unit: Optional[int] = None


class InvalidArgumentError(LightstreamError, ValueError):
    """The request cannot be right, whatever the state of the server."""

    code = "invalid_argument"


class NotFoundError(LightstreamError, LookupError):
    """The table, path or snapshot named does not exist."""

    code = "not_found"


class UnauthenticatedError(LightstreamError, PermissionError):
    """No credentials, or ones that are not accepted."""

    code = "unauthenticated"


class PermissionDeniedError(LightstreamError, PermissionError):
    """The credentials are good but do not grant this."""

    code = "permission_denied"


class UnimplementedError(LightstreamError, NotImplementedError):
    """Understood, but not built into this server, client or build."""

    code = "unimplemented"


class ResourceExhaustedError(LightstreamError):
    """A limit of the server or client is reached; later it may fit."""

    code = "resource_exhausted"


class ExpiredError(LightstreamError):
    """A ticket, plan or snapshot that is no longer held."""

    code = "expired"


class UnavailableError(LightstreamError, ConnectionError):
    """The peer cannot be reached, or went away."""

    code = "unavailable"


class DeadlineExceededError(LightstreamError, TimeoutError):
    """A time limit passed."""

    code = "deadline_exceeded"


class CancelledError(LightstreamError):
    """The work was given up."""

    code = "cancelled"


class DataLossError(LightstreamError):
    """Bytes are missing or wrong: a stream that ended early, or malformed data."""

    code = "data_loss"


class InternalError(LightstreamError):
    """A fault in the software itself, or in the code that makes a table's rows."""

    code = "internal"


_CLASSES = {error.code: error for error in LightstreamError.__subclasses__()}


def _make(
    code: str,
    message: str,
    *,
    retryable: bool,
    table: Optional[str],
    peer: Optional[str],
    partition: Optional[int],
    unit: Optional[int],
) -> LightstreamError:
    """Make the exception for a code. The native part calls this."""
    error = _CLASSES.get(code, LightstreamError)(message)
    error.code = code
    error.retryable = retryable
    error.table = table
    error.peer = peer
    error.partition = partition
    error.unit = unit
    return error
