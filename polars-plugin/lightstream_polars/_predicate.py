"""Polars predicates as Lightstream filters: translation only, without I/O.

Reads the binary form of an expression, which names types exactly and keeps NaN. It says less rather than something
else: a shape that is not known, or that the two sides may read differently, stays with Polars. Half of an AND may go to
the server, half of an OR never does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgpack
import polars as pl
from lightstream_core import Expr, Schema

from lightstream_polars._dtypes import CODED, compare_alike, keeps_values, rounds
from lightstream_polars._literals import (
    TICKS,
    Constant,
    UnknownShape,
    quoted_name,
    quoted_text,
    read_dtype,
    read_scalar,
    read_values,
    single,
)

FLOAT_RULE: Final = "nan_largest"
"""Polars: every NaN equals every other and is greater than all else; the zeros are equal."""

_Comparison = Literal["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
_Sign = Literal["+", "-", "*", "/", "%"]

_COMPARISONS: Final[dict[str, _Comparison]] = {
    "Eq": "=",
    "NotEq": "<>",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "EqValidity": "is not distinct from",
    "NotEqValidity": "is distinct from",
}
_MIRRORED: Final[dict[_Comparison, _Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: Final[dict[str, _Sign]] = {"Plus": "+", "Minus": "-", "Multiply": "*"}
_MOST_BYTES: Final = 4 << 20
"""Larger constants stay with Polars: servers bound what they take."""

_AND: Final = frozenset(("And", "LogicalAnd"))
_OR: Final = frozenset(("Or", "LogicalOr"))
_BOUNDS: Final[dict[str, tuple[_Comparison, _Comparison]]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
_TEXT_MATCHES: Final = {
    "StartsWith": ("starts_with", Expr.starts_with),
    "EndsWith": ("ends_with", Expr.ends_with),
    "Contains": ("contains", Expr.contains),
}
_DAY_SECONDS: Final = 86_400
_EXACT_FLOATS: Final = 2**53
_SIGNED_MOST: Final = 2**63 - 1


@dataclass(frozen=True)
class Translation:
    """What of one predicate a server can be asked for: conjuncts, and whether together they are all of it."""

    conjuncts: list[Expr] = field(default_factory=list)
    is_whole: bool = False


@dataclass(frozen=True)
class _Term:
    """A value within a predicate."""

    dtype: pl.DataType
    """Its type in Polars, after casts."""
    expr: Expr | None = None
    """The same value for the server; casts that keep every value are left out of it."""
    stored: pl.DataType | None = None
    """The type of `expr` before those casts."""
    constant: Constant | None = None
    values: pl.Series | None = None
    column: str | None = None
    """Its name, where it is a top-level column."""
    rounded_from: _Term | None = None
    """What a cast that may change values was made of; then there is no `expr`."""

    def sendable(self) -> Expr:
        if self.expr is not None:
            return self.expr
        if self.constant is not None:
            return Expr.literal(self.constant.series())
        raise UnknownShape("a cast that may change values")


def translate(predicate: pl.Expr, columns: Mapping[str, pl.DataType], table: Schema, prefix: str = "") -> Translation:
    """What of `predicate` a server of `table`, whose columns Polars sees as `columns`, can be asked for.

    With a `prefix` the predicate has it before the names of all columns.
    """
    try:
        root = msgpack.unpackb(predicate.meta.serialize(), strict_map_key=False)
    except Exception:  # Whatever it is that cannot be serialized or read, such as a Python function, stays.
        return Translation()
    translator = _Translator(columns, table, prefix)
    translated: list[Expr] = []
    is_whole = True
    for node in _operands(root, _AND):
        try:
            translated.append(translator.conjunct(node))
        except Exception:  # The form of expressions is not Polars' promise: what is read wrongly stays.
            is_whole = False
    return Translation(translated, is_whole and bool(translated))


def _operands(node: Any, operators: frozenset[str]) -> list[Any]:
    """The operands of a chain of one operator, in order; the node itself where it is none."""
    operands: list[Any] = []
    rest = [node]
    while rest:
        node = rest.pop()
        body = node.get("BinaryExpr") if isinstance(node, dict) and len(node) == 1 else None
        if isinstance(body, dict) and body.get("op") in operators:
            rest += [body["right"], body["left"]]
        else:
            operands.append(node)
    return operands


class _Translator:
    def __init__(self, columns: Mapping[str, pl.DataType], table: Schema, prefix: str) -> None:
        self._columns = columns
        self._table = table
        self._prefix = prefix

    def conjunct(self, node: Any) -> Expr:
        """A condition that the core promises something for. Raises where there is none."""
        return self._first_supported([lambda: self._condition(node)])

    def _first_supported(self, candidates: Iterable[Callable[[], Expr]]) -> Expr:
        refusal: Exception = UnknownShape("nothing that the server supports")
        for candidate in candidates:
            try:
                expr = candidate()
            except Exception as error:
                refusal = error
                continue
            if expr.support(self._table, FLOAT_RULE) != "unsupported":
                return expr
        raise refusal

    def _parsed(self, sql: str) -> Expr:
        """A condition from SQL, where constants take the exact Arrow types of the columns they are compared with."""
        [expr] = Expr.parse(sql, self._table)
        return expr

    def _condition(self, node: Any) -> Expr:
        term = self._term(node)
        if term.dtype != pl.Boolean:
            raise UnknownShape(f"a condition of {term.dtype}")
        return term.sendable()

    def _term(self, node: Any) -> _Term:
        kind, body = single(node)
        if kind == "Column":
            return self._column(body)
        if kind == "Literal":
            return _literal(body)
        if kind == "Alias":
            return self._term(body[0])
        if kind == "Cast":
            return self._cast(body)
        if kind == "BinaryExpr":
            return self._binary(node, body)
        if kind == "Function":
            return self._function(body["function"], body["input"])
        if kind == "Ternary":
            return self._ternary(body)
        raise UnknownShape(kind)

    def _name(self, name: Any) -> str:
        if not isinstance(name, str) or not name.startswith(self._prefix):
            raise UnknownShape("a column without a name")
        return name.removeprefix(self._prefix)

    def _column(self, body: Any) -> _Term:
        name = self._name(body)
        dtype = self._columns[name]
        return _Term(dtype, Expr.column(name), dtype, column=name)

    def _cast(self, body: Any) -> _Term:
        # A strict cast may fail, which a filter elsewhere would not.
        if body["options"] not in ("NonStrict", "Overflowing"):
            raise UnknownShape("a strict cast")
        term, to = self._term(body["expr"]), read_dtype(body["dtype"])
        if term.expr is None:
            raise UnknownShape("a cast of a constant")
        if keeps_values(term.dtype, to):
            return replace(term, dtype=to)
        if rounds(term.dtype, to):
            return _Term(to, rounded_from=term)
        raise UnknownShape(f"a cast of {term.dtype} to {to}")

    def _binary(self, node: Any, body: Any) -> _Term:
        op = body["op"]
        if op in _AND:
            return _condition_term(Expr.and_([self._condition(part) for part in _operands(node, _AND)]))
        if op in _OR:
            return _condition_term(Expr.or_([self._condition(part) for part in _operands(node, _OR)]))
        left, right = self._term(body["left"]), self._term(body["right"])
        if op in _COMPARISONS:
            return _condition_term(self._compare(_COMPARISONS[op], left, right))
        if op == "Xor" and left.dtype == right.dtype == pl.Boolean:
            return _condition_term(Expr.compare("<>", left.sendable(), right.sendable()))
        return _arithmetic(op, left, right)

    def _ternary(self, body: Any) -> _Term:
        predicate = self._condition(body["predicate"])
        if not _is_null_test(body["predicate"]):
            # A null condition takes the other branch.
            predicate = Expr.compare("is not distinct from", predicate, Expr.literal(pl.Series([True])))
        truthy, falsy = self._condition(body["truthy"]), self._condition(body["falsy"])
        return _condition_term(Expr.or_([Expr.and_([predicate, truthy]), Expr.and_([Expr.not_(predicate), falsy])]))

    # Comparisons

    def _compare(self, op: _Comparison, left: _Term, right: _Term) -> Expr:
        if left.constant is not None:
            left, right, op = right, left, _MIRRORED.get(op, op)
        if left.constant is not None:
            raise UnknownShape("two constants")
        if not compare_alike(op, left.dtype, right.dtype):
            raise UnknownShape(f"{left.dtype} {op} {right.dtype}")
        if left.rounded_from is not None:
            return self._compare_rounded(op, left, right)

        def typed() -> Expr:
            return Expr.compare(op, left.sendable(), right.sendable())

        def written() -> Expr:
            if left.column is None or right.constant is None:
                raise UnknownShape("no SQL for it")
            return self._parsed(f"{quoted_name(left.column)} {op} {right.constant.sql()}")

        def widened() -> Expr:
            # Polars compares in a type that is neither side's own.
            if not left.dtype.is_float():
                raise UnknownShape("nothing to widen")
            return Expr.compare(op, *_operands_in(left, right, left.dtype))

        return self._first_supported([typed, written, widened])

    def _compare_rounded(self, op: _Comparison, left: _Term, right: _Term) -> Expr:
        """A column that Polars casts to the constant's wider type, by the bound that this is on the column itself."""
        source, constant = left.rounded_from, right.constant
        if source is None or source.expr is None or constant is None or constant.value is None:
            raise UnknownShape("a cast that may change values")
        if source.dtype == pl.Date:
            return self._compare_date(op, source, constant)
        value = constant.value
        # Beyond this the cast rounds, but never across it.
        if not math.isfinite(value) or abs(value) >= _EXACT_FLOATS:
            raise UnknownShape("a number that integers round to")
        return _bounded(op, source.expr, math.floor(value), value == math.floor(value), pl.Int64())

    def _compare_date(self, op: _Comparison, source: _Term, constant: Constant) -> Expr:
        if op.startswith("is") or source.expr is None or not isinstance(constant.dtype, pl.Datetime):
            raise UnknownShape("dates as timestamps")
        day = TICKS[constant.dtype.time_unit] * _DAY_SECONDS
        days, rest = divmod(constant.value, day)
        bound = _bounded(op, source.expr, days, rest == 0, pl.Date())
        most = _SIGNED_MOST // day
        if most >= 2**31:
            return bound
        # Dates beyond these have no such timestamp: Polars makes them null.
        least, greatest = (Expr.literal(Constant(pl.Date(), at).series()) for at in (-most, most))
        fits = Expr.between(source.expr, least, greatest)
        nothing = Expr.literal(pl.Series([None], dtype=pl.Boolean))
        return Expr.or_([Expr.and_([fits, bound]), Expr.and_([Expr.not_(fits), nothing])])

    # Functions

    def _function(self, function: Any, inputs: list[Any]) -> _Term:
        family, body = single(function)
        if family == "Boolean":
            return _condition_term(self._boolean(body, inputs))
        if family == "StringExpr":
            return _condition_term(self._text_match(body, inputs))
        if family == "StructExpr":
            return self._struct_field(body, inputs)
        raise UnknownShape(family)

    def _boolean(self, function: Any, inputs: list[Any]) -> Expr:
        name, options = single(function)
        if name == "IsIn":
            return self._is_in(inputs, options["nulls_equal"])
        if name == "IsBetween":
            return self._is_between(inputs, options["closed"])
        [operand] = inputs
        if name == "Not":
            return Expr.not_(self._condition(operand))
        if name == "IsNull":
            return Expr.is_null(self._term(operand).sendable())
        if name == "IsNotNull":
            return Expr.is_not_null(self._term(operand).sendable())
        return _float_test(name, self._term(operand))

    def _is_between(self, inputs: list[Any], closed: str) -> Expr:
        operand, low, high = (self._term(node) for node in inputs)
        above, below = _BOUNDS[closed]
        return Expr.and_([self._compare(above, operand, low), self._compare(below, operand, high)])

    def _is_in(self, inputs: list[Any], nulls_equal: bool) -> Expr:
        operand, haystack = (self._term(node) for node in inputs)
        if haystack.values is None or not compare_alike("=", operand.dtype, haystack.values.dtype):
            raise UnknownShape("is_in of something else than a list of constants")
        needle = operand.sendable()
        has_null = haystack.values.null_count() > 0
        found = self._among(operand, needle, haystack.values.drop_nulls())
        if not nulls_equal:
            # Unlike SQL's, a null in the list is nothing that a value may equal.
            return found
        if has_null:
            return Expr.or_([Expr.is_null(needle), found])
        return Expr.and_([Expr.is_not_null(needle), found])

    def _among(self, operand: _Term, needle: Expr, values: pl.Series) -> Expr:
        if values.is_empty():
            # False, but null where the operand is.
            return Expr.compare("<>", needle, needle)
        if isinstance(values.dtype, CODED):
            values = values.cast(pl.String)

        def written() -> Expr:
            if operand.column is None:
                raise UnknownShape("no SQL for it")
            constants = ", ".join(Constant(values.dtype, value).sql() for value in _physical(values))
            return self._parsed(f"{quoted_name(operand.column)} IN ({constants})")

        return self._first_supported([lambda: Expr.is_in(needle, values), written])

    def _text_match(self, function: Any, inputs: list[Any]) -> Expr:
        name, options = single(function)
        if name == "Contains" and options.get("literal") is not True:
            raise UnknownShape("a regular expression")
        sql, match = _TEXT_MATCHES[name]
        operand, text = (self._term(node) for node in inputs)
        if operand.dtype != pl.String or text.dtype != pl.String:
            raise UnknownShape("a match of something else than text")

        def written() -> Expr:
            if operand.column is None or text.constant is None:
                raise UnknownShape("no SQL for it")
            return self._parsed(f"{sql}({quoted_name(operand.column)}, {quoted_text(text.constant.value)})")

        return self._first_supported([lambda: match(operand.sendable(), text.sendable()), written])

    def _struct_field(self, function: Any, inputs: list[Any]) -> _Term:
        name, of = single(function)
        [node] = inputs
        kind, body = single(node)
        if name != "FieldByName" or kind != "Column":
            raise UnknownShape(name)
        struct = self._name(body)
        dtype = self._columns[struct]
        if not isinstance(dtype, pl.Struct):
            raise UnknownShape("a field of something else than a struct")
        inner = pl.Schema(dtype)[of]
        return _Term(inner, Expr.column(struct, of), inner)


