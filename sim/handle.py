"""Arrays and functions that compiled code takes by address.

A named tuple of arrays is spread over the arguments of every function that takes it: the state of a
run was 288 of them, and most of the time of compiling went into handing them on. A `Handle` is one
argument: the address of a block of words that says where each array is and how long. Compiled code
reads `handle.name` as it reads a field of a named tuple; Python sees a frozen dataclass. The arrays
never move while the handle lives, so what the block says is loaded once a function (LLVM's
`invariant.load`), and their reference counts are never touched.

numba links all that a function calls into it, and optimises it again: a rule that stands ten calls
deep is compiled ten times. A function that is called by its address is compiled once, and only
where it is needed: the caller has a table of addresses, 0 for those that it will not call.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.extending import NativeValue, intrinsic, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array

_WORD = ir.IntType(64)
H = TypeVar("H", bound="Handle")
_SCALARS = {int: types.int64, float: types.float64, bool: types.int64}


class HandleType(types.Type):
    """Numba's type of a handle: names of its members, their types, and where their words begin."""

    def __init__(self, name: str, members: tuple[tuple[str, types.Type], ...]) -> None:
        """`name` is that of the Python class."""
        self.members = dict(members)
        self.first_word: dict[str, int] = {}
        words = 0
        for member, numba_type in members:
            self.first_word[member] = words
            words += 1 + (numba_type.ndim if isinstance(numba_type, types.Array) else 0)
        self.words = words
        # Short, for it becomes part of every symbol; the digest tells layouts apart.
        digest = hashlib.sha256(repr(members).encode()).hexdigest()[:12]
        super().__init__(name=f"{name}_{digest}")


@register_model(HandleType)
class _HandleModel(models.OpaqueModel):
    """A pointer."""


@infer_getattr
class _HandleAttributes(AttributeTemplate):
    key = HandleType

    def generic_resolve(self, numba_type: Any, name: Any) -> Any:  # type: ignore[override]
        return numba_type.members.get(name)


@dataclass(frozen=True, eq=False)
class Handle:
    """Base of frozen dataclasses of arrays, numbers, other handles and named tuples of these.

    Arrays are contiguous and belong to the handle for its life: compiled code writes to them.
    """

    def __post_init__(self) -> None:
        """Write down where the members are.

        Raises:
            TypeError: a member is of another kind, or an array that is not contiguous.
        """
        _pack(self, self.members())

    def members(self) -> dict[str, Any]:
        """By name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def copied(self, shared: Collection[str] = ()) -> Self:
        """The same with arrays of its own; the members named `shared` stay one with this handle's.

        Compiled code keeps to addresses, so this is what copies a handle, `copy.deepcopy` too.
        """
        return type(self)(
            **{
                name: value if name in shared else _copied(value)
                for name, value in self.members().items()
            }
        )

    def overwrite(self, other: Self, shared: Collection[str] = ()) -> None:
        """Become a copy of `other`, whose arrays have the same shapes, in the arrays there are.

        Cheaper than `copied`: nothing is made. Members that are no arrays stay, as do `shared`.
        """
        for name, value in self.members().items():
            if name not in shared:
                _overwrite(value, getattr(other, name))

    def __deepcopy__(self, memo: object) -> Self:
        """Arrays of its own, all of them."""
        return self.copied()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its members: addresses mean nothing elsewhere."""
        return type(self), tuple(self.members().values())


def _copied(value: Any) -> Any:
    if isinstance(value, Handle):
        return value.copied()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_copied, value))
    if not isinstance(value, np.ndarray):
        return value
    twin = np.empty_like(value)
    _bytes(twin)[:] = _bytes(value)
    return twin


def _overwrite(mine: Any, theirs: Any) -> None:
    if isinstance(mine, Handle):
        mine.overwrite(theirs)
    elif isinstance(mine, tuple):
        for one, other in zip(mine, theirs, strict=True):
            _overwrite(one, other)
    elif isinstance(mine, np.ndarray):
        if mine.shape != theirs.shape:
            raise ValueError(f"arrays of {mine.shape} cannot become those of {theirs.shape}")
        _bytes(mine)[:] = _bytes(theirs)


