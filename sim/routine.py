"""Compiled functions that are called by address, so that callers are compiled without them.

numba links all that a function calls into it, and optimises it again: a rule that stands ten calls
deep is compiled ten times. A function that is called by its address is compiled once, and only
where it is needed: the caller has a table of addresses, 0 for those that it will not call.
"""

from typing import Any

from numba.core import cgutils, types
from numba.core.extending import intrinsic

from sim.handle import Handle


def caller(returns: types.Type) -> Any:
    """A compiled function (address, handle, handle, *numbers) that calls what stands there.

    What is called takes the same handles and numbers, all int64, and gives `returns`.
    """

    @intrinsic
    def call(typing: Any, address: Any, first: Any, second: Any, *numbers: Any) -> Any:
        del typing, address
        taken = (types.unliteral(first), types.unliteral(second), *(types.int64,) * len(numbers))

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del signature
            kind = context.call_conv.get_function_type(returns, taken)
            function = builder.inttoptr(args[0], kind.as_pointer())
            # The numbers come as one tuple, for they are any number.
            given = [*args[1:3], *cgutils.unpack_tuple(builder, args[3], len(numbers))]
            status, result = context.call_conv.call_function(
                builder, function, returns, taken, given
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return result

        return returns(types.int64, *taken[:2], types.StarArgTuple(taken[2:])), generate

    return call


ask, count, tell = caller(types.boolean), caller(types.int64), caller(types.none)


def address_of(function: Any, first: Handle, second: Handle, numbers: int, call: Any) -> int:
    """Where a compiled function stands that takes these handles and so many numbers.

    `call` is what calls it: `ask`, `count` or `tell`.

    Raises:
        TypeError: it gives something else than that takes.
    """
    kinds: Any = (first, second)
    signature = (*(each._numba_type_ for each in kinds), *(types.int64,) * numbers)
    function.compile(signature)
    compiled = function.overloads[signature]
    wanted = {id(ask): types.boolean, id(count): types.int64, id(tell): types.none}[id(call)]
    if compiled.signature.return_type != wanted:
        told = compiled.signature.return_type
        raise TypeError(f"{function.__name__} gives {told}; who calls it takes {wanted}")
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address