def _is_null_test(node: Any) -> bool:
    function = node.get("Function") if isinstance(node, dict) else None
    return isinstance(function, dict) and function.get("function") in ({"Boolean": "IsNull"}, {"Boolean": "IsNotNull"})


def _condition_term(expr: Expr) -> _Term:
    return _Term(pl.Boolean(), expr, pl.Boolean())


def _literal(body: Any) -> _Term:
    kind, value = single(body)
    if kind == "Series":
        read: Constant | pl.Series = _only_list(read_values(value))
    elif kind == "Scalar":
        read = read_scalar(value)
    else:
        raise UnknownShape(f"a constant as {kind}")
    size = read.estimated_size() if isinstance(read, pl.Series) else read.size()
    if size > _MOST_BYTES:
        raise UnknownShape("a constant that is too large to send")
    if isinstance(read, pl.Series):
        return _Term(pl.List(read.dtype), values=read)
    return _Term(read.dtype, constant=read)


def _only_list(series: pl.Series) -> pl.Series:
    """The values of the only row of a column of lists."""
    values = series[0] if len(series) == 1 and isinstance(series.dtype, pl.List) else None
    if not isinstance(values, pl.Series):
        raise UnknownShape("a column of constants")
    return values


def _physical(values: pl.Series) -> list[Any]:
    """Values as Polars stores them."""
    return (values.to_physical() if values.dtype.is_temporal() else values).to_list()


