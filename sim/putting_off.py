"""What is compiled for a caller alone is not finished by itself, unless it is asked for.

What a function calls is linked into it, optimised and made machine code there. numba does that to
each callee by itself, too: a third of the time of compiling. Here a callee is put off: it is linked
and kept as it is, and the rest is done when Python, or an address, asks for it.

This takes the place of methods inside numba, of the one version that setup.cfg allows: look through
it where that is raised. Without `put_off` all works as before, and first runs compile for half as
long again.
"""

from typing import Any, cast

from llvmlite import binding
from numba.core import codegen, cpu, dispatcher, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.environment import lookup_environment

_library, _engine = cast(Any, codegen.JITCodeLibrary), cast(Any, codegen.JITCPUCodegen)
_context, _dispatcher = cast(Any, cpu.CPUContext), cast(Any, dispatcher._DispatcherBase)
_given: dict[str, Any] = {
    "finalize": _library.finalize, "pointer": _library.get_pointer_to_function,
    "keep": _library.serialize_using_object_code, "load": _library._unserialize.__func__,
    "executable": _context.get_executable, "set_env": _engine.set_env,
    "add": _dispatcher.add_overload, "compile": Dispatcher.compile,
}  # fmt: skip
_compiling: list[Any] = []  # each for the sake of the one before
PUT_OFF = "put off"
_library.is_put_off = False


def _finalize(library: Any) -> None:
    if len(_compiling) <= 1:
        _given["finalize"](library)
        _set_environments(library)
        return
    library._raise_if_finalized()
    for each in dict.fromkeys(library._linking_libraries):
        library._final_module.link_in(each._get_module_for_linking(), preserve=True)
    library._finalized = library.is_put_off = True


def _finish(library: Any) -> None:
    """Optimise what was put off, and make machine code of it."""
    if library.is_put_off:
        library.is_put_off, library._shared_module = False, None
        library._optimize_final_module()
        library._finalize_final_module()
        _set_environments(library)


def _set_environments(library: Any) -> None:
    for each in library._final_module.global_variables:
        if (found := lookup_environment(each.name)) is not None:
            library.codegen.set_env(each.name, found)


def _set_env(generator: Any, name: str, environment: Any) -> None:
    if generator._engine.get_global_value_address(name):  # of what is put off there is none
        _given["set_env"](generator, name, environment)


def _pointer(library: Any, name: str) -> Any:
    _finish(library)
    return _given["pointer"](library, name)


def _executable(context: Any, library: Any, *others: Any) -> Any:  # or what stands for it
    return object() if library.is_put_off else _given["executable"](context, library, *others)


def _keep(library: Any) -> Any:
    if library.is_put_off:
        return library.name, PUT_OFF, library._final_module.as_bitcode()
    return _given["keep"](library)


def _load_kept(cls: Any, generator: Any, kept: Any) -> Any:
    name, form, code = kept
    if form != PUT_OFF:
        return _given["load"](cls, generator, kept)
    library = generator.create_library(name)
    library.enable_object_caching()
    library._final_module = binding.parse_bitcode(code)
    library._finalized = library.is_put_off = True
    return library


def _add(function: Any, made: Any) -> None:
    function.overloads[tuple(made.signature.args)] = made
    if not made.library.is_put_off:  # else Python does not find it, and asks `compile`
        _given["add"](function, made)


def _compile(function: Any, signature: Any) -> Any:
    """As numba does; to the end where it is not for the sake of a caller."""
    with global_compiler_lock:
        _compiling.append(function)
        try:
            entry = _given["compile"](function, signature)
        finally:
            _compiling.pop()
        made = function.overloads[tuple(sigutils.normalize_signature(signature)[0])]
        if _compiling or not made.library.is_put_off:
            return entry
        _finish(made.library)
        context = function.targetctx
        entry = _given["executable"](context, made.library, made.fndesc, made.environment)
        context.insert_user_function(entry, made.fndesc, [made.library])
        _add(function, made._replace(entry_point=entry))
        function._cache.save_overload(signature, made)
        return entry


def put_off() -> None:
    """From now on callees are put off, in this process."""
    _library.finalize, _library.get_pointer_to_function = _finalize, _pointer
    _library.serialize_using_object_code, _library._unserialize = _keep, classmethod(_load_kept)
    _context.get_executable, _engine.set_env = _executable, _set_env
    _dispatcher.add_overload = _add
    Dispatcher.compile = _compile  # type: ignore[method-assign, assignment]