def _bytes(array: Any) -> Any:
    """The bytes of a contiguous array: rows copied field by field take ten times as long."""
    return array.reshape(-1).view(np.uint8)


_types: dict[tuple[object, ...], HandleType] = {}  # interned, by name and members


class _Packed:
    """The words of a named tuple inside a handle."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        _pack(self, dict(zip(values._fields, values, strict=True)), type(values).__name__)  # type: ignore[attr-defined]


def _pack(owner: Any, members: dict[str, Any], name: str = "") -> None:
    name = name or type(owner).__name__
    kept: list[_Packed] = []
    numba_types: list[types.Type] = []
    words: list[int] = []
    for member, given in members.items():
        value = given
        if isinstance(given, tuple) and hasattr(given, "_fields"):
            value = _Packed(given)
            kept.append(value)
        numba_type, its_words = _member(value, name, member)
        numba_types.append(numba_type)
        words += its_words
    block = np.array(words, dtype=np.int64)
    put = object.__setattr__  # dataclasses are frozen
    put(owner, "_block", block)
    put(owner, "_kept", kept)
    put(owner, "_address", block.ctypes.data)
    # By identity: all types are kept, and numba hashes types again and again.
    key = (name, *members, *map(id, numba_types))
    if key not in _types:
        _types[key] = HandleType(name, tuple(zip(members, numba_types, strict=True)))
    put(owner, "_numba_type_", _types[key])


def _member(value: Any, name: str, member: str) -> tuple[Any, Sequence[int]]:
    """Its kind, and its words in the block."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            place = f"{name}.{member}"
            raise TypeError(f"{place} is not contiguous; a handle takes contiguous arrays only")
        return _array_type(value.dtype, value.ndim), (value.ctypes.data, *value.shape)
    if isinstance(value, Handle | _Packed):
        return value._numba_type_, (value._address,)  # type: ignore[union-attr]
    if type(value) not in _SCALARS:
        raise TypeError(
            f"{name}.{member} is of {type(value).__name__}; compiled code reads no such thing"
        )
    word = np.float64(value).view(np.int64) if isinstance(value, float) else value
    return _SCALARS[type(value)], (int(word),)


@cache
def _array_type(dtype: np.dtype[Any], ndim: int) -> types.Array:
    return types.Array(from_dtype(dtype), ndim, "C", readonly=False, aligned=True)


@typeof_impl.register(Handle)
def _typeof_handle(handle: Any, context: object) -> HandleType:
    del context
    return handle._numba_type_  # type: ignore[no-any-return]


@unbox(HandleType)
def _unbox_handle(numba_type: HandleType, handle: Any, c: Any) -> NativeValue:
    del numba_type
    address = c.pyapi.object_getattr_string(handle, "_address")
    word = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(word, cgutils.voidptr_t))


class _AtAddress(Protocol):
    def __call__(self, address: int, like: H) -> H:
        """The handle of the type of `like` at an address that `handle_address` gave."""


