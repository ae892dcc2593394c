"""Compiled functions that are called by address, so that callers are compiled without them.

numba links all that a function calls into it, and optimises it again: a rule that stands ten calls
deep is compiled ten times. A function that is called by its address is compiled once, and only
where it is needed: the caller has a table of addresses, 0 for those that it will not call.
"""

import ctypes
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic

from sim.handle import Handle


def caller(returns: types.Type) -> Any:
    """A compiled function (address, *handles and numbers) that calls what stands there.

    What is called takes the same, numbers as int64, and gives `returns`.
    """

    @intrinsic
    def call(typing: Any, address: Any, *given: Any) -> Any:
        del typing, address
        taken = tuple(_kind_of(each) for each in given)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del signature
            kind = context.call_conv.get_function_type(returns, taken)
            function = builder.inttoptr(args[0], kind.as_pointer())
            values = cgutils.unpack_tuple(builder, args[1], len(taken))
            status, result = context.call_conv.call_function(
                builder, function, returns, taken, values
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return result

        return returns(types.int64, types.StarArgTuple(taken)), generate

    return call


def _kind_of(given: Any) -> Any:
    """Numbers are int64, whatever they came as."""
    plain = types.unliteral(given)
    return types.int64 if isinstance(plain, types.Integer | types.Boolean) else plain


ask, count, tell = caller(types.boolean), caller(types.int64), caller(types.none)


def address_of(function: Any, call: Any, *handles: Handle, numbers: int) -> int:
    """Where a compiled function stands that takes these handles and so many numbers.

    `call` is what calls it: `ask`, `count` or `tell`.

    Raises:
        TypeError: it gives something else than that takes.
    """
    kinds: Any = handles
    signature = (*(each._numba_type_ for each in kinds), *(types.int64,) * numbers)
    function.compile(signature)
    compiled = function.overloads[signature]
    wanted = {id(ask): types.boolean, id(count): types.int64, id(tell): types.none}[id(call)]
    if compiled.signature.return_type != wanted:
        told = compiled.signature.return_type
        raise TypeError(f"{function.__name__} gives {told}; who calls it takes {wanted}")
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


@intrinsic
def _call_python(typing: Any, address: Any, first: Any, second: Any) -> Any:
    """Compiled (address, int64, int64) -> int64: calls a Python function by its C address.

    The address is that of `PYTHON(function)`, which has to outlive the calls. An error cannot
    leave the function: it has to catch what it raises, and say so with what it gives.
    """
    del typing, address, first, second

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(types.int64, types.int64, types.int64), generate


call_python = cast(Callable[[int, int, int], int], _call_python)
PYTHON = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def address_in_c(function: Any) -> int:
    """Where a function made by `PYTHON` stands."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
