"""Vectors of a fixed width for numba (SIMD), which compiled code keeps in the registers of the processor.

Compilers vectorise by themselves only where they can prove that arrays do not overlap, and they rarely can. `load` and
`store` copy between arrays and vectors; `+ - * >> << & ^ >= < ==` and `max` work number by number, also with a scalar
of the same type; the functions below do the rest. Results are rounded as those of scalars are. Functions of `draws` and
`actions` that use only these operators take vectors as well as scalars.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import core, extending

Code = Any  # what numba and llvmlite compute with
Kind = Any  # a type of numba's
Emit = Callable[[Code, "Vector", Code, Code], Code]  # builder, the operands' type, the operands
types: Any = core.types

ROW = 16  # bytes


class Vector(types.Type):  # type: ignore[misc]
    """The type of some numbers of one type."""

    def __init__(self, scalar: Kind, width: int) -> None:
        self.scalar, self.width = scalar, width
        super().__init__(name=f"Vector({scalar}, {width})")

    def of(self, scalar: Kind) -> Vector:
        """Return the type of as many numbers of another type."""
        return Vector(scalar, self.width)


@extending.register_model(Vector)
class _VectorModel(extending.models.PrimitiveModel):
    def __init__(self, dmm: Code, fe_type: Vector) -> None:
        one = ir.IntType(1) if fe_type.scalar == types.boolean else dmm.lookup(fe_type.scalar).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(one, fe_type.width))  # type: ignore[no-untyped-call]


def _operands(context: Code, builder: Code, kinds: Code, values: Code) -> tuple[Vector, list[Code]]:
    """Broadcast a scalar operand to the width of the other, a vector."""
    vector = next(kind for kind in kinds if isinstance(kind, Vector))

    def spread(kind: Kind, value: Code) -> Code:
        if isinstance(kind, Vector):
            return value
        number, zero = context.cast(builder, value, kind, vector.scalar), ir.Constant(ir.IntType(32), 0)
        first = builder.insert_element(ir.Constant(context.get_value_type(vector), ir.Undefined), number, zero)
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), vector.width), None))

    return vector, [spread(kind, value) for kind, value in zip(kinds, values, strict=True)]


def _fits(one: Kind, other: Kind) -> Vector | None:
    """Return the vector type of two operands: both are of it, or one is a scalar of its type; None if neither."""
    if isinstance(one, Vector):
        return one if other in (one, one.scalar) else None
    return other if isinstance(other, Vector) and one == other.scalar else None


def _define(symbol: Callable[..., Any], emit: Emit, is_test: bool) -> None:
    """Teach numba an operator on vectors."""

    @extending.type_callable(symbol)
    def typing(_: Code) -> Code:
        def typer(one: Kind, other: Kind) -> Vector | None:
            kind = _fits(one, other)
            return kind.of(types.boolean) if kind is not None and is_test else kind

        return typer

    def lower(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        vector, (one, other) = _operands(context, builder, signature.args, values)
        return emit(builder, vector, one, other)

    for kinds in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        extending.lower_builtin(symbol, *kinds)(lower)  # type: ignore[no-untyped-call]


def _is_float(vector: Vector) -> bool:
    return isinstance(vector.scalar, types.Float)


def _arithmetic(name: str) -> Emit:
    return lambda builder, vector, one, other: getattr(builder, "f" * _is_float(vector) + name)(one, other)


def _shift_right(builder: Code, vector: Vector, one: Code, other: Code) -> Code:
    return (builder.ashr if vector.scalar.signed else builder.lshr)(one, other)


def _test(sign: str) -> Emit:
    def emit(builder: Code, vector: Vector, one: Code, other: Code) -> Code:
        if _is_float(vector):
            return builder.fcmp_ordered(sign, one, other)
        return (builder.icmp_signed if vector.scalar.signed else builder.icmp_unsigned)(sign, one, other)

    return emit


def _largest(builder: Code, vector: Vector, one: Code, other: Code) -> Code:
    return builder.select(_test(">")(builder, vector, other, one), other, one)  # as Python does, with NaN too


for _operator, _name in ((operator.add, "add"), (operator.sub, "sub"), (operator.mul, "mul")):
    _define(_operator, _arithmetic(_name), is_test=False)
_define(operator.rshift, _shift_right, is_test=False)
_define(operator.lshift, lambda builder, _, one, other: builder.shl(one, other), is_test=False)
_define(operator.and_, lambda builder, _, one, other: builder.and_(one, other), is_test=False)
_define(operator.xor, lambda builder, _, one, other: builder.xor(one, other), is_test=False)
for _operator, _name in ((operator.ge, ">="), (operator.lt, "<"), (operator.eq, "==")):
    _define(_operator, _test(_name), is_test=True)
_define(max, _largest, is_test=False)


def _pointer(context: Code, builder: Code, array: Code, data: Code, start: Code, vector: Code) -> Code:
    struct = context.make_array(array)(context, builder, data)
    return builder.bitcast(builder.gep(struct.data, [start]), vector.as_pointer())


def emitted(function: Callable[..., Code]) -> Callable[..., Code]:
    """Make a function for kernels from one that takes types, and returns the result's type and a code generator."""
    return cast(Callable[..., Code], extending.intrinsic(prefer_literal=True)(function))


