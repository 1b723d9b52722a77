"""Daft predicates as Lightstream filters: translation only, without I/O.

It says less rather than something else: a shape that is not known, or that the two sides may read differently, stays
with Daft, which applies the whole predicate again in any case. Half of an AND may go to the server, half of an OR never
does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

import pyarrow as pa
from daft import DataType, col
from daft.expressions import Expression, ExpressionsProjection
from daft.expressions.visitor import PredicateVisitor, _ColumnVisitor
from daft.recordbatch import RecordBatch
from lightstream_core import Expr, Schema

FLOAT_RULE: Final = "total_order"
"""Daft: the zeros differ, and NaN is greater than all else, or less where its sign is set."""

_Comparison = Literal["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]

_MIRRORED: Final[dict[str, _Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT_FLOATS: Final = 2**53
_MOST_BYTES: Final = 4 << 20
"""Larger constants stay with Daft: servers bound what they take."""


class UnknownShape(Exception):
    """A predicate that a filter cannot say."""


@dataclass(frozen=True)
class Translation:
    """What of a predicate a server can be asked for: conjuncts, and whether together they are all of it."""

    conjuncts: list[Expr] = field(default_factory=list)
    is_whole: bool = True


@dataclass(frozen=True)
class _Term:
    """A value within a predicate."""

    dtype: DataType
    expr: Expr | None = None
    constant: pa.Array | None = None
    """The only value, of its exact type, where it is a constant."""
    stored: pa.DataType | None = None
    """The type of its values at the server, where it is a column."""

    def sendable(self) -> Expr:
        if self.expr is not None:
            return self.expr
        assert self.constant is not None
        return Expr.literal(self.constant)


def translate(predicate: Expression | None, columns: Mapping[str, DataType], table: Schema) -> Translation:
    """What of `predicate` a server of `table`, whose columns Daft sees as `columns`, can be asked for."""
    if predicate is None:
        return Translation()
    translator = _Translator(columns, table)
    conjuncts: list[Expr] = []
    is_whole = True
    for part in _Conjuncts().visit(predicate):
        try:
            conjuncts.append(translator.conjunct(part))
        except Exception:  # What expressions look like is not Daft's promise: what is read wrongly stays.
            is_whole = False
    return Translation(conjuncts, is_whole)


def required_columns(predicate: Expression | None) -> set[str] | None:
    """The columns that Daft needs to apply a predicate; None where that cannot be told."""
    if predicate is None:
        return set()
    try:
        return _Columns().visit(predicate)
    except Exception:  # As above: what is not understood needs everything.
        return None


class _Columns(_ColumnVisitor):
    """Daft's own visitor, which does not look into lists."""

    def visit(self, expr: Expression | list[Expression]) -> set[str]:
        if isinstance(expr, list):
            return set().union(*map(self.visit, expr))
        return super().visit(expr)


def _raise_unknown(*_: Any) -> NoReturn:
    raise UnknownShape


_unknown: Any = _raise_unknown


class _Tolerant(PredicateVisitor[Any]):
    """A visitor for which every shape is unknown."""

    visit_col = visit_lit = visit_alias = visit_cast = visit_function = visit_coalesce = _unknown
    visit_and = visit_or = visit_not = visit_equal = visit_not_equal = _unknown
    visit_less_than = visit_less_than_or_equal = visit_greater_than = visit_greater_than_or_equal = _unknown
    visit_between = visit_is_in = visit_is_null = visit_not_null = _unknown


class _Conjuncts(_Tolerant):
    """The operands of a chain of ANDs."""

    def visit(self, expr: Expression) -> list[Expression]:
        try:
            return super().visit(expr)  # type: ignore[no-any-return]
        except Exception:
            return [expr]

    def visit_and(self, left: Expression, right: Expression) -> list[Expression]:
        return self.visit(left) + self.visit(right)