def _bounded(op: _Comparison, expr: Expr, floor: int, is_whole: bool, dtype: pl.DataType) -> Expr:
    """`expr op value` for integers or dates, of a value of which only its floor is one."""

    def literal(value: int) -> Expr:
        return Expr.literal(Constant(dtype, value).series())

    if is_whole:
        return Expr.compare(op, expr, literal(floor))
    if op in ("<", ">="):
        return Expr.compare(op, expr, literal(floor + 1))
    if op in (">", "<="):
        return Expr.compare(op, expr, literal(floor))
    if op == "=":
        return Expr.compare("<>", expr, expr)
    if op == "<>":
        return Expr.compare("=", expr, expr)
    return Expr.literal(pl.Series([op == "is distinct from"]))


def _float_test(name: str, term: _Term) -> Expr:
    if not term.dtype.is_float() or term.stored is None or not term.stored.is_float():
        raise UnknownShape(name)
    expr = term.sendable()
    if name == "IsNan":
        return Expr.is_nan(expr)
    if name == "IsNotNan":
        return Expr.not_(Expr.is_nan(expr))
    least, greatest = (Expr.literal(pl.Series([sign * math.inf], dtype=term.dtype)) for sign in (-1, 1))
    if name == "IsFinite":
        # NaN is greater than infinity.
        return Expr.and_([Expr.compare(">", expr, least), Expr.compare("<", expr, greatest)])
    if name == "IsInfinite":
        return Expr.or_([Expr.compare("=", expr, least), Expr.compare("=", expr, greatest)])
    raise UnknownShape(name)