def _load(array: Kind, width: Kind, align: int) -> Code:
    vector = Vector(array.dtype, width.count if isinstance(width, types.UniTuple) else width.literal_value)

    def emit(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        at = _pointer(context, builder, array, values[0], values[1], context.get_value_type(vector))
        return builder.load(at, align=align)

    return vector(array, types.uint64, width), emit


def _store(array: Kind, value: Kind, align: int) -> Code:
    def emit(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        at = _pointer(context, builder, array, values[0], values[1], values[2].type)
        builder.store(values[2], at, align=align)
        return context.get_dummy_value()

    return types.void(array, types.uint64, value), emit


@emitted
def load(_: Code, array: Kind, start: Kind, width: Kind) -> Code:
    """Read a vector from a flattened array, from an index on; `width` is a constant or a tuple of that length."""
    return _load(array, width, array.dtype.bitwidth // 8)


@emitted
def store(_: Code, array: Kind, start: Kind, value: Kind) -> Code:
    """Write a vector to a flattened array, from an index on."""
    return _store(array, value, array.dtype.bitwidth // 8)


@emitted
def load_row(_: Code, array: Kind, start: Kind, width: Kind) -> Code:
    """Read as `load` does, from a multiple of 16 bytes on, which a GPU reads in one instruction."""
    return _load(array, width, ROW)


@emitted
def store_row(_: Code, array: Kind, start: Kind, value: Kind) -> Code:
    """Write as `store` does, from a multiple of 16 bytes on."""
    return _store(array, value, ROW)


@emitted
def where(_: Code, test: Kind, one: Kind, other: Kind) -> Code:
    """Take numbers of the first vector where a test is true, and of the second elsewhere; one test may be for all."""
    vector: Kind = _fits(one, other)

    def emit(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        _, (first, second) = _operands(context, builder, signature.args[1:], values[1:])
        return builder.select(values[0], first, second)

    return vector(test, one, other), emit


@emitted
def take(_: Code, vector: Kind, indices: Kind) -> Code:
    """Take the numbers of a vector at some indices, which compilers make one instruction."""
    return _take(vector, indices, lambda builder, numbers, index: builder.extract_element(numbers, index))


@emitted
def pick(_: Code, vector: Kind, index: Kind) -> Code:
    """Take the number of a vector at an index, by comparisons: registers cannot be addressed by a number."""
    return vector.scalar(vector, types.uint32), lambda _, builder, __, values: _pick(builder, *values)


@emitted
def pick_each(_: Code, vector: Kind, indices: Kind) -> Code:
    """Take the numbers of a vector at some indices, by comparisons, and 0 for an index that is out of range."""
    return _take(vector, indices, _pick)


def _take(vector: Vector, indices: Kind, read: Callable[..., Code]) -> Code:
    def emit(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        result = ir.Constant(values[0].type, ir.Undefined)
        for at in map(ir.IntType(32), range(vector.width)):
            taken = read(builder, values[0], builder.extract_element(values[1], at))
            result = builder.insert_element(result, taken, at)
        return result

    return vector(vector, indices), emit


def _pick(builder: Code, numbers: Code, index: Code) -> Code:
    result = ir.Constant(numbers.type.element, 0)
    for at in map(ir.IntType(32), range(numbers.type.count)):
        result = builder.select(builder.icmp_unsigned("==", index, at), builder.extract_element(numbers, at), result)
    return result


@emitted
def converted(_: Code, numbers: Kind, kind: Kind) -> Code:
    """Convert numbers to another type, rounding towards zero; Booleans become 0 and 1."""
    scalar = kind.instance_type
    result = numbers.of(scalar) if isinstance(numbers, Vector) else scalar

    def emit(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        if result == scalar:
            return context.cast(builder, values[0], numbers, scalar)
        goal = context.get_value_type(result)
        if _is_float(numbers):
            return builder.fptosi(values[0], goal)
        if _is_float(result):
            return (builder.uitofp if numbers.scalar == types.boolean else builder.sitofp)(values[0], goal)
        width = 1 if numbers.scalar == types.boolean else numbers.scalar.bitwidth
        if width < scalar.bitwidth:
            return builder.zext(values[0], goal)
        return builder.trunc(values[0], goal)

    return result(numbers, kind), emit


@emitted
def reinterpreted(_: Code, numbers: Kind, kind: Kind) -> Code:
    """Read the bits of numbers as those of another type."""
    result = numbers.of(kind.instance_type) if isinstance(numbers, Vector) else kind.instance_type
    return result(numbers, kind), lambda context, builder, _, values: builder.bitcast(
        values[0], context.get_value_type(result)
    )


@emitted
def counted(_: Code, test: Kind) -> Code:
    """Convert Booleans to 0 and 1."""
    result = test.of(types.uint32) if isinstance(test, Vector) else types.int64
    return result(test), lambda context, builder, _, values: builder.zext(values[0], context.get_value_type(result))


# Structs whose arrays have an axis more than those of one team, lane or run.


def _index(typing: Code, kind: Kind, index: Kind, depth: int) -> tuple[Kind, Callable[..., Code]]:
    """Index an array, or the arrays of a struct; return the type of the result, and a code generator."""
    if isinstance(kind, types.Array):
        signature = typing.resolve_function_type(operator.getitem, (kind, index), {})

        def index_array(context: Code, builder: Code, value: Code, at: Code) -> Code:
            converted_index = context.cast(builder, at, index, signature.args[1])
            return context.get_function(operator.getitem, signature)(builder, (value, converted_index))

        return signature.return_type, index_array
    if not (depth and isinstance(kind, types.BaseNamedTuple)):
        return kind, lambda context, builder, value, at: value
    fields = [_index(typing, part, index, depth - 1) for part in kind.types]
    result = types.BaseTuple.from_types([part for part, _ in fields], kind.instance_class)

    def emit(context: Code, builder: Code, value: Code, at: Code) -> Code:
        values = (builder.extract_value(value, number) for number in range(len(fields)))
        parts = [code(context, builder, part, at) for (_, code), part in zip(fields, values, strict=True)]
        return context.make_tuple(builder, result, parts)

    return result, emit


@emitted
def row(typing: Code, struct: Kind, index: Kind) -> Code:
    """Take a row of every array of a struct; its other fields stay as they are, structs among them."""
    result, code = _index(typing, struct, index, depth=1)
    return result(struct, index), lambda context, builder, _, values: code(context, builder, *values)


@emitted
def column(typing: Code, struct: Kind, index: Kind) -> Code:
    """Take a column of each array of a struct, and of structs in it; neighbouring threads have neighbouring columns."""
    pair = types.Tuple((types.ellipsis, index))
    result, code = _index(typing, struct, pair, depth=2)

    def emit(context: Code, builder: Code, signature: Code, values: Code) -> Code:
        at = context.make_tuple(builder, pair, (context.get_dummy_value(), values[1]))
        return code(context, builder, values[0], at)

    return result(struct, index), emit