class _Translator(_Tolerant):
    def __init__(self, columns: Mapping[str, DataType], table: Schema) -> None:
        self._columns = columns
        self._table = table

    def conjunct(self, expr: Expression) -> Expr:
        """A condition that the core promises something for. Raises where there is none."""
        condition = self._condition(expr)
        if condition.support(self._table, FLOAT_RULE) == "unsupported":
            raise UnknownShape
        return condition

    def _condition(self, expr: Expression) -> Expr:
        term = self._term(expr)
        if term.dtype != DataType.bool():
            raise UnknownShape
        return term.sendable()

    def _term(self, expr: Expression) -> _Term:
        if not _Columns().visit(expr):
            return _constant(expr)
        term: _Term = self.visit(expr)
        return term

    def visit_col(self, name: str) -> _Term:
        stored = pa.field(self._table[name]).type
        while pa.types.is_dictionary(stored):
            stored = stored.value_type
        return _Term(self._columns[name], Expr.column(name), stored=stored)

    def visit_alias(self, expr: Expression, alias: str) -> _Term:
        return self._term(expr)

    def visit_cast(self, expr: Expression, dtype: DataType) -> _Term:
        term = self._term(expr)
        if term.dtype == dtype or (_is_integer(term.dtype) and _holds(dtype, term.dtype)):
            return _Term(dtype, term.expr, term.constant, term.stored if term.dtype == dtype else None)
        raise UnknownShape

    # A cast that fails gives null, and one that keeps every value does not fail.
    visit_try_cast = visit_cast

    def visit_and(self, left: Expression, right: Expression) -> _Term:
        return _boolean(Expr.and_([self._condition(left), self._condition(right)]))

    def visit_or(self, left: Expression, right: Expression) -> _Term:
        return _boolean(Expr.or_([self._condition(left), self._condition(right)]))

    def visit_not(self, expr: Expression) -> _Term:
        return _boolean(Expr.not_(self._condition(expr)))

    def visit_xor(self, left: Expression, right: Expression) -> _Term:
        return _boolean(Expr.compare("<>", self._condition(left), self._condition(right)))

    def visit_equal(self, left: Expression, right: Expression) -> _Term:
        return self._compare("=", left, right)

    def visit_not_equal(self, left: Expression, right: Expression) -> _Term:
        return self._compare("<>", left, right)

    def visit_less_than(self, left: Expression, right: Expression) -> _Term:
        return self._compare("<", left, right)

    def visit_less_than_or_equal(self, left: Expression, right: Expression) -> _Term:
        return self._compare("<=", left, right)

    def visit_greater_than(self, left: Expression, right: Expression) -> _Term:
        return self._compare(">", left, right)

    def visit_greater_than_or_equal(self, left: Expression, right: Expression) -> _Term:
        return self._compare(">=", left, right)

    def visit_eq_null_safe(self, left: Expression, right: Expression) -> _Term:
        return self._compare("is not distinct from", left, right)

    def visit_between(self, expr: Expression, lower: Expression, upper: Expression) -> _Term:
        operand, low, high = self._term(expr), self._term(lower), self._term(upper)
        return _boolean(Expr.and_([_compared(">=", operand, low), _compared("<=", operand, high)]))

    def visit_is_in(self, expr: Expression, items: list[Expression]) -> _Term:
        operand = self._term(expr)
        values = [self._term(item) for item in items]
        if not values or any(value.constant is None or value.constant.null_count for value in values):
            raise UnknownShape
        if _is_float(operand.dtype) or any(_is_float(value.dtype) for value in values):
            # In lists Daft takes every NaN for the same.
            raise UnknownShape
        same = {value.dtype for value in values} == {operand.dtype}
        if same and not operand.dtype.is_temporal():
            listed = _meeting(operand, pa.concat_arrays([value.constant for value in values]))
            return _boolean(Expr.is_in(operand.sendable(), listed))
        return _boolean(Expr.or_([_compared("=", operand, value) for value in values]))

    def visit_is_null(self, expr: Expression) -> _Term:
        return _boolean(Expr.is_null(self._term(expr).sendable()))

    def visit_not_null(self, expr: Expression) -> _Term:
        return _boolean(Expr.is_not_null(self._term(expr).sendable()))

    def visit_is_nan(self, expr: Expression) -> _Term:
        return _boolean(Expr.is_nan(self._term(expr).sendable()))

    def visit_starts_with(self, expr: Expression, text: Expression) -> _Term:
        return self._match(Expr.starts_with, expr, text)

    def visit_ends_with(self, expr: Expression, text: Expression) -> _Term:
        return self._match(Expr.ends_with, expr, text)

    def visit_contains(self, expr: Expression, text: Expression) -> _Term:
        return self._match(Expr.contains, expr, text)

    def _match(self, made: Any, expr: Expression, text: Expression) -> _Term:
        operand, pattern = self._term(expr), self._term(text)
        if operand.dtype != DataType.string() or pattern.dtype != DataType.string():
            raise UnknownShape
        return _boolean(made(operand.sendable(), pattern.sendable()))

    def visit_plus(self, left: Expression, right: Expression) -> _Term:
        return self._arithmetic("+", left, right)

    def visit_minus(self, left: Expression, right: Expression) -> _Term:
        return self._arithmetic("-", left, right)

    def visit_multiply(self, left: Expression, right: Expression) -> _Term:
        return self._arithmetic("*", left, right)

    def _arithmetic(self, op: Literal["+", "-", "*"], left: Expression, right: Expression) -> _Term:
        """Sums and products of whole numbers. The core supports none that could overflow, so their type does not tell."""
        one, other = self._term(left), self._term(right)
        if not _is_integer(one.dtype) or not _is_integer(other.dtype):
            raise UnknownShape
        if DataType.uint64() in (one.dtype, other.dtype):  # Daft computes in floats.
            raise UnknownShape
        return _Term(DataType.int64(), Expr.arithmetic(op, one.sendable(), other.sendable()))

    def _compare(self, op: _Comparison, left: Expression, right: Expression) -> _Term:
        return _boolean(_compared(op, self._term(left), self._term(right)))