def _arithmetic(op: str, left: _Term, right: _Term) -> _Term:
    """Arithmetic. The core judges integers by their ranges, and supports none that could overflow: Polars wraps."""
    if left.dtype != right.dtype or not left.dtype.is_numeric() or left.dtype.is_decimal():
        raise UnknownShape(f"{left.dtype} {op} {right.dtype}")
    dtype = left.dtype
    if op in _ARITHMETIC:
        return _computed(_ARITHMETIC[op], left, right, dtype)
    if op == "TrueDivide":
        return _computed("/", left, right, dtype if dtype.is_float() else pl.Float64())
    if op in ("FloorDivide", "Modulus") and dtype.is_unsigned_integer() and right.constant is not None:
        # Signed, Polars rounds down and SQL towards zero.
        return _computed("/" if op == "FloorDivide" else "%", left, right, dtype)
    raise UnknownShape(op)


def _computed(op: _Sign, left: _Term, right: _Term, dtype: pl.DataType) -> _Term:
    return _Term(dtype, Expr.arithmetic(op, *_operands_in(left, right, dtype)), dtype)


def _operands_in(left: _Term, right: _Term, dtype: pl.DataType) -> tuple[Expr, Expr]:
    """Operands that meet in a type of Polars, which decides how floats are rounded."""
    if not dtype.is_float():
        return left.sendable(), right.sendable()
    of_left, of_right = _as_float(left, dtype), _as_float(right, dtype)
    if all(term.constant is None and term.stored != dtype for term in (left, right)):
        # Times one: the same number in the wider type.
        of_left = Expr.arithmetic("*", of_left, Expr.literal(pl.Series([1.0], dtype=dtype)))
    return of_left, of_right


def _as_float(term: _Term, dtype: pl.DataType) -> Expr:
    if term.constant is None:
        return term.sendable()
    value = term.constant.value
    return Expr.literal(pl.Series([None if value is None else float(value)], dtype=dtype))