@intrinsic
def _at_address(typing: Any, address: Any, like: Any) -> Any:
    del typing, address

    def lower(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        del context, signature
        return builder.inttoptr(given[0], cgutils.voidptr_t)

    return like(types.int64, like), lower


at_address = cast(_AtAddress, _at_address)  # for compiled loops over many handles


@intrinsic
def _one_by_one(typing: Any) -> Any:
    del typing

    def lower(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        del signature, given
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
        return context.get_dummy_value()

    return types.void(), lower


one_by_one = cast(Callable[[], None], _one_by_one)
"""Keeps LLVM from making vectors of the loop around it.

Doubles become floats by `vcvtpd2ps` from memory, four at a time, and LLVM clears no registers
after that, as it writes none of 256 bits. The processor takes the upper halves for used all the
same, and every logarithm of the C library then takes 150 ns instead of 6 until something clears
them: a quarter of an agent's decision (24 us instead of 18, eight agents on 128 GPUs).
"""


def handle_address(handle: Handle, like: Handle) -> int:
    """Where a handle is, for `at_address`; it has to outlive that.

    Raises:
        TypeError: they are not of one type.
    """
    if handle._numba_type_ is not like._numba_type_:  # type: ignore[attr-defined]
        raise TypeError(f"a {type(handle).__name__} with arrays of other kinds than its like")
    return int(handle._address)  # type: ignore[attr-defined]


def _word(builder: Any, block: Any, at: int) -> Any:
    """Word number `at` of a block."""
    words = builder.bitcast(block, _WORD.as_pointer())
    loaded = builder.load(builder.gep(words, [ir.IntType(32)(at)], inbounds=True))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@lower_getattr_generic(HandleType)
def _get_member(context: Any, builder: Any, numba_type: HandleType, block: Any, name: str) -> Any:
    member, first = numba_type.members[name], numba_type.first_word[name]
    word = _word(builder, block, first)
    if isinstance(member, HandleType):
        return builder.inttoptr(word, cgutils.voidptr_t)
    if isinstance(member, types.Array):
        shape = [_word(builder, block, first + 1 + axis) for axis in range(member.ndim)]
        return _array(context, builder, member, word, shape)
    return builder.bitcast(word, ir.DoubleType()) if member is types.float64 else word


def _array(context: Any, builder: Any, like: types.Array, address: Any, shape: list[Any]) -> Any:
    """A view without an owner."""
    array = context.make_array(like)(context, builder)
    bytes_each = context.get_abi_sizeof(context.get_data_type(like.dtype))
    stride = context.get_constant(types.intp, bytes_each)
    strides: list[Any] = []
    for axis in reversed(range(like.ndim)):
        strides.insert(0, stride)
        if axis > 0:
            stride = builder.mul(stride, shape[axis], flags=["nsw"])
    populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=shape,
        strides=strides,
        itemsize=context.get_constant(types.intp, bytes_each),
        meminfo=None,
    )
    return array._getvalue()


def caller(returns: types.Type) -> Any:
    """A compiled function (address, *handles and numbers) that calls what stands there.

    What is called takes the same, numbers as int64, and gives `returns`.
    """

    @intrinsic
    def call(typing: Any, address: Any, *given: Any) -> Any:
        del typing, address
        taken = tuple(_type_of(each) for each in given)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del signature
            function_type = context.call_conv.get_function_type(returns, taken)
            function = builder.inttoptr(args[0], function_type.as_pointer())
            values = cgutils.unpack_tuple(builder, args[1], len(taken))
            status, result = context.call_conv.call_function(
                builder, function, returns, taken, values
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return result

        return returns(types.int64, types.StarArgTuple(taken)), generate

    return call


def _type_of(given: Any) -> Any:
    """Numbers are int64, whatever they came as."""
    plain = types.unliteral(given)
    return types.int64 if isinstance(plain, types.Integer | types.Boolean) else plain


ask, count, tell = caller(types.boolean), caller(types.int64), caller(types.none)
weigh = caller(types.float64)
_GIVEN = {ask: types.boolean, count: types.int64, tell: types.none, weigh: types.float64}


def signature_of(*handles: Handle, numbers: int) -> tuple[Any, ...]:
    """Types of the arguments of what takes these handles and so many numbers."""
    kinds: Any = handles
    return (*(each._numba_type_ for each in kinds), *(types.int64,) * numbers)


def address_of(function: Any, call: Any, *handles: Handle, numbers: int) -> int:
    """Where a compiled function stands that takes these handles and so many numbers.

    `call` is what calls it: `ask`, `count`, `tell` or `weigh`.

    Raises:
        TypeError: it gives something else than that takes.
    """
    signature = signature_of(*handles, numbers=numbers)
    key = (function, call, *map(id, signature))
    if key not in _addresses:
        _addresses[key] = _address_of(function, call, signature)
    return _addresses[key]


def _address_of(function: Any, call: Any, signature: tuple[Any, ...]) -> int:
    function.compile(signature)
    compiled = function.overloads[signature]
    if compiled.signature.return_type != _GIVEN[call]:
        given = compiled.signature.return_type
        raise TypeError(f"{function.__name__} gives {given}; who calls it takes {_GIVEN[call]}")
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


_addresses: dict[tuple[Any, ...], int] = {}  # of what is compiled