def _compared(op: _Comparison, left: _Term, right: _Term) -> Expr:
    if left.constant is not None:
        left, right, op = right, left, _MIRRORED.get(op, op)
    if left.constant is not None:
        raise UnknownShape
    value = None if right.constant is None else right.constant[0].as_py()
    if right.constant is not None and value is None and not op.startswith("is"):
        raise UnknownShape
    one, other = left.dtype, right.dtype
    if right.constant is not None and one.is_timestamp() and other.is_timestamp():
        right = _Term(one, constant=_in_unit(right.constant, one, other))
        other = one
    if _is_integer(one) and _is_integer(other):
        # Where neither type holds both, Daft compares floats.
        small = isinstance(value, int) and abs(value) < _EXACT_FLOATS
        if not (_meets(one, other) or small):
            raise UnknownShape
    elif _is_integer(one) and _is_float(other) and isinstance(value, float):
        return _bounded(op, left.sendable(), value)
    elif _is_float(one) and _is_integer(other) and isinstance(value, int):
        if abs(value) > _EXACT_FLOATS:
            raise UnknownShape
        kind = pa.float32() if one == DataType.float32() and abs(value) <= 2**24 else pa.float64()
        right = _Term(one, constant=pa.array([float(value)], kind))
    elif one != other and not (_is_float(one) and _is_float(other)) and not (_is_decimal(one) and _is_decimal(other)):
        raise UnknownShape
    if right.constant is not None and one == other:
        right = _Term(other, constant=_meeting(left, right.constant))
    return Expr.compare(op, left.sendable(), right.sendable())


def _in_unit(constant: pa.Array, column: DataType, other: DataType) -> pa.Array:
    """A time in the unit and zone of a column that it is compared with: the coarser one of both is what Daft compares in."""
    units = ("s", "ms", "us", "ns")
    to, of = column.to_arrow_dtype(), other.to_arrow_dtype()
    if (to.tz is None) != (of.tz is None) or units.index(of.unit) < units.index(to.unit):
        raise UnknownShape
    row = RecordBatch.from_arrow_record_batches([pa.record_batch({"x": constant})], pa.schema([("x", constant.type)]))
    cast = row.eval_expression_list(ExpressionsProjection([col("x").cast(column)]))
    return cast.to_arrow_table().column(0).combine_chunks()


def _meeting(operand: _Term, constants: pa.Array) -> pa.Array:
    """Constants of the operand's type in the form that its values have at the server. Raises where that loses something."""
    stored = operand.stored
    forms = (pa.types.is_time, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if stored is None or not any(form(stored) for form in forms):
        return constants
    return constants.cast(stored)


def _bounded(op: _Comparison, expr: Expr, value: float) -> Expr:
    """`expr op value` for whole numbers, by a bound that is one."""
    if not math.isfinite(value) or abs(value) >= _EXACT_FLOATS or (value == 0 and math.copysign(1, value) < 0):
        raise UnknownShape
    floor = math.floor(value)
    if value == floor:
        return Expr.compare(op, expr, _integer(floor))
    if op in ("<", ">="):
        return Expr.compare(op, expr, _integer(floor + 1))
    if op in (">", "<="):
        return Expr.compare(op, expr, _integer(floor))
    raise UnknownShape


def _integer(value: int) -> Expr:
    return Expr.literal(pa.array([value], pa.int64()))


def _constant(expr: Expression) -> _Term:
    """What an expression without columns comes to."""
    row = RecordBatch.from_pydict({"": [0]}).eval_expression_list(ExpressionsProjection([expr.alias("x")]))
    array = row.to_arrow_table().column(0).combine_chunks()
    if array.nbytes > _MOST_BYTES:
        raise UnknownShape
    dtype = DataType.from_arrow_type(array.type)
    if pa.types.is_decimal(array.type) and array.null_count == 0:
        # In as few digits as it takes: a wide one would not meet every column without overflow.
        array = pa.array([array[0].as_py()])
    return _Term(dtype, constant=array)


def _boolean(expr: Expr) -> _Term:
    return _Term(DataType.bool(), expr)


_INTEGERS: Final = {
    getattr(DataType, f"{sign}int{bits}")(): (bits, sign == "") for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Integer types: their bits, and whether they are signed."""


def _is_integer(dtype: DataType) -> bool:
    return dtype in _INTEGERS


def _is_float(dtype: DataType) -> bool:
    return dtype in (DataType.float32(), DataType.float64())


def _is_decimal(dtype: DataType) -> bool:
    return dtype.is_decimal128()


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether an integer type holds all values of another."""
    if wide not in _INTEGERS:
        return False
    (bits, signed), (less, less_signed) = _INTEGERS[wide], _INTEGERS[narrow]
    return bits > less if signed and not less_signed else signed == less_signed and bits >= less


def _meets(one: DataType, other: DataType) -> bool:
    """Whether an integer type holds all values of both."""
    (bits, signed), (other_bits, other_signed) = _INTEGERS[one], _INTEGERS[other]
    return signed == other_signed or (bits if not signed else other_bits) < 64
