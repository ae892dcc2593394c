"""Compiled functions that are called by address, made in several processes at once.

numba compiles one function after the other, and a kind of run that is new waits for several that
know nothing of each other: for 15 to 30 s on one core. So those that are not kept yet are shared
out. The others are compiled by processes of their own, which leave them where compiled code is kept
(`sim.jit`), and this one loads them from there. NUMBA_NUM_THREADS=1 says that this process has one
core: then it does all by itself, as it does where nothing can be kept.
"""

import ctypes
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

from llvmlite import ir
from numba import config
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.event import trigger_event
from numba.core.extending import intrinsic

from sim.arrays import IntArray
from sim.handle import Handle, address_of, signature_of
from sim.jit import MARK, UNREADABLE, is_ours, reach_digest, read_by

FEWEST = 4  # functions to be compiled in all for which another process pays: it takes 1 s to start


class Routine(NamedTuple):
    """A compiled function that another calls by its address, and what it is called with."""

    slot: int  # of the table of addresses
    function: Any
    call: Any  # `ask`, `count`, `tell` or `weigh`
    handles: tuple[Handle, ...]
    numbers: int = 0


class _Task(NamedTuple):
    """A function to be compiled for arguments of these types."""

    function: Any
    signature: tuple[Any, ...]
    work: int  # functions to be compiled for it


def name_of(dispatcher: Dispatcher) -> str:
    """Module and name of a compiled function."""
    return f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"


def kept_in(dispatcher: Dispatcher) -> str | None:
    """The folder in which its compiled code is kept; None: it is compiled anew in each process."""
    return dispatcher.stats.cache_path


def is_of_project(dispatcher: Dispatcher) -> bool:
    """Whether this project defines it, and not a library."""
    return is_ours(dispatcher.py_func)


class Reach(NamedTuple):
    """What compiling a function takes with it."""

    new: int  # functions to be compiled, itself included
    kept: int  # compiled ones that those call: they are loaded and linked


def reach_of(dispatcher: Dispatcher) -> Reach:
    """How much there is to compile before this function can be called.

    A function that is compiled, or kept, for arguments of other types counts as kept.
    """
    seen = {name_of(dispatcher)}
    left: list[Any] = [dispatcher.py_func]
    new, kept = 1, 0
    while left:
        for each in _called_by(left.pop()):
            function: FunctionType = getattr(each, "py_func", each)
            name = f"{function.__module__}.{function.__qualname__}"
            if name in seen:
                continue
            seen.add(name)
            if not isinstance(each, Dispatcher):
                left.append(function)
            elif each.signatures or is_kept(each):
                kept += 1
            else:
                new += 1
                left.append(function)
    return Reach(new, kept)


def _called_by(function: FunctionType) -> Iterator[Any]:
    """Functions of this project that `function` names, compiled ones and others."""
    values = [value for _, value in read_by(function)]
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values += value
        elif isinstance(value, Dispatcher):
            if is_of_project(value):
                yield value
        elif isinstance(value, FunctionType) and is_ours(value):
            yield value


def is_kept(dispatcher: Dispatcher, signature: tuple[Any, ...] | None = None) -> bool:
    """Whether compiled code of it, up to date, is on disk; for a `signature`, or for any."""
    folder, function = kept_in(dispatcher), cast(FunctionType, dispatcher.py_func)
    if folder is None:
        return False
    stem = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}-{MARK}"
    for index in Path(folder).glob(f"{stem}.*.nbi"):
        try:
            with index.open("rb") as stream:
                pickle.load(stream)  # numba's version
                stamp, kept = pickle.load(stream)
        except (OSError, *UNREADABLE):
            return False
        found = bool(kept) if signature is None else any(key[0] == signature for key in kept)
        return found and stamp == reach_digest(function)
    return False


def write_addresses(
    *tables: tuple[IntArray, Iterable[Routine]], entry: tuple[Any, tuple[Any, ...]] | None = None
) -> None:
    """Compile routines, and write into tables of addresses where they stand.

    Args:
        tables: each table, and what stands in it.
        entry: a function, and the signature with which Python is going to call it: compiled too.

    Raises:
        TypeError: a routine gives something else than its call takes.
    """
    rows = [(to, each) for to, routines in tables for each in routines]
    wanted = [(row.function, signature_of(*row.handles, numbers=row.numbers)) for _, row in rows]
    compile_together([*wanted, entry] if entry is not None else wanted)
    for to, row in rows:
        to[row.slot] = address_of(row.function, row.call, *row.handles, numbers=row.numbers)


def compile_together(wanted: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
    """Compile functions for these signatures, several at once where there are cores for it.

    Where that makes no sense nothing happens: each is compiled when it is asked for. So it is where
    a process fails: then this one meets the same error, and shows it.
    """
    settings: Any = config
    cores = 1 if settings.DISABLE_JIT else settings.NUMBA_NUM_THREADS
    if cores == 1:
        return
    tasks = [_task_of(*each) for each in wanted if each[1] not in each[0].overloads]
    tasks = sorted((each for each in tasks if each.work > 0), key=lambda each: -each.work)
    if sum(each.work for each in tasks[1:]) < FEWEST:
        return
    claims, put = os.pipe()
    os.write(put, bytes(range(len(tasks))))
    os.close(put)
    helpers = [_start(tasks, claims) for _ in range(min(cores, len(tasks)) - 1)]
    try:
        for at in _claimed(claims):
            tasks[at].function.compile(tasks[at].signature)
        for process in (each for each in helpers if each.poll() is None):
            with trigger_event("numba:compile", data={"dispatcher": tasks[1].function}):
                process.wait()
    finally:
        os.close(claims)
        for process in helpers:
            process.kill()
            process.wait()


def _claimed(claims: int) -> Iterator[int]:
    """Tasks that no other process has taken: each is a byte of a pipe, and is read once."""
    while claim := os.read(claims, 1):
        yield claim[0]


def _task_of(function: Any, signature: tuple[Any, ...]) -> _Task:
    """What there is to do; no work where it is kept, or cannot be."""
    is_new = kept_in(function) is not None and not is_kept(function, signature)
    return _Task(function, signature, reach_of(function).new if is_new else 0)


def _start(tasks: list[_Task], claims: int) -> "subprocess.Popen[bytes]":
    """A process that compiles what it claims, and ends."""
    names = [
        (each.function.py_func.__module__, each.function.py_func.__qualname__) for each in tasks
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "sim.compiling"], pass_fds=(claims,),
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_NUM_THREADS": "1"},
    )  # fmt: skip
    message = pickle.dumps((names, [each.signature for each in tasks], claims))
    with suppress(BrokenPipeError):  # it has failed; so shall we, and say why
        assert process.stdin is not None
        process.stdin.write(message)
        process.stdin.close()
    return process


def _main() -> None:
    """Compile what standard input names, and nobody else has claimed."""
    names, signatures, claims = pickle.load(sys.stdin.buffer)
    functions = [getattr(import_module(module), name) for module, name in names]
    for at in _claimed(claims):
        functions[at].compile(signatures[at])


if __name__ == "__main__":
    _main()


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
        function_type = ir.FunctionType(word, [word, word])
        return builder.call(builder.inttoptr(args[0], function_type.as_pointer()), args[1:])

    return types.int64(types.int64, types.int64, types.int64), generate


call_python = cast(Callable[[int, int, int], int], _call_python)
PYTHON = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def address_in_c(function: Any) -> int:
    """Where a function made by `PYTHON` stands."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
